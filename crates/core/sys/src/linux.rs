//! Linux: UDP with control messages and batches, timers, clocks, and waiting for several
//! descriptors.

mod addr;
mod clock;
mod cmsg;
mod errno;
mod filled;
mod options;
mod path_errors;
mod poll;
mod recv;
#[cfg(any(test, feature = "fuzz-internals"))]
#[doc(hidden)]
#[path = "linux/tests/script.rs"]
pub mod script;
mod send;
mod socket;
mod syscall;
mod timer;

pub use crate::ErrorClass;
pub use clock::{clock_pair, monotonic_now, process_cpu_time, realtime_now, thread_cpu_time};
pub use options::Features;
pub use path_errors::{PathError, PathErrorKind};
pub use poll::Poll;
pub use recv::{MAX_RECV_BATCH, Meta, Received, RecvBatch};
pub use send::{MAX_GSO_SEGMENTS, MAX_SEND_BATCH, MAX_SLICES, Transmit};
pub use socket::UdpSocket;
pub use syscall::{local_time, run_first};
pub use timer::Timer;

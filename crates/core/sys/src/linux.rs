//! Linux: UDP with control messages and batches, timers, clocks, TUN devices, network and PID namespaces.

mod addr;
mod clock;
mod cmsg;
mod errno;
mod link;
mod netns;
mod options;
mod path_errors;
mod poll;
mod process;
mod recv;
#[cfg(any(test, feature = "fuzz-internals"))]
#[doc(hidden)]
pub mod script;
mod send;
mod socket;
mod syscall;
mod timer;
mod tun;
pub mod veth;

pub use clock::{clock_pair, monotonic_now, process_cpu_time, realtime_now, thread_cpu_time};
pub use errno::ErrorClass;
pub use link::Link;
pub use netns::NetNs;
pub use options::Features;
pub use path_errors::{PathError, PathErrorKind};
pub use poll::Poll;
pub use process::{Processes, die_with_parent, own_mounts, run_first, terminate, wait_any};
pub use recv::{MAX_RECV_BATCH, Meta, Received, RecvBatch};
pub use send::{MAX_GSO_SEGMENTS, MAX_SEND_BATCH, MAX_SLICES, Transmit};
pub use socket::UdpSocket;
pub use timer::Timer;
pub use tun::Tun;
pub use veth::VethPair;

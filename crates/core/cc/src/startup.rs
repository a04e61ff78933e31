//! Start-up schemes: how a connection may open its window at once, before the slow-start variant begins.

pub(crate) mod cached_start;
pub(crate) mod careful_resume;
mod first_flight;
pub(crate) mod halfback;
pub(crate) mod initial_burst;
pub(crate) mod jump_start;
pub(crate) mod none;
pub(crate) mod paced_start;
pub(crate) mod pacing_only;
pub(crate) mod probing_start;
pub(crate) mod quick_start;
pub(crate) mod rc3;
pub(crate) mod swift_start;

use longhaul_units::Bytes;

use crate::{Ack, Episode};

/// Returns whether the congestion that a start-up scheme responded to is over. After a loss, it is over when the
/// recovery episode ends. After an ECN mark, which has no episode, it is over when all of `sent` is `delivered`, or
/// when nothing is in flight.
fn accounted_for(ack: &Ack<'_>, delivered: Bytes, sent: Bytes) -> bool {
    match ack.episode {
        Episode::In | Episode::Again => false,
        Episode::Exit => true,
        _ => delivered >= sent || ack.in_flight == Bytes::ZERO,
    }
}

/// Converts a bound in KiB to bytes; zero means no bound.
const fn bound(kib: u64) -> Bytes {
    if kib == 0 { Bytes::MAX } else { Bytes(kib.saturating_mul(1024)) }
}

pub use none::NoStartup;
pub use pacing_only::{PacingOnly, Pattern};
pub use swift_start::{SwiftStart, SwiftStartConfig};

//! Start-up schemes: how a connection may open its window at once, before the slow-start variant begins.

pub mod cached_start;
pub mod careful_resume;
mod first_flight;
pub mod halfback;
pub mod initial_burst;
pub mod jump_start;
pub mod none;
pub mod paced_start;
pub mod pacing_only;
pub mod probing_start;
pub mod quick_start;
pub mod rc3;
pub mod swift_start;

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

pub use cached_start::CachedStart;
pub use careful_resume::{CarefulResume, CarefulResumeConfig};
pub use halfback::{Halfback, HalfbackConfig};
pub use initial_burst::InitialBurst;
pub use jump_start::{JumpStart, JumpStartConfig};
pub use none::NoLaunch;
pub use paced_start::{PacedStart, PacedStartConfig};
pub use pacing_only::{PacingOnly, Pattern};
pub use probing_start::{ProbingStart, ProbingStartConfig};
pub use quick_start::{QuickStart, QuickStartConfig};
pub use rc3::{Rc3, Rc3Config};
pub use swift_start::hardened::{SwiftStartHardened, SwiftStartHardenedConfig};
pub use swift_start::{SwiftStart, SwiftStartConfig};

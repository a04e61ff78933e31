//! Start-up schemes: they may open the window at once, before the slow-start variant begins.

pub(crate) mod cached_start;
pub(crate) mod careful_resume;
pub(crate) mod none;
pub(crate) mod swift_start;

use longhaul_units::Bytes;

use crate::describe::{OptionSpec, Rule};
use crate::{Ack, Episode};

/// Low priority: the lower-effort (LE) behaviour (RFC 8622, section 4).
pub const DSCP_LE: u8 = 1;

/// DiffServ codepoint of probes, an option of all stages that send probes. The probes of a start-up scheme and of a
/// recovery algorithm share it, because routers would otherwise prefer one to the other.
pub const DSCP_OPTION: OptionSpec = OptionSpec::int(
    "dscp",
    0,
    63,
    DSCP_LE as u64,
    "codepoint of the probes; 8 is CS1, which some domains prefer to others",
)
.ruled(&[Rule::Shared]);

/// Returns whether the congestion that a start-up scheme responded to is over. After a loss, it is over when the
/// recovery episode ends. After an ECN mark, which has no episode, it is over when all of `sent` is `delivered`, or
/// when nothing is in flight.
#[must_use]
pub fn accounted_for(ack: &Ack<'_>, delivered: Bytes, sent: Bytes) -> bool {
    match ack.episode {
        Episode::In | Episode::Again => false,
        Episode::Exit => true,
        _ => delivered >= sent || ack.in_flight == Bytes::ZERO,
    }
}

/// Converts a bound in KiB to bytes; zero means no bound.
pub const fn bound(kib: u64) -> Bytes {
    if kib == 0 { Bytes::MAX } else { Bytes(kib.saturating_mul(1024)) }
}

pub(crate) use none::NoStartup;
pub use swift_start::{SwiftStart, SwiftStartConfig};

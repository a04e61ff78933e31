//! Limit on the bytes by which one ACK may raise the window in slow start (RFC 3465).

use longhaul_units::Bytes;

use crate::describe::OptionSpec;
use crate::{Ack, Episode, Path};

/// Maximum number of segments that one ACK may count for if the transport does not pace (RFC 3465, section 2.2).
const UNPACED: u32 = 2;

/// Option of all slow-start variants that use the limit of RFC 3465.
pub const L_OPTION: OptionSpec =
    OptionSpec::int("l", 0, 1000, 0, "segments that one ACK may count for; 0: unlimited if paced, else 2");

/// Limit on the bytes that one ACK may count for: `L` of RFC 3465 and RFC 9406.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckLimit {
    /// Limit in segments per ACK, as configured; zero chooses the limit by whether the transport paces.
    configured: u32,
    /// Limit in segments per ACK if `configured` is zero and the transport does not pace.
    unpaced: u32,
}

impl AckLimit {
    /// Returns a limit of `configured` segments per ACK. Zero means no limit if the transport paces, and `unpaced`
    /// segments otherwise.
    #[must_use]
    pub const fn new(configured: u32, unpaced: u32) -> Self {
        Self { configured, unpaced }
    }

    /// Returns a limit of `configured` segments per ACK. Zero means no limit if the transport paces, and two segments
    /// otherwise (RFC 3465, section 2.2).
    #[must_use]
    pub const fn rfc3465(configured: u32) -> Self {
        Self::new(configured, UNPACED)
    }

    /// Returns how many bytes of `grow` count.
    ///
    /// After a timeout, a cumulative ACK may cover data that arrived long before. Without SACK, such an ACK counts for
    /// one segment, because the sender cannot tell how much of the covered data arrived recently (RFC 3465, section
    /// 2.3).
    #[must_use]
    pub fn apply(&self, grow: Bytes, ack: &Ack<'_>, path: &Path) -> f64 {
        let segments = match (ack.episode, self.configured) {
            (Episode::Rto, _) if !path.sack => 1,
            (_, 0) if path.paced => return grow.as_f64(),
            (_, 0) => self.unpaced,
            (_, configured) => configured,
        };
        grow.min(path.mss * u64::from(segments)).as_f64()
    }
}

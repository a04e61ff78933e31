//! How much one ACK opens the window.

use longhaul_units::Bytes;

use crate::describe::OptionSpec;
use crate::{Ack, Detection, Episode, Granted, Path};

/// Segments that one ACK counts for at most when nothing is paced (RFC 3465, section 2.2).
const UNPACED: u32 = 2;

/// The option of every start whose limit is RFC 3465's.
pub(crate) const L_OPTION: OptionSpec =
    OptionSpec::int("l", 0, 1000, 0, "segments an ACK may count for; 0: no limit if paced, 2 if not");

/// How many bytes of one ACK count: the `L` of RFC 3465 and RFC 9406.
#[derive(Clone, Copy, Debug)]
pub struct AckLimit {
    /// Segments an ACK, as configured; zero chooses by pacing.
    configured: u32,
    /// Segments an ACK if bursts are not paced.
    unpaced: u32,
    paced: bool,
    sack: bool,
}

impl AckLimit {
    /// One ACK counts for at most `configured` segments; zero means no limit over a paced transport and `unpaced`
    /// segments over another.
    #[must_use]
    pub const fn new(configured: u32, unpaced: u32) -> Self {
        Self { configured, unpaced, paced: true, sack: true }
    }

    /// One ACK counts for at most `configured` segments; zero means no limit over a paced transport and two segments
    /// over another (RFC 3465, section 2.2).
    #[must_use]
    pub const fn rfc3465(configured: u32) -> Self {
        Self::new(configured, UNPACED)
    }

    /// Learns whether the transport paces.
    pub const fn on_granted(&mut self, granted: &Granted) {
        self.paced = granted.pacing;
    }

    /// Whether the transport paces.
    pub(crate) const fn is_paced(&self) -> bool {
        self.paced
    }

    /// Learns whether acknowledgements are selective.
    pub fn on_detection(&mut self, detection: Detection) {
        self.sack = detection != Detection::DuplicateAcks;
    }

    /// How many bytes of `grow` count. After a timeout a cumulative ACK may cover data that arrived long ago: without
    /// SACK, which tells the two apart, it counts for one segment (RFC 3465, section 2.3).
    #[must_use]
    pub fn apply(&self, grow: Bytes, ack: &Ack<'_>, path: &Path) -> f64 {
        let segments = match (ack.episode, self.configured) {
            (Episode::Rto, _) if !self.sack => 1,
            (_, 0) if self.paced => return grow.as_f64(),
            (_, 0) => self.unpaced,
            (_, configured) => configured,
        };
        grow.min(path.mss * u64::from(segments)).as_f64()
    }
}

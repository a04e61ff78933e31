//! Growth: how the window rises until the path's capacity is found.

pub mod astart;
pub mod fast_start;
pub mod hybla_start;
pub mod hystart_pp;
pub mod limited_slow_start;
pub mod slow_start;
pub mod vegas_start;

pub use astart::Astart;
pub use fast_start::FastStart;
pub use hybla_start::HyblaStart;
pub use hystart_pp::HyStartPp;
pub use limited_slow_start::LimitedSlowStart;
pub use slow_start::SlowStart;
pub use vegas_start::VegasStart;

use longhaul_units::Bytes;

use crate::{Ack, Detection, Episode, Granted, Path};

/// How many bytes of one ACK count: the `L` of RFC 3465 and RFC 9406.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckLimit {
    /// Segments an ACK, as configured; zero chooses by pacing.
    configured: u32,
    /// Segments an ACK if bursts are not paced.
    unpaced: u32,
    paced: bool,
    sack: bool,
}

impl AckLimit {
    pub(crate) const fn new(configured: u32, unpaced: u32) -> Self {
        Self { configured, unpaced, paced: true, sack: true }
    }

    pub(crate) fn on_granted(&mut self, granted: &Granted) {
        self.paced = granted.pacing;
    }

    pub(crate) fn on_detection(&mut self, detection: Detection) {
        self.sack = detection != Detection::DuplicateAcks;
    }

    /// How much of `grow` counts. After a timeout a cumulative ACK may cover data that arrived long ago: without
    /// SACK, which tells the two apart, it counts for one segment (RFC 3465, section 2.3).
    pub(crate) fn apply(&self, grow: Bytes, ack: &Ack<'_>, path: &Path) -> f64 {
        let segments = match (ack.episode, self.configured) {
            (Episode::Rto, _) if !self.sack => 1,
            (_, 0) if self.paced => return grow.as_f64(),
            (_, 0) => self.unpaced,
            (_, configured) => configured,
        };
        grow.min(path.mss * u64::from(segments)).as_f64()
    }
}

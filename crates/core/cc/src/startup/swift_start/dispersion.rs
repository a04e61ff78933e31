//! Dispersion of segments that were sent together, measured at the receiver.

use longhaul_units::{Bytes, Rate, Span};

use crate::AckedSegment;
use crate::estimate::{Neighbours, PacketPair, PairSample};

/// Minimum number of gaps for an estimate. A flight of four segments has this many.
pub(crate) const LEAST_GAPS: u32 = 3;

/// Arrival rate of segments sent back to back, by the receiver's clock.
///
/// Only consecutive segments count that were sent at the same time, arrived separately and were reported; it does not
/// matter which ACKs report them or how late. The estimate is the lower of two rates: the median of the gaps' rates,
/// which is robust against single early or late segments, and the rate over all gaps, which includes the share of other
/// flows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dispersion {
    neighbours: Neighbours,
    pairs: PacketPair,
    /// Gaps since the last [`restart`](Self::restart).
    pub(crate) gaps: u32,
    span: Span,
    bytes: Bytes,
}

impl Dispersion {
    /// Processes a delivered segment. Segments must be reported in the order in which they were sent; otherwise they do
    /// not count as consecutive.
    pub(crate) fn note(&mut self, segment: &AckedSegment) {
        if let Some(dispersion) = self.neighbours.gap(segment).filter(|gap| !gap.is_zero()) {
            self.pairs.on_pair(&PairSample { dispersion, bytes: segment.bytes, ..PairSample::default() });
            self.gaps = self.gaps.saturating_add(1);
            self.span += dispersion;
            self.bytes += segment.bytes;
        }
    }

    /// Resets the counters; the median keeps its samples.
    pub(crate) const fn restart(&mut self) {
        (self.gaps, self.span, self.bytes) = (0, Span::ZERO, Bytes::ZERO);
    }

    /// Returns the payload rate, if there are enough gaps.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let together = Rate::from_bytes_over(self.bytes, self.span);
        let median = self.pairs.median().filter(|_| self.gaps >= LEAST_GAPS)?;
        Some(median.min(together)).filter(|rate| *rate > Rate::ZERO)
    }
}

#[cfg(test)]
mod tests;

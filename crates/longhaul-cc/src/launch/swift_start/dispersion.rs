//! Dispersion of segments that were sent together, measured at the receiver.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::estimate::{PacketPair, PairSample};
use crate::{AckedSegment, SegmentKind, TxId};

/// Minimum number of gaps for an estimate. A flight of four segments has this many.
pub(crate) const LEAST_GAPS: u32 = 3;

/// The previous segment.
#[derive(Clone, Copy, Debug)]
struct Last {
    tx: TxId,
    sent_at: Time,
    arrival: Time,
}

/// Arrival rate of segments sent back to back, by the receiver's clock.
///
/// Only consecutive segments count that were sent at the same time, arrived separately and were reported; it does not
/// matter which ACKs report them, and how late. The estimate is the lower of two rates: the median of the gaps' rates,
/// which is robust against single early or late segments, and the rate over all gaps, which includes the share of
/// other flows.
#[derive(Clone, Debug, Default)]
pub struct Dispersion {
    last: Option<Last>,
    pairs: PacketPair,
    /// Gaps since the last [`restart`](Self::restart).
    gaps: u32,
    span: Span,
    bytes: Bytes,
}

impl Dispersion {
    /// Processes a delivered segment. Segments have to be reported in the order of sending, or they are not
    /// consecutive.
    pub fn note(&mut self, segment: &AckedSegment) {
        let single = segment.kind == SegmentKind::Data && !segment.arrival_coalesced;
        let now = segment.arrival.filter(|_| single).map(|arrival| Last {
            tx: segment.tx,
            sent_at: segment.sent_at,
            arrival,
        });
        let before = std::mem::replace(&mut self.last, now);
        let Some((before, now)) = before.zip(now) else { return };
        let neighbours = now.tx.0 == before.tx.0.saturating_add(1) && now.sent_at == before.sent_at;
        if neighbours && now.arrival > before.arrival {
            let dispersion = now.arrival.since(before.arrival);
            self.pairs.on_pair(&PairSample { dispersion, bytes: segment.bytes, ..PairSample::default() });
            self.gaps = self.gaps.saturating_add(1);
            self.span += dispersion;
            self.bytes += segment.bytes;
        }
    }

    /// Starts counting again; the median keeps its samples.
    pub const fn restart(&mut self) {
        (self.gaps, self.span, self.bytes) = (0, Span::ZERO, Bytes::ZERO);
    }

    /// Returns the gaps since the last [`restart`](Self::restart).
    #[must_use]
    pub const fn gaps(&self) -> u32 {
        self.gaps
    }

    /// Returns the payload rate, if there are enough gaps.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let together = Rate::from_bytes_over(self.bytes, self.span);
        let median = self.pairs.median().filter(|_| self.gaps >= LEAST_GAPS)?;
        Some(median.min(together)).filter(|rate| *rate > Rate::ZERO)
    }
}

#[cfg(test)]
mod tests;

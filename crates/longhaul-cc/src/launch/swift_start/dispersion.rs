//! How far apart segments arrive that left together.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::estimate::{PacketPair, PairSample};
use crate::{AckedSegment, SegmentKind, TxId};

/// Gaps that an estimate rests on at least. A flight of four segments has so many.
pub(crate) const LEAST_GAPS: u32 = 3;

/// The segment before.
#[derive(Clone, Copy, Debug)]
struct Last {
    tx: TxId,
    sent_at: Time,
    arrival: Time,
}

/// The rate at which segments arrive that left back to back, by the receiver's clock.
///
/// Only neighbours count that left at one time, arrived one by one and were reported, whichever ACKs told of them and however
/// late. The estimate is the lower of two: the median of the gaps' rates, which the odd late or early segment does not
/// move, and what all of them took together, which has the share of others in it.
#[derive(Clone, Debug, Default)]
pub struct Dispersion {
    last: Option<Last>,
    pairs: PacketPair,
    /// Since the last [`restart`](Self::restart).
    gaps: u32,
    span: Span,
    bytes: Bytes,
}

impl Dispersion {
    /// A segment was delivered. In the order of sending, else it is no neighbour.
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

    /// Counts from here on; the median keeps what it has.
    pub const fn restart(&mut self) {
        (self.gaps, self.span, self.bytes) = (0, Span::ZERO, Bytes::ZERO);
    }

    /// Gaps since the last [`restart`](Self::restart).
    #[must_use]
    pub const fn gaps(&self) -> u32 {
        self.gaps
    }

    /// The rate of payload, if there are enough gaps.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let together = Rate::from_bytes_over(self.bytes, self.span);
        let median = self.pairs.median().filter(|_| self.gaps >= LEAST_GAPS)?;
        Some(median.min(together)).filter(|rate| *rate > Rate::ZERO)
    }
}

#[cfg(test)]
mod tests;

//! Gaps between neighbouring segments that were sent together.

use longhaul_units::{Span, Time};

use crate::{AckedSegment, SegmentKind, TxId};

#[derive(Clone, Copy, Debug)]
struct Last {
    tx: TxId,
    sent_at: Time,
    arrival: Time,
}

/// Finds consecutive segments of new data that were sent at the same time, and whose arrivals the peer reported
/// separately. It does not matter which ACKs report them, or how late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Neighbours {
    last: Option<Last>,
}

impl Neighbours {
    /// Processes a delivered segment. Returns the time between the arrivals of its predecessor and of itself if the two
    /// were sent together; zero if the peer's clock shows the same time. Segments must be reported in the order of
    /// sending; otherwise, they are not consecutive.
    pub(crate) fn gap(&mut self, segment: &AckedSegment) -> Option<Span> {
        let single = segment.kind == SegmentKind::Data && !segment.arrival_coalesced;
        let here = segment.arrival.filter(|_| single).map(|arrival| Last {
            tx: segment.tx,
            sent_at: segment.sent_at,
            arrival,
        });
        let (before, here) = (std::mem::replace(&mut self.last, here)?, here?);
        let together = here.tx.0 == before.tx.0.saturating_add(1) && here.sent_at == before.sent_at;
        (together && here.arrival >= before.arrival).then(|| here.arrival.since(before.arrival))
    }
}

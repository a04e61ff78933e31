//! UDT's receiver measurements, from the arrival times that the peer reports.

use longhaul_cc::{Ack, AckedSegment, SegmentKind};
use longhaul_units::{Bytes, Span, Time};

use super::intervals::Intervals;

/// Time after a report of a pair's arrival times for which the spacing of ACKs is ignored.
const FRESH: Span = Span::from_secs(10);

/// Measurements by arrival times, which are used while they are available.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    newest: Option<(AckedSegment, Time)>,
    /// First segment of the newest train with its arrival time, and the number of bytes after it.
    train: Option<(AckedSegment, Time)>,
    since_first: f64,
    pair: Option<Time>,
}

impl Told {
    /// Processes the arrival times of an ACK: those of adjacent segments in a train for the capacity, and those of the
    /// first segments of trains for the arrival rate. Returns whether they are sufficient. If there are none, or
    /// receive offload merges all segments, the spacing of ACKs is used.
    pub(super) fn digest(&mut self, ack: &Ack<'_>, mss: Bytes, pairs: &mut Intervals, trains: &mut Intervals) -> bool {
        if let Some(pair) = ack.pair.filter(|pair| pair.rate().is_some()) {
            // The second segment of a flipped pair is full-sized.
            self.take_pair(ack.now, pair.dispersion, mss, pairs);
        }
        for segment in ack.acked {
            self.since_first += segment.bytes.as_f64();
            let told = segment.arrival.filter(|_| segment.kind == SegmentKind::Data);
            let Some(at) = told else {
                self.newest = None;
                continue;
            };
            if let Some((before, then)) = self.newest.replace((*segment, at))
                && are_pair(&before, segment)
            {
                self.take_pair(ack.now, at.since(then), segment.bytes, pairs);
            }
            self.take_train(segment, at, trains);
        }
        self.pair.is_some_and(|pair| ack.now.since(pair) <= FRESH)
    }

    fn take_pair(&mut self, now: Time, apart: Span, bytes: Bytes, pairs: &mut Intervals) {
        if apart > Span::ZERO && bytes > Bytes::ZERO {
            self.pair = Some(now);
            pairs.add(apart.as_secs_f64() / bytes.as_f64());
        }
    }

    fn take_train(&mut self, segment: &AckedSegment, at: Time, trains: &mut Intervals) {
        let Some((first, then)) = self.train.filter(|(first, _)| first.sent_at != segment.sent_at) else {
            if self.train.is_none() {
                self.begin(segment, at);
            }
            return;
        };
        if self.pair.is_some() {
            // Data cannot arrive faster than it was sent, regardless of the peer's reports.
            let apart = at.since(then).max(segment.sent_at.since(first.sent_at));
            trains.add(apart.as_secs_f64() / self.since_first);
        }
        self.begin(segment, at);
    }

    fn begin(&mut self, segment: &AckedSegment, at: Time) {
        (self.train, self.since_first) = (Some((*segment, at)), 0.0);
    }
}

/// Returns whether the second segment was sent right after the first, and neither was merged with other segments on
/// arrival.
fn are_pair(first: &AckedSegment, second: &AckedSegment) -> bool {
    let together = first.sent_at == second.sent_at && first.tx.0.checked_add(1) == Some(second.tx.0);
    together && !first.arrival_coalesced && !second.arrival_coalesced
}

//! What UDT's receiver measures, from what ours tells: when segments arrived.

use longhaul_units::{Bytes, Span, Time};

use super::intervals::Intervals;
use crate::{Ack, AckedSegment, SegmentKind};

/// For so long one pair's times of arrival keep the distances of ACKs out.
const FRESH: Span = Span::from_secs(10);

/// Times of arrival, until ACKs come that tell more.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The newest segment of new data.
    newest: Option<(AckedSegment, Time)>,
    /// The first segment of the newest train, when it arrived, and bytes since.
    train: Option<(AckedSegment, Time)>,
    since_first: f64,
    /// When the last pair was told of.
    pair: Option<Time>,
}

impl Told {
    /// Digests an ACK's times of arrival: those of neighbours in a train for the capacity, those of the first ones of trains
    /// for the rate of arrival. Whether they are all that is needed; where none come, or offload merges whatever arrives,
    /// there are the distances of ACKs.
    pub(super) fn digest(&mut self, ack: &Ack<'_>, mss: Bytes, pairs: &mut Intervals, trains: &mut Intervals) -> bool {
        if let Some(pair) = ack.pair.filter(|pair| pair.rate().is_some()) {
            // The second of a flipped pair is a full segment.
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
            // Data do not arrive faster than they left, whenever the peer says so.
            let apart = at.since(then).max(segment.sent_at.since(first.sent_at));
            trains.add(apart.as_secs_f64() / self.since_first);
        }
        self.begin(segment, at);
    }

    fn begin(&mut self, segment: &AckedSegment, at: Time) {
        (self.train, self.since_first) = (Some((*segment, at)), 0.0);
    }
}

/// Whether the second left right behind the first, and neither was merged with others where it arrived.
fn are_pair(first: &AckedSegment, second: &AckedSegment) -> bool {
    let together = first.sent_at == second.sent_at && first.tx.0.checked_add(1) == Some(second.tx.0);
    together && !first.arrival_coalesced && !second.arrival_coalesced
}

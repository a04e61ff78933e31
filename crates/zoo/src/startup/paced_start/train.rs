//! Train of segments, and the search for the gap with such trains.

use longhaul_cc::{Ack, SegmentKind, Sent};
use longhaul_units::{Bytes, Span};

use crate::startup::Series;

/// Source of arrival times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Arrival times that the receiver reports.
    Arrivals,
    /// Times of ACKs that cover one segment each, as requested. If an ACK of the train covers more, the peer does not
    /// follow the request yet.
    EachAck,
    /// Times of ACKs that may be delayed: an ACK of a single segment may have waited for the delayed-ACK timer.
    Acks,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Train {
    /// Size of the train in bytes: whole segments of `mss`.
    pub(super) size: Bytes,
    pub(super) mss: Bytes,
    /// Gap between the segments; `None` sends them back to back.
    pub(super) gap: Option<Span>,
    pub(super) sent: Bytes,
    pub(super) delivered: Bytes,
    departures: Series,
    arrivals: Series,
    /// Whether an ACK covered more than one segment, and how many single-segment ACKs must follow before they are used.
    merged: bool,
    awaited: u32,
}

/// Number of consecutive ACKs of single segments that rules out delayed ACKs. With two, the second may have waited for
/// the timer.
const SINGLE: u32 = 3;

impl Train {
    pub(super) fn new(size: Bytes, mss: Bytes, gap: Option<Span>) -> Self {
        Self { size, mss, gap, ..Self::default() }
    }

    pub(super) fn on_sent(&mut self, sent: &Sent) {
        self.sent += sent.bytes;
        self.departures.note(sent.now, sent.bytes);
    }

    /// Records the arrival times of segments, or the times of their ACKs if the receiver does not report any.
    /// Retransmissions do not count.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, by: Clock) {
        self.delivered += ack.delivered;
        self.merged |= ack.delivered >= self.mss * 2;
        if by == Clock::EachAck && self.delivered == ack.delivered {
            self.awaited = SINGLE;
        }
        self.awaited = self.awaited.saturating_sub(u32::from(ack.delivered > Bytes::ZERO));
        let least = if by == Clock::Acks || self.merged { self.mss * 2 } else { Bytes(1) };
        match by {
            Clock::Arrivals => {
                for segment in ack.acked.iter().filter(|segment| segment.kind == SegmentKind::Data) {
                    if let Some(arrival) = segment.arrival {
                        self.arrivals.note(arrival, segment.bytes);
                    }
                }
            }
            Clock::EachAck | Clock::Acks if ack.delivered >= least => {
                self.arrivals.note(ack.rx_time.unwrap_or(ack.now), ack.delivered);
            }
            // This ACK may have been sent by the delayed-ACK timer.
            Clock::EachAck | Clock::Acks => {}
        }
    }

    fn arrived(&self) -> Option<Span> {
        self.arrivals.gap(self.mss).filter(|_| self.merged || self.awaited == 0)
    }

    pub(super) fn is_delivered(&self) -> bool {
        self.sent > Bytes::ZERO && self.delivered >= self.sent
    }

    pub(super) fn has_left(&self) -> bool {
        self.sent + self.mss > self.size
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SearchStep {
    /// No result, because the whole train arrived at once.
    Blind,
    /// Gap of the next train.
    Next(Span),
    /// Smallest gap that the path carries without a queue.
    Found(Span),
}

/// Factor on the gap while no sufficient gap is known: the mean of a gap and twice that gap.
const RAISE: f64 = 1.5;

/// Search for the smallest gap that does not grow on the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Search {
    tolerance: f64,
    precision: f64,
    /// Lower bound: the bottleneck's gap, or a larger one that the path increased.
    lower: Span,
    /// Upper bound: the smallest gap that the path did not increase.
    upper: Option<Span>,
}

impl Search {
    pub(super) const fn new(tolerance: f64, precision: f64) -> Self {
        Self { tolerance, precision, lower: Span::ZERO, upper: None }
    }

    pub(super) fn judge(&mut self, train: &Train) -> SearchStep {
        let Some(arrived) = train.arrived() else { return SearchStep::Blind };
        let Some(planned) = train.gap else {
            if train.departures.gap(train.mss).is_some_and(|left| left * 2 > arrived) {
                // The train should have been sent back to back. Its gaps only show how the application wrote.
                return SearchStep::Blind;
            }
            self.lower = arrived;
            return SearchStep::Next(arrived);
        };
        // The gap at the sender, which may differ from the planned one.
        let left = train.departures.gap(train.mss).unwrap_or(planned);
        if arrived > left.mul_f64(1.0 + self.tolerance) {
            self.lower = self.lower.max(left);
        } else {
            self.upper = Some(self.upper.map_or(left, |upper| upper.min(left)));
        }
        match self.upper {
            None => SearchStep::Next(self.lower.mul_f64(RAISE)),
            Some(upper) if upper - self.lower <= upper.mul_f64(self.precision) => SearchStep::Found(upper),
            Some(upper) => SearchStep::Next((self.lower + upper) / 2),
        }
    }
}

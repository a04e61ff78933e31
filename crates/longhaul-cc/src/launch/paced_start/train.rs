//! A train of segments, and what its gaps tell.

use longhaul_units::{Bytes, Span, Time};

use crate::{Ack, SegmentKind, Sent};

/// Segments or ACKs, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Series {
    /// The first and the last time.
    ends: Option<(Time, Time)>,
    /// Bytes that came after the first.
    bytes: Bytes,
}

impl Series {
    fn note(&mut self, at: Time, bytes: Bytes) {
        self.ends = match self.ends {
            None => Some((at, at)),
            Some((first, last)) => {
                self.bytes += bytes;
                Some((first.min(at), last.max(at)))
            }
        };
    }

    /// The mean time from one segment of `mss` to the next; `None` where all came at once.
    fn gap(&self, mss: Bytes) -> Option<Span> {
        let (first, last) = self.ends?;
        let gap = last.since(first).mul_f64(mss.as_f64() / self.bytes.as_f64().max(1.0));
        (gap > Span::ZERO && self.bytes > Bytes::ZERO).then_some(gap)
    }
}

/// By what arrivals are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The receiver tells.
    Arrivals,
    /// By ACKs, of which each is for one segment, as was asked; a train of which one is for more has not been heard of.
    EachAck,
    /// By ACKs that may have been delayed: one for a single segment may have waited for a timer.
    Acks,
}

/// A train on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Train {
    /// Bytes that it is to have: whole segments of `mss`.
    pub(super) size: Bytes,
    pub(super) mss: Bytes,
    /// The gap that it leaves with; `None` is back to back.
    pub(super) gap: Option<Span>,
    pub(super) sent: Bytes,
    pub(super) delivered: Bytes,
    departures: Series,
    arrivals: Series,
    /// Whether an ACK was for more than one segment; and how many, each for one, are awaited before they say anything.
    merged: bool,
    awaited: u32,
}

/// So many ACKs of single segments in a row are no delayed ones: of two, the second may have waited for the timer.
const SINGLE: u32 = 3;

impl Train {
    pub(super) fn new(size: Bytes, mss: Bytes, gap: Option<Span>) -> Self {
        let (departures, arrivals) = (Series::default(), Series::default());
        Self {
            size,
            mss,
            gap,
            sent: Bytes::ZERO,
            delivered: Bytes::ZERO,
            departures,
            arrivals,
            merged: false,
            awaited: 0,
        }
    }

    pub(super) fn on_sent(&mut self, sent: &Sent) {
        self.sent += sent.bytes;
        self.departures.note(sent.now, sent.bytes);
    }

    /// Notes when segments arrived, or if nobody tells, when their ACKs did. What was sent again is no measure of anything.
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
            // A timer may have sent it.
            Clock::EachAck | Clock::Acks => {}
        }
    }

    /// The mean gap in which it arrived, if that is known.
    fn arrived(&self) -> Option<Span> {
        self.arrivals.gap(self.mss).filter(|_| self.merged || self.awaited == 0)
    }

    /// Whether all that has left so far has arrived.
    pub(super) fn is_delivered(&self) -> bool {
        self.sent > Bytes::ZERO && self.delivered >= self.sent
    }

    /// Whether the whole train has left.
    pub(super) fn has_left(&self) -> bool {
        self.sent + self.mss > self.size
    }
}

/// What a train told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Nothing: all of it came at once.
    Blind,
    /// The gap of the next.
    Next(Span),
    /// The gap that the path takes.
    Found(Span),
}

/// Half as much again, while no gap is known that the path takes: the middle between a gap and twice of it.
const RAISE: f64 = 1.5;

/// The search for the least gap that does not grow on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    tolerance: f64,
    precision: f64,
    /// The gap of the narrow link, or a greater one that grew.
    lower: Span,
    /// The least that did not grow.
    upper: Option<Span>,
}

impl Search {
    pub(super) const fn new(tolerance: f64, precision: f64) -> Self {
        Self { tolerance, precision, lower: Span::ZERO, upper: None }
    }

    pub(super) fn judge(&mut self, train: &Train) -> Verdict {
        let Some(arrived) = train.arrived() else { return Verdict::Blind };
        let Some(planned) = train.gap else {
            if train.departures.gap(train.mss).is_some_and(|left| left * 2 > arrived) {
                // It was to be back to back: what is seen is how the application wrote.
                return Verdict::Blind;
            }
            self.lower = arrived;
            return Verdict::Next(arrived);
        };
        // As it was, and not as it should have been.
        let left = train.departures.gap(train.mss).unwrap_or(planned);
        if arrived > left.mul_f64(1.0 + self.tolerance) {
            self.lower = self.lower.max(left);
        } else {
            self.upper = Some(self.upper.map_or(left, |upper| upper.min(left)));
        }
        match self.upper {
            None => Verdict::Next(self.lower.mul_f64(RAISE)),
            Some(upper) if upper - self.lower <= upper.mul_f64(self.precision) => Verdict::Found(upper),
            Some(upper) => Verdict::Next((self.lower + upper) / 2),
        }
    }
}

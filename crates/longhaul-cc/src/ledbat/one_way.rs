//! One-way delays from arrival times, by two clocks that agree in nothing (RFC 6817, appendix A).

use longhaul_units::{Span, Time};

use super::Delays;
use super::delays::HISTORY;
use crate::{Ack, SegmentKind};

/// Where the first delay is put: how far apart the clocks are is unknown, and no matter, but spans have no sign.
const ORIGIN: i64 = 1 << 60;
/// A clock is believed to be fast by so much at most: a minute is 30 ms long (RFC 6817, appendix A.2, takes 500 ppm as more
/// than any).
const MAX_DRIFT: Span = Span::from_millis(30);
/// The drift is the median of so many differences between minutes at least.
const LEAST_DIFFERENCES: usize = 3;

/// The base and the current delay of the way there.
///
/// The clocks' offset is in both and cancels. Their drift does not: where the receiver's clock is the faster one, the delay
/// seems to grow, by up to 6 ms a minute at 100 ppm. How much faster it is shows in the minutes' least delays one way less
/// the same minutes' least round trips, in which a queue on the way there cancels as well; bases of earlier minutes are
/// raised by that (RFC 6817, appendix A.2: estimating drift). A slower clock needs nothing: the base follows down.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneWay {
    /// How far ahead of the sending the first arrival was, modulo 2^64 ns.
    first: Option<u64>,
    there: Delays,
    /// Round trips, sampled with them.
    both: Delays,
    /// By how much the receiver's clock gains in a minute.
    drift: Span,
}

impl OneWay {
    /// Digests the newest arrival that an ACK told of, if it did; `rtt` is its round trip.
    pub(super) fn observe(&mut self, ack: &Ack<'_>, rtt: Span) {
        // Which of two copies arrived is not known.
        let originals = ack.acked.iter().rev().filter(|segment| segment.kind == SegmentKind::Data);
        if let Some((sent_at, at)) = originals.filter_map(|segment| Some((segment.sent_at, segment.arrival?))).next() {
            self.sample(ack.now, sent_at, at, rtt);
        }
    }

    /// A segment that left at `sent_at` arrived at `arrival` by the receiver's clock, as an ACK at `now` told, `rtt` later.
    pub fn sample(&mut self, now: Time, sent_at: Time, arrival: Time, rtt: Span) {
        let ahead = arrival.as_nanos().wrapping_sub(sent_at.as_nanos());
        let first = *self.first.get_or_insert(ahead);
        let delay = ORIGIN.saturating_add(ahead.wrapping_sub(first).cast_signed()).max(0);
        self.both.sample(now, rtt);
        if self.there.sample(now, Span::from_nanos(delay.cast_unsigned())) {
            self.drift = self.estimate_drift();
        }
    }

    /// The median of what the minutes' differences between one way and both grew by.
    fn estimate_drift(&self) -> Span {
        let mut steps = [0; HISTORY];
        let mut count = 0;
        let mut later = None;
        // The running minute has just begun.
        for (there, both) in self.there.minutes().iter().zip(self.both.minutes()).skip(1) {
            let known = *there < Span::MAX && *both < Span::MAX;
            let level = known.then(|| there.as_nanos().cast_signed().saturating_sub_unsigned(both.as_nanos()));
            if let Some(((later, earlier), step)) = later.zip(level).zip(steps.get_mut(count)) {
                *step = i64::saturating_sub(later, earlier);
                count += 1;
            }
            later = level;
        }
        let known = steps.get_mut(..count).unwrap_or_default();
        known.sort_unstable();
        let median = known.get(count / 2).filter(|_| count >= LEAST_DIFFERENCES).map_or(0, |median| (*median).max(0));
        Span::from_nanos(median.cast_unsigned()).min(MAX_DRIFT)
    }

    /// The delay without queues, as it would be seen now.
    fn base(&self) -> Option<Span> {
        let aged = self.there.minutes().iter().zip(0..).map(|(least, minutes)| *least + self.drift * minutes);
        aged.min().filter(|base| *base < Span::MAX)
    }

    /// The queueing delay on the way there at `now`: the least of the last four delays, but none from more than a round trip
    /// ago, less the base. `None` if none was told for a round trip.
    #[must_use]
    pub fn queueing(&self, now: Time) -> Option<Span> {
        let (seen, rtt) = self.both.newest()?;
        if now.since(seen) > rtt {
            return None;
        }
        Some(self.there.current(rtt)? - self.base()?)
    }
}

#[cfg(test)]
mod tests;

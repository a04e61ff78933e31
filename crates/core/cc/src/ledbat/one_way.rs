//! One-way delays from arrival times, by two clocks with different offsets and rates (RFC 6817, appendix A).

use longhaul_units::{Span, Time};

use super::Delays;
use super::delays::HISTORY;
use crate::{Ack, SegmentKind};

/// Value of the first delay. The offset between the clocks is unknown and irrelevant, but spans have no sign.
const ORIGIN: i64 = 1 << 60;
/// Upper bound of a clock's drift per minute: 30 ms, or 500 ppm (RFC 6817, appendix A.2, considers this larger than any
/// real drift).
const MAX_DRIFT: Span = Span::from_millis(30);
/// Minimum number of differences between minutes whose median is the drift.
const LEAST_DIFFERENCES: usize = 3;

/// Base and current delay of the forward path.
///
/// The clock offset is part of both the base and the current delay and cancels, but clock drift does not. If the
/// receiver's clock is faster, the delay seems to grow, by up to 6 ms per minute at 100 ppm. The drift is estimated
/// from the growth of each minute's smallest one-way delay minus its minimum RTT, in which a queue on the forward path
/// cancels. It is added to the bases of earlier minutes (RFC 6817, appendix A.2: estimating drift). A slower clock
/// needs no correction, because the base decreases with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OneWay {
    /// Difference between the arrival and send times of the first segment, modulo 2^64 ns.
    first: Option<u64>,
    there: Delays,
    /// RTTs sampled at the same times.
    both: Delays,
    /// Drift of the receiver's clock per minute.
    drift: Span,
}

impl OneWay {
    /// Processes the newest arrival time that an ACK reports, if there is one; `rtt` is the RTT of the ACK.
    pub(super) fn observe(&mut self, ack: &Ack<'_>, rtt: Span) {
        // After a retransmission it is unknown which copy arrived.
        let originals = ack.acked.iter().rev().filter(|segment| segment.kind == SegmentKind::Data);
        if let Some((sent_at, at)) = originals.filter_map(|segment| Some((segment.sent_at, segment.arrival?))).next() {
            self.sample(ack.now, sent_at, at, rtt);
        }
    }

    /// Adds a segment sent at `sent_at`, which arrived at `arrival` by the receiver's clock, as an ACK at `now`
    /// reported. Its RTT is `rtt`.
    pub(crate) fn sample(&mut self, now: Time, sent_at: Time, arrival: Time, rtt: Span) {
        let ahead = arrival.as_nanos().wrapping_sub(sent_at.as_nanos());
        let first = *self.first.get_or_insert(ahead);
        let delay = ORIGIN.saturating_add(ahead.wrapping_sub(first).cast_signed()).max(0);
        self.both.sample(now, rtt);
        if self.there.sample(now, Span::from_nanos(delay.cast_unsigned())) {
            self.drift = self.estimate_drift();
        }
    }

    /// Returns the median growth per minute of the difference between the one-way delay and the RTT.
    fn estimate_drift(&self) -> Span {
        let mut steps = [0; HISTORY];
        let mut count = 0;
        let mut later = None;
        // The current minute has just started.
        for (there, both) in self.there.minutes.iter().zip(&self.both.minutes).skip(1) {
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

    /// Returns the delay without queues, as it would be measured now.
    fn base(&self) -> Option<Span> {
        let aged = self.there.minutes.iter().zip(0..).map(|(least, minutes)| *least + self.drift * minutes);
        aged.min().filter(|base| *base < Span::MAX)
    }

    /// Returns the queueing delay of the forward path at `now`: the minimum of the last four delays, without those
    /// more than an RTT ago, minus the base. Returns `None` if nothing was reported for an RTT.
    pub(crate) fn queueing(&self, now: Time) -> Option<Span> {
        let (seen, rtt) = self.both.newest()?;
        if now.since(seen) > rtt {
            return None;
        }
        Some(self.there.current(rtt)? - self.base()?)
    }
}

#[cfg(test)]
mod tests;

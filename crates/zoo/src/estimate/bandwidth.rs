//! TCP Westwood's bandwidth estimate BE: the rate of every ACK, passed through a low-pass filter.

use longhaul_cc::Ack;
use longhaul_cc::estimate::WindowedMax;
use longhaul_units::{Bytes, Rate, Span, Time, math};

/// Window of the delivery-rate samples that bound the estimate, in time constants: older samples have a weight of
/// less than e^-3, a twentieth.
const CEILING: u64 = 3;

/// Fraction of tau / 2 below which an interval is too short to measure a rate: 10 ms for the usual tau of one second,
/// as in ns-2.
const LEAST_REST: f64 = 0.02;

/// BE in bytes/s.
///
/// Each ACK yields the sample `b = delivered / (time since the previous ACK)`. The samples pass Tustin's
/// discretisation of a first-order low-pass filter with the time constant `tau`, whose coefficients depend on the
/// time between ACKs:
///
/// ```text
/// BE <- (2 tau - d) / (2 tau + d) BE + d / (2 tau + d) (b + b before)
/// ```
///
/// With `d = tau / 10` the coefficients are the 19/21 and 1/21 that papers quote. If nothing is acknowledged for half
/// of `tau`, samples of zero are inserted, two per `tau`, as sampling at the Nyquist rate requires. (Casetti, Gerla,
/// Mascolo, Sanadidi, Wang, TCP Westwood, MobiCom 2001.)
///
/// ACKs that arrive at the same instant count as one. ACKs that arrive back to back (ACK compression) make single
/// samples very large and the estimate too high; [`RoundRate`](super::RoundRate) avoids that. If the send times of data are known, the effect of compression is
/// bounded. ACKs of data sent at one instant then count as one, too, and a sample is at most the rate at which its
/// bytes were sent (as in the delivery-rate samples of draft-cheng-iccrg-delivery-rate-estimation, section 3.3).
/// Because an average cannot exceed its samples, the estimate is also at most the largest of the latest delivery-rate
/// samples, each of which spans a round trip. A peer therefore gains little by choosing when to send its ACKs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bandwidth {
    /// Time constant in nanoseconds.
    tau: f64,
    /// End of the last sample; `None` before the first ACK.
    last: Option<Time>,
    /// Send times of the newest data of the last sample, and of the newest data acknowledged since.
    sent: Option<(Time, Time)>,
    /// Bytes collected for the next sample.
    pending: f64,
    sample: f64,
    estimate: f64,
    seed: Seed,
    /// Whether the estimate is still the largest of the latest delivery-rate samples.
    rises: bool,
    /// Largest delivery-rate sample of the latest rounds, of the current round, and of both.
    ceiling: WindowedMax,
    round: Rate,
    largest: f64,
}

longhaul_cc::options! {
    pub(crate) enum BandwidthStart {
        /// The largest of the latest delivery-rate samples at the time of [settle](Bandwidth::settle), at the first
        /// congestion event. The filter is slower than slow start, so the first loss would otherwise set the window to
        /// its value several `tau` earlier.
        Rise = "rise",
        /// The rate of the first round trip.
        Round = "round",
        /// Zero, as published: the filter needs several `tau` to become useful.
        Zero = "zero",
    }
}

/// Measurement of the first round trip's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seed {
    /// Bytes delivered since the first ACK, and the time of that ACK.
    Collecting {
        since: Option<Time>,
        bytes: f64,
    },
    Done,
}

impl Bandwidth {
    /// Creates an estimate with the time constant `tau` (at least 1 us).
    pub(crate) fn new(tau: Span, start: BandwidthStart) -> Self {
        let seed =
            if start == BandwidthStart::Zero { Seed::Done } else { Seed::Collecting { since: None, bytes: 0.0 } };
        let tau = tau.max(Span::from_micros(1));
        Self {
            tau: tau.as_nanos() as f64,
            last: None,
            sent: None,
            pending: 0.0,
            sample: 0.0,
            estimate: 0.0,
            seed,
            rises: start == BandwidthStart::Rise,
            ceiling: WindowedMax::new(tau.as_nanos().saturating_mul(CEILING)),
            round: Rate::ZERO,
            largest: 0.0,
        }
    }

    /// Processes an ACK with an RTT of `rtt`, and uses the send time and delivery rate of its data.
    pub(crate) fn observe(&mut self, ack: &Ack<'_>, rtt: Option<Span>) {
        let (now, sent_at) = (ack.rx_time.unwrap_or(ack.now), ack.rtt.map(|sample| sample.sent_at));
        if ack.round_start && self.round > Rate::ZERO {
            self.largest = self.ceiling.update(now.as_nanos(), self.round.as_bytes_per_sec() as f64);
            self.round = Rate::ZERO;
        }
        if let Some(sample) = &ack.rate
            && sample.rate > self.round
        {
            self.round = sample.rate;
            self.largest = self.largest.max(self.round.as_bytes_per_sec() as f64);
        }
        self.on_ack_of(sent_at, now, ack.delivered, rtt);
        if self.largest > 0.0 {
            self.estimate = self.estimate.min(self.largest);
        }
        if self.rises {
            (self.estimate, self.sample) = (self.estimate.max(self.largest), self.sample.max(self.largest));
        }
    }

    fn on_ack_of(&mut self, sent_at: Option<Time>, now: Time, delivered: Bytes, rtt: Option<Span>) {
        if delivered == Bytes::ZERO {
            return;
        }
        if let Some(at) = sent_at {
            self.sent = Some(self.sent.map_or((at, at), |(last, newest)| (last, newest.max(at))));
        }
        let Some(last) = self.last else {
            // The data of the first ACK was delivered over an unknown time.
            self.last = Some(now);
            return;
        };
        self.pending += delivered.as_f64();
        self.collect(now, delivered, rtt);
        let gap = now.since(last).as_nanos() as f64;
        let sent = self.sent.map(|(last, newest)| newest.since(last).as_nanos() as f64);
        if gap > 0.0 && sent.is_none_or(|sent| sent > 0.0) {
            self.last = Some(now);
            self.sent = self.sent.map(|(_, newest)| (newest, newest));
            let rest = self.insert_zeros(gap);
            self.filter(1e9 * self.pending / rest.max(sent.unwrap_or(0.0)), rest);
            self.pending = 0.0;
        }
    }

    /// Ends the start-up of the estimate at the first congestion event: from then on, it is the output of the filter.
    pub(crate) const fn settle(&mut self) {
        self.rises = false;
    }

    /// Returns the estimate in bytes/s, or zero before the first sample.
    pub(crate) const fn rate(&self) -> f64 {
        self.estimate
    }

    /// Adds the zero samples of a gap of `gap` nanoseconds. Returns the rest of the gap, which belongs to the real
    /// sample.
    fn insert_zeros(&mut self, gap: f64) -> f64 {
        let step = self.tau / 2.0;
        if gap <= step {
            return gap;
        }
        let count = (gap / step).ceil() - 1.0;
        // The first step averages the last real sample with a zero, the others two zeros.
        self.filter(0.0, step);
        self.estimate *= math::pow(0.6, count - 1.0);
        let rest = gap - count * step;
        if rest < LEAST_REST * step { step } else { rest }
    }

    fn filter(&mut self, sample: f64, gap: f64) {
        // Computed first, because this division does not depend on the one that yields the sample.
        let part = 1.0 / (2.0 * self.tau + gap);
        let next = part * (2.0 * self.tau - gap) * self.estimate + part * gap * (sample + self.sample);
        (self.estimate, self.sample) = (next.max(0.0), sample);
    }

    fn collect(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) {
        let Seed::Collecting { since, bytes } = &mut self.seed else {
            return;
        };
        let since = *since.get_or_insert(self.last.unwrap_or(now));
        *bytes += delivered.as_f64();
        let elapsed = now.since(since);
        if elapsed > Span::ZERO && rtt.is_some_and(|rtt| elapsed >= rtt) {
            let rate = *bytes / elapsed.as_secs_f64();
            (self.estimate, self.sample, self.seed) = (rate, rate, Seed::Done);
        }
    }
}

#[cfg(test)]
mod tests;

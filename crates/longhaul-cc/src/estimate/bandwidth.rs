//! TCP Westwood's bandwidth estimate BE: the rate of every ACK, low-pass filtered.

use longhaul_units::{Bytes, Span, Time, math};

/// BE in bytes/s.
///
/// Each ACK gives the sample `b = delivered / (time since the ACK before)`. The samples pass Tustin's discretisation of
/// a first-order low-pass filter with the time constant `tau`, whose coefficients follow the time between ACKs:
///
/// ```text
/// BE <- (2 tau - d) / (2 tau + d) BE + d / (2 tau + d) (b + b before)
/// ```
///
/// With `d = tau / 10` these are the 19/21 and 1/21 that papers quote. While nothing is acknowledged for half of `tau`,
/// samples of zero are inserted, two in each `tau`, as sampling at the Nyquist rate asks. (Casetti, Gerla, Mascolo,
/// Sanadidi, Wang, TCP Westwood, MobiCom 2001.)
///
/// ACKs of the same instant count as one. Back-to-back ACKs (ACK compression) make single samples very large and the
/// estimate too high: the reason for [`AchievedRate`](super::AchievedRate) and [`RoundRate`](super::RoundRate).
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    /// Seconds.
    tau: f64,
    /// When the last sample ended; `None` before the first ACK.
    last: Option<Time>,
    /// Bytes that the next sample has so far.
    pending: f64,
    /// The sample before.
    sample: f64,
    estimate: f64,
    seed: Seed,
}

/// The first estimate: without one the filter starts from zero and needs several `tau` to be of use.
#[derive(Clone, Copy, Debug)]
enum Seed {
    /// Bytes delivered since the first ACK, and when that was.
    Collecting {
        since: Option<Time>,
        bytes: f64,
    },
    Done,
}

impl Bandwidth {
    /// An estimate with the time constant `tau` (at least 1 us). With `seeded` the rate of the first round trip is the
    /// first estimate; else it is zero, as published.
    #[must_use]
    pub fn new(tau: Span, seeded: bool) -> Self {
        let seed = if seeded { Seed::Collecting { since: None, bytes: 0.0 } } else { Seed::Done };
        let tau = tau.max(Span::from_micros(1)).as_secs_f64();
        Self { tau, last: None, pending: 0.0, sample: 0.0, estimate: 0.0, seed }
    }

    /// An ACK of `now` said that `delivered` bytes arrived, under a round trip of `rtt`.
    pub fn on_ack(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) {
        if delivered == Bytes::ZERO {
            return;
        }
        let Some(last) = self.last else {
            // Nothing is known of the time before the first.
            self.last = Some(now);
            return;
        };
        self.pending += delivered.as_f64();
        self.collect(now, delivered, rtt);
        let gap = now.since(last).as_secs_f64();
        if gap > 0.0 {
            self.last = Some(now);
            let rest = self.insert_zeros(gap);
            self.filter(self.pending / rest, rest);
            self.pending = 0.0;
        }
    }

    /// The estimate in bytes/s; zero before there is one.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.estimate
    }

    /// Adds the zero samples of a gap of `gap` seconds; returns the part of it that is left for the real sample.
    fn insert_zeros(&mut self, gap: f64) -> f64 {
        let step = self.tau / 2.0;
        if gap <= step {
            return gap;
        }
        let count = (gap / step).ceil() - 1.0;
        // The first pairs the last real sample with a zero, the others two zeros.
        self.filter(0.0, step);
        self.estimate *= math::pow(0.6, count - 1.0);
        (gap - count * step).max(f64::MIN_POSITIVE).max(gap * 1e-6)
    }

    fn filter(&mut self, sample: f64, gap: f64) {
        let next = (2.0 * self.tau - gap) * self.estimate + gap * (sample + self.sample);
        let next = next / (2.0 * self.tau + gap);
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

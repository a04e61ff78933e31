//! TCP Westwood's rate estimate RE and Westwood+'s bandwidth estimate: one sample per round trip, smoothed.

use longhaul_cc::Ack;
use longhaul_units::{Bytes, Span, Time};

/// Weight of the old value in a smoothing stage of Westwood+ (Linux).
const PLUS_KEEP: f64 = 7.0 / 8.0;
/// Minimum duration of a sample of Westwood+ (Linux).
const PLUS_LEAST: Span = Span::from_millis(50);

/// Counter of the data delivered over intervals of one round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampler {
    least: Span,
    since: Option<Time>,
    bytes: f64,
}

impl Sampler {
    /// Creates a sampler whose samples span one round trip, but at least `least`.
    pub(crate) const fn new(least: Span) -> Self {
        Self { least, since: None, bytes: 0.0 }
    }

    /// Processes an ACK and returns the rate in bytes/s if it ends an interval.
    pub(crate) fn on_ack(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) -> Option<f64> {
        let Some(since) = self.since else {
            // The data of the first ACK was delivered over an unknown time.
            self.since = Some(now);
            return None;
        };
        self.bytes += delivered.as_f64();
        let elapsed = now.since(since);
        if elapsed.is_zero() || rtt.is_none_or(|rtt| elapsed < rtt.max(self.least)) {
            return None;
        }
        let sample = self.bytes / elapsed.as_secs_f64();
        (self.since, self.bytes) = (Some(now), 0.0);
        Some(sample)
    }
}

/// The data delivered over a round trip, in bytes/s, sampled once per round trip into a moving average. The first sample
/// initialises it.
///
/// ACK compression within a round trip has no effect. In congestion the estimate is cwnd / RTT, the rate of the flow,
/// while [`Bandwidth`](super::Bandwidth) is closer to the capacity of the path.
///
/// * RE (Wang, Valla, Sanadidi, Ng, Gerla, Efficiency/Friendliness Tradeoffs in TCP Westwood, ISCC 2002): until
///   [`settle`](Self::settle) is called at the first congestion event, the estimate is the last sample, because an
///   average over ten round trips is slower than slow start.
/// * Westwood+ (Grieco, Mascolo, CCR 34(2), 2004; sampling and smoothing as in Linux): samples span at least 50 ms, and
///   pass two consecutive averages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoundRate {
    sampler: Sampler,
    /// Weight of the old value when an average is updated.
    keep: f64,
    twice: bool,
    /// Whether the estimate still is the last sample.
    rises: bool,
    averages: Option<(f64, f64)>,
}

impl RoundRate {
    /// Creates RE, in which the old value has the weight `keep` (0 to 1); implementations use 0.9.
    pub(crate) const fn achieved(keep: f64) -> Self {
        Self { sampler: Sampler::new(Span::ZERO), keep, twice: false, rises: true, averages: None }
    }

    pub(crate) const fn plus() -> Self {
        Self { sampler: Sampler::new(PLUS_LEAST), keep: PLUS_KEEP, twice: true, rises: false, averages: None }
    }

    pub(crate) const fn is_plus(&self) -> bool {
        self.twice
    }

    pub(crate) fn on_ack(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) {
        let Some(sample) = self.sampler.on_ack(now, delivered, rtt) else { return };
        let Some((first, second)) = self.averages.filter(|_| !self.rises) else {
            self.averages = Some((sample, sample));
            return;
        };
        let average = |old: f64, new: f64| self.keep * old + (1.0 - self.keep) * new;
        let first = average(first, sample);
        self.averages = Some((first, if self.twice { average(second, first) } else { first }));
    }

    pub(crate) fn observe(&mut self, ack: &Ack<'_>, rtt: Option<Span>) {
        self.on_ack(ack.rx_time.unwrap_or(ack.now), ack.delivered, rtt);
    }

    pub(crate) const fn settle(&mut self) {
        self.rises = false;
    }

    /// Returns the estimate in bytes/s, or zero before the first sample.
    pub(crate) fn rate(&self) -> f64 {
        self.averages.map_or(0.0, |(_, second)| second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(9_000_000_000) + Span::from_millis(ms)
    }

    /// Two consecutive averages of 7/8: n samples after a step of one, the result is 1 - (7/8)^n (1 + n/8). For
    /// averages of k it is 1 - k^n (1 + n (1 - k)).
    #[test]
    fn a_step_has_its_closed_form() {
        let usual = RoundRate::plus();
        for (mut rate, keep) in [(usual, 7.0_f64 / 8.0), (RoundRate { keep: 0.5, ..usual }, 0.5)] {
            let rtt = Some(Span::from_millis(100));
            rate.on_ack(at(0), Bytes(1), rtt);
            rate.on_ack(at(100), Bytes(100_000), rtt);
            assert_eq!(rate.rate(), 1e6, "the first sample initialises both");
            for n in 1..=30 {
                rate.on_ack(at(100 + 100 * n), Bytes(200_000), rtt);
                let expected = 1e6 + 1e6 * (1.0 - keep.powi(n as i32) * (1.0 + n as f64 * (1.0 - keep)));
                assert!((rate.rate() / expected - 1.0).abs() < 1e-9, "{keep}, {n}: {}, not {expected}", rate.rate());
            }
        }
    }

    /// Samples span a round trip, but at least 50 ms.
    #[test]
    fn short_round_trips_are_measured_over_fifty_milliseconds() {
        for (rtt, samples) in [(1, 2), (50, 2), (100, 1)] {
            let mut rate = RoundRate::plus();
            let mut changes = 0;
            for ms in 0..=100 {
                let before = rate.averages;
                // The amount grows, so that each sample differs.
                rate.on_ack(at(ms), Bytes(1000 * (ms + 1)), Some(Span::from_millis(rtt)));
                changes += u32::from(rate.averages != before);
            }
            assert_eq!(changes, samples, "round trip of {rtt} ms");
        }
    }

    const RTT: Span = Span::from_millis(100);

    #[test]
    fn a_steady_flow_is_measured_exactly() {
        for spacing in [1, 4, 10, 50] {
            let mut re = RoundRate::achieved(0.9);
            for ms in (0..2000).step_by(spacing) {
                re.on_ack(at(ms), Bytes(1000 * spacing as u64), Some(RTT));
            }
            assert!((re.rate() / 1e6 - 1.0).abs() < 1e-6, "{spacing}: {}", re.rate());
        }
    }

    /// ACKs that arrive in one burst per round trip yield the same rate, while they mislead BE.
    #[test]
    fn compression_within_a_round_trip_does_not_show() {
        let mut re = RoundRate::achieved(0.9);
        for round in 0..30 {
            for k in 0..10 {
                re.on_ack(at(100 * round) + Span::from_micros(k), Bytes(10_000), Some(RTT));
            }
        }
        assert!((re.rate() / 1e6 - 1.0).abs() < 0.01, "{}", re.rate());
    }

    /// The moving average keeps 0.9 per round trip: n samples after a step of one it is 1 - 0.9^n.
    #[test]
    fn a_step_is_followed_by_a_tenth_a_round_trip() {
        let mut re = RoundRate::achieved(0.9);
        re.on_ack(at(0), Bytes(1), Some(RTT));
        re.on_ack(at(50), Bytes(10), Some(RTT));
        re.on_ack(at(100), Bytes(99_990), Some(RTT));
        re.settle();
        for n in 1..=20 {
            re.on_ack(at(100 + 100 * n), Bytes(200_000), Some(RTT));
            let expected = 2e6 - 1e6 * 0.9_f64.powi(n as i32);
            assert!((re.rate() / expected - 1.0).abs() < 1e-9, "{n}: {}, not {expected}", re.rate());
        }
    }

    /// Before the first congestion event the estimate is the rate of the last round trip, however fast that changes.
    /// After it, nine tenths of the estimate are kept.
    #[test]
    fn it_rises_with_a_slow_start() {
        let mut re = RoundRate::achieved(0.9);
        for round in 0..8 {
            let mut ack = Ack::new(at(100 * round));
            ack.delivered = Bytes(1000 << round);
            re.observe(&ack, Some(RTT));
        }
        assert!((re.rate() / 1.28e6 - 1.0).abs() < 1e-9, "{}", re.rate());
        re.on_ack(at(800), Bytes(128_000), Some(RTT));
        re.settle();
        re.on_ack(at(900), Bytes(28_000), Some(RTT));
        assert!((re.rate() / (0.9 * 1.28e6 + 0.1 * 0.28e6) - 1.0).abs() < 1e-9, "{}", re.rate());
    }

    #[test]
    fn nothing_is_known_before_a_round_trip() {
        let mut re = RoundRate::achieved(0.9);
        re.on_ack(at(0), Bytes(1000), None);
        re.on_ack(at(10), Bytes(1000), Some(RTT));
        assert_eq!(re.rate(), 0.0);
    }
}

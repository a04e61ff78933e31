//! TCP Westwood's rate estimate RE: the data delivered over the last round trip.

use longhaul_cc::Ack;
use longhaul_units::{Bytes, Span, Time};

use super::round_rate::Sampler;

/// RE in bytes/s: the data delivered over a round trip, sampled once per round trip into a moving average.
///
/// Until [`settle`](Self::settle) is called at the first congestion event, the estimate is the last sample, because
/// an average over ten round trips is slower than slow start.
///
/// ACK compression within a round trip has no effect. In congestion the estimate is cwnd / RTT, the rate of the flow,
/// while [`Bandwidth`](super::Bandwidth) is closer to the capacity of the path. (Wang, Valla, Sanadidi, Ng, Gerla,
/// Efficiency/Friendliness Tradeoffs in TCP Westwood, ISCC 2002.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct AchievedRate {
    /// Part of the old estimate that is kept at each sample.
    keep: f64,
    sampler: Sampler,
    estimate: Option<f64>,
    /// Whether the estimate still is the last sample.
    rises: bool,
}

impl AchievedRate {
    /// Creates an estimate that keeps `keep` (0 to 1) of its old value at each sample; implementations use 0.9.
    pub(crate) const fn new(keep: f64) -> Self {
        Self { keep, sampler: Sampler::new(Span::ZERO), estimate: None, rises: true }
    }

    /// Processes an ACK at `now` for `delivered` bytes, with an RTT of `rtt`.
    pub(crate) fn on_ack(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) {
        if let Some(sample) = self.sampler.on_ack(now, delivered, rtt) {
            let keep = if self.rises { 0.0 } else { self.keep };
            self.estimate = Some(self.estimate.map_or(sample, |old| keep * old + (1.0 - keep) * sample));
        }
    }

    /// Processes an ACK with an RTT of `rtt`.
    pub(crate) fn observe(&mut self, ack: &Ack<'_>, rtt: Option<Span>) {
        self.on_ack(ack.rx_time.unwrap_or(ack.now), ack.delivered, rtt);
    }

    /// Turns the estimate into an average from here on.
    pub(crate) const fn settle(&mut self) {
        self.rises = false;
    }

    /// Returns the estimate in bytes/s, or zero before the first sample.
    pub(crate) fn rate(&self) -> f64 {
        self.estimate.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);

    fn at(ms: u64) -> Time {
        Time::from_nanos(9_000_000_000) + Span::from_millis(ms)
    }

    #[test]
    fn a_steady_flow_is_measured_exactly() {
        for spacing in [1, 4, 10, 50] {
            let mut re = AchievedRate::new(0.9);
            for ms in (0..2000).step_by(spacing) {
                re.on_ack(at(ms), Bytes(1000 * spacing as u64), Some(RTT));
            }
            assert!((re.rate() / 1e6 - 1.0).abs() < 1e-6, "{spacing}: {}", re.rate());
        }
    }

    /// ACKs that arrive in one burst per round trip yield the same rate, while they mislead BE.
    #[test]
    fn compression_within_a_round_trip_does_not_show() {
        let mut re = AchievedRate::new(0.9);
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
        let mut re = AchievedRate::new(0.9);
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
        let mut re = AchievedRate::new(0.9);
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
        let mut re = AchievedRate::new(0.9);
        re.on_ack(at(0), Bytes(1000), None);
        re.on_ack(at(10), Bytes(1000), Some(RTT));
        assert_eq!(re.rate(), 0.0);
    }
}

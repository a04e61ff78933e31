//! Random early detection (Floyd and Jacobson 1993, RFC 2309), gentle: average and drop decision, independent of the
//! packets.

use longhaul_units::{Span, Time, math};

use super::Verdict;
use super::config::RedConfig;
use crate::random::Random;

#[derive(Debug)]
pub(crate) struct Red {
    config: RedConfig,
    random: Random,
    average: f64,
    /// Packets accepted since the last one dropped or marked; `None` while the average is below the lower threshold.
    since_last: Option<u64>,
    idle_since: Option<Time>,
    /// Transmission time of a typical packet. While idle, the average decays as if one such packet arrived per this
    /// time.
    typical: Span,
}

impl Red {
    pub(crate) fn new(config: RedConfig, typical: Span, random: Random) -> Self {
        Self { config, random, average: 0.0, since_last: None, idle_since: Some(Time::ZERO), typical }
    }

    pub(crate) fn arrives(&mut self, now: Time, queued: u64, can_mark: bool) -> Verdict {
        let was_idle = self.idle_since.take().map(|since| self.decay(since, now));
        self.average += self.config.weight * (queued as f64 - self.average);
        let verdict = self.judge(can_mark);
        if verdict == Verdict::Drop {
            // A dropped packet does not end the idle period.
            self.idle_since = was_idle;
        }
        verdict
    }

    fn judge(&mut self, can_mark: bool) -> Verdict {
        let RedConfig { min, max, .. } = self.config;
        if self.average < min {
            self.since_last = None;
            return Verdict::Pass;
        }
        let since_last = self.since_last.map_or(0, |count| count + 1);
        self.since_last = Some(since_last);
        let base = self.probability();
        // Make the gaps between drops uniform rather than geometric (section 7 of the paper).
        let spread = base / (1.0 - since_last as f64 * base).max(f64::MIN_POSITIVE);
        if !self.random.chance(spread) {
            return Verdict::Pass;
        }
        self.since_last = Some(0);
        // Above the upper threshold, even ECN-capable packets are dropped (RFC 3168, section 7).
        if can_mark && self.average < max { Verdict::Mark } else { Verdict::Drop }
    }

    pub(crate) fn ran_empty(&mut self, now: Time) {
        self.idle_since = Some(now + self.typical);
    }

    pub(crate) fn set_typical(&mut self, typical: Span) {
        self.typical = typical;
    }

    /// Decays the average for the idle time from `since` to `now`. Returns the time up to which the average has been
    /// decayed.
    fn decay(&mut self, since: Time, now: Time) -> Time {
        let packets = (now - since).as_nanos() as f64 / self.typical.as_nanos().max(1) as f64;
        self.average *= math::pow(1.0 - self.config.weight, packets);
        since.max(now)
    }

    fn probability(&self) -> f64 {
        let RedConfig { min, max, max_p, .. } = self.config;
        if self.average < max {
            max_p * (self.average - min) / (max - min)
        } else {
            (max_p + (1.0 - max_p) * (self.average - max) / max).min(1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(average: f64) -> Red {
        let config = RedConfig { weight: 0.002, ..RedConfig::default() };
        Red { average, idle_since: None, ..Red::new(config, Span::from_millis(1), Random::new(5, 0)) }
    }

    /// Returns the fraction of packets dropped while the queue and its average stay at `queued`.
    fn share(queued: u64) -> f64 {
        let mut red = red(queued as f64);
        let drops = (0..100_000).filter(|_| red.arrives(Time::ZERO, queued, false) == Verdict::Drop).count();
        drops as f64 / 100_000.0
    }

    #[test]
    fn drop_share_rises_with_the_average_as_the_law_says() {
        assert_eq!((share(4), share(31)), (0.0, 1.0));
        for (queued, base) in [(10, 0.05), (13, 0.08), (15, 0.1), (20, 0.4)] {
            let got = share(queued);
            assert!((got * mean_gap(base) - 1.0).abs() < 0.02, "{queued}: {got}");
        }
    }

    /// Returns the mean gap if its n-th packet ends it with probability base / (1 - n base).
    fn mean_gap(base: f64) -> f64 {
        let (mut mean, mut going_on) = (0.0, 1.0);
        for n in 1..1_000 {
            mean += going_on;
            going_on *= 1.0 - (base / (1.0 - f64::from(n) * base).max(1e-9)).min(1.0);
        }
        mean
    }

    #[test]
    fn gaps_between_drops_never_exceed_the_inverse_probability() {
        let mut red = red(10.0);
        let mut gap = 0;
        for _ in 0..50_000 {
            gap += 1;
            if red.arrives(Time::ZERO, 10, false) == Verdict::Drop {
                assert!(gap <= 20, "{gap}");
                gap = 0;
            }
        }
    }

    #[test]
    fn average_moves_by_the_weight_and_decays_while_idle() {
        let mut red = red(0.0);
        for _ in 0..500 {
            red.arrives(Time::ZERO, 4, false);
        }
        let expected = 4.0 * (1.0 - 0.998f64.powi(500));
        assert!((red.average - expected).abs() < 1e-9);
        red.ran_empty(Time::ZERO);
        red.arrives(Time::ZERO + Span::from_millis(301), 0, false);
        assert!((red.average - expected * 0.998f64.powi(301)).abs() < 1e-9);
    }

    #[test]
    fn a_packet_dropped_at_an_empty_queue_does_not_end_its_idleness() {
        let mut red = red(40.0);
        red.ran_empty(Time::ZERO);
        let soon = Time::ZERO + Span::from_millis(1);
        assert_eq!(red.arrives(soon, 0, false), Verdict::Drop);
        // An hour is 3.6 million packets, and 0.998 to that power is practically zero.
        assert_eq!(red.arrives(soon + Span::from_secs(3_600), 0, false), Verdict::Pass);
        assert!(red.average < 1e-9, "{}", red.average);
    }

    #[test]
    fn marks_below_the_upper_threshold_and_drops_above() {
        let verdicts = |queued: u64| {
            let mut red = red(queued as f64);
            let all: Vec<_> = (0..10_000).map(|_| red.arrives(Time::ZERO, queued, true)).collect();
            (all.contains(&Verdict::Mark), all.contains(&Verdict::Drop))
        };
        assert_eq!((verdicts(12), verdicts(20)), ((true, false), (false, true)));
    }
}

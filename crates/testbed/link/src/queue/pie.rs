//! PIE (RFC 8033): drop probability and decision, independent of the packets.

use longhaul_units::{Span, Time};

use super::Verdict;
use super::config::PieConfig;
use crate::random::Random;

/// Nothing is dropped while no more than this is queued (RFC 8033, section 4.1: 2 * MEAN_PKTSIZE, with 1024 bytes
/// each).
const FEW_BYTES: u64 = 2 * 1024;

/// Accumulated probability below which no packet is dropped, and above which every packet is (RFC 8033, section 5.4).
const SPREAD: (f64, f64) = (0.85, 8.5);

/// Maximum rise of the probability per update once it is at least 0.1 (RFC 8033, section 5.5).
const LARGEST_RISE: f64 = 0.02;

/// Factor applied to the probability at each update while the queue is empty (RFC 8033, section 4.2).
const DECAY: f64 = 0.98;

#[derive(Debug)]
pub(crate) struct Pie {
    config: PieConfig,
    random: Random,
    probability: f64,
    accumulated: f64,
    last_delay: Span,
    burst_allowance: Span,
    next_update: Time,
}

impl Pie {
    pub(crate) fn new(config: PieConfig, random: Random) -> Self {
        Self {
            config,
            random,
            probability: 0.0,
            accumulated: 0.0,
            last_delay: Span::ZERO,
            burst_allowance: config.max_burst,
            next_update: Time::ZERO + config.update,
        }
    }

    /// Performs the updates due by `now`; `head` is the arrival time of the packet at the head of the queue.
    pub(crate) fn update(&mut self, now: Time, head: Option<Time>) {
        while self.next_update <= now {
            let at = self.next_update;
            self.next_update += self.config.update;
            let delay = head.map_or(Span::ZERO, |head| at - head);
            if self.is_at_rest(delay) {
                // The state cannot change until a packet arrives: skip the missed updates after a long idle period.
                let missed = (now - at).as_nanos() / self.config.update.as_nanos().max(1);
                self.next_update += self.config.update * missed;
            }
            self.step(delay);
        }
    }

    pub(crate) fn arrives(&mut self, bytes: u64, can_mark: bool) -> Verdict {
        if !self.burst_allowance.is_zero() || self.is_light() || bytes <= FEW_BYTES {
            return Verdict::Pass;
        }
        self.accumulated += self.probability;
        let (none, all) = SPREAD;
        if self.accumulated < none || (self.accumulated < all && !self.random.chance(self.probability)) {
            return Verdict::Pass;
        }
        self.accumulated = 0.0;
        if can_mark && self.probability < self.config.mark_below { Verdict::Mark } else { Verdict::Drop }
    }

    /// Returns whether the delay at the last update was too short for drops (RFC 8033, section 4.1).
    fn is_light(&self) -> bool {
        self.last_delay < self.config.target / 2 && self.probability < 0.2
    }

    fn is_at_rest(&self, delay: Span) -> bool {
        delay.is_zero()
            && self.last_delay.is_zero()
            && self.probability == 0.0
            && self.burst_allowance == self.config.max_burst
    }

    fn step(&mut self, delay: Span) {
        // Control law of RFC 8033, section 4.2, with the limit on the rise of section 5.5.
        let PieConfig { target, alpha, beta, .. } = self.config;
        let error = delay.as_secs_f64() - target.as_secs_f64();
        let trend = delay.as_secs_f64() - self.last_delay.as_secs_f64();
        let change = (alpha * error + beta * trend) * self.scale();
        let change = if self.probability >= 0.1 { change.min(LARGEST_RISE) } else { change };
        self.probability += change;
        // Decay while the queue is empty, then the burst allowance (section 4.4).
        if delay.is_zero() && self.last_delay.is_zero() {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        let calm = self.probability == 0.0 && delay < target / 2 && self.last_delay < target / 2;
        let less = self.burst_allowance - self.config.update;
        self.burst_allowance = if calm { self.config.max_burst } else { less };
        self.last_delay = delay;
    }

    /// Returns the scale of an update, which is smaller while the probability is small (RFC 8033, section 4.2).
    fn scale(&self) -> f64 {
        match self.probability {
            p if p < 0.000_001 => 1.0 / 2048.0,
            p if p < 0.000_01 => 1.0 / 512.0,
            p if p < 0.000_1 => 1.0 / 128.0,
            p if p < 0.001 => 1.0 / 32.0,
            p if p < 0.01 => 1.0 / 8.0,
            p if p < 0.1 => 1.0 / 2.0,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pie() -> Pie {
        Pie::new(PieConfig::default(), Random::new(3, 0))
    }

    #[test]
    fn one_step_is_the_control_law() {
        let mut pie = pie();
        (pie.probability, pie.last_delay) = (0.05, Span::from_millis(20));
        pie.step(Span::from_millis(30));
        // 1/8 * 15 ms + 5/4 * 10 ms, halved because the probability is below 0.1.
        assert!((pie.probability - (0.05 + (0.001_875 + 0.0125) / 2.0)).abs() < 1e-12);
        (pie.probability, pie.last_delay) = (0.3, Span::from_millis(20));
        pie.step(Span::from_millis(120));
        assert!((pie.probability - 0.32).abs() < 1e-12, "a rise is limited");
        (pie.probability, pie.last_delay) = (0.3, Span::ZERO);
        pie.step(Span::ZERO);
        assert!((pie.probability - (0.3 - 0.001_875) * 0.98).abs() < 1e-12, "an empty queue forgets");
    }

    #[test]
    fn a_burst_passes_and_then_no_longer() {
        let mut pie = pie();
        pie.probability = 0.5;
        pie.last_delay = Span::from_millis(50);
        // Ten updates of 15 ms each use up the allowance of 150 ms.
        for n in 0..10 {
            assert!((0..100).all(|_| pie.arrives(100_000, false) == Verdict::Pass), "update {n}");
            pie.step(Span::from_millis(50));
        }
        assert!((0..100).any(|_| pie.arrives(100_000, false) == Verdict::Drop));
        assert!((0..100).all(|_| pie.arrives(2_048, false) == Verdict::Pass), "two packets are let be");
    }

    #[test]
    fn drops_are_as_frequent_as_the_probability_but_spread() {
        let mut pie = Pie { burst_allowance: Span::ZERO, last_delay: Span::from_millis(20), ..pie() };
        pie.probability = 0.02;
        let drops: Vec<u32> = (0..200_000).filter(|_| pie.arrives(100_000, false) == Verdict::Drop).collect();
        // 0.85 / p = 42.5 packets pass for certain; then each is dropped with probability p, after 50 more on
        // average.
        let share = drops.len() as f64 / 200_000.0;
        assert!((share * 92.5 - 1.0).abs() < 0.03, "{share}");
        assert!(drops.windows(2).all(|pair| (42..=425).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn marks_up_to_a_tenth_then_drops() {
        let mut pie = Pie { burst_allowance: Span::ZERO, last_delay: Span::from_millis(20), ..pie() };
        let mut seen = |probability| {
            pie.probability = probability;
            let all: Vec<_> = (0..2_000).map(|_| pie.arrives(100_000, true)).collect();
            (all.contains(&Verdict::Mark), all.contains(&Verdict::Drop))
        };
        assert_eq!((seen(0.05), seen(0.15)), ((true, false), (false, true)));
    }

    #[test]
    fn hours_of_idleness_cost_one_step() {
        let mut pie = pie();
        pie.update(Time::ZERO + Span::from_secs(1_000_000), None);
        assert_eq!(pie.next_update, Time::ZERO + Span::from_secs(1_000_000) + Span::from_millis(5));
    }
}

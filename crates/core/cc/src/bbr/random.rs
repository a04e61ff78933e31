//! Pseudo-random numbers without a source of randomness.

/// Generator of numbers that differ between flows, and are repeated if a flow's history is repeated. BBR randomises
/// its probes so that flows that share a bottleneck do not probe together, for which any distribution is sufficient.
///
/// Each number is mixed (SplitMix64: Steele, Lea, Flood, OOPSLA 2014) from the previous one and the caller's
/// measurements in nanoseconds, which differ between flows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Random(u64);

impl Random {
    fn next(&mut self, measured: u64) -> u64 {
        self.0 = (self.0 ^ measured).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = mixed ^ (mixed >> 31);
        self.0
    }

    /// Returns a number from 0 to 1, uniformly distributed.
    pub(super) fn fraction(&mut self, measured: u64) -> f64 {
        (self.next(measured) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from 0 to `bound` - 1, uniformly distributed.
    pub(super) fn below(&mut self, bound: u64, measured: u64) -> u64 {
        ((u128::from(self.next(measured)) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_spread_evenly() {
        let mut random = Random::default();
        let mut counts = [0; 7];
        let mut sum = 0.0;
        for measured in 0..70_000 {
            let fraction = random.fraction(measured % 3);
            assert!((0.0..1.0).contains(&fraction));
            sum += fraction;
            counts[random.below(7, 0) as usize] += 1;
        }
        assert!((sum / 70_000.0 - 0.5).abs() < 0.005, "{sum}");
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn another_history_gives_other_numbers() {
        let draw = |measured| Random::default().fraction(measured);
        assert_eq!(draw(50_000_000), draw(50_000_000));
        assert!((draw(50_000_000) - draw(50_000_001)).abs() > 1e-6);
    }
}

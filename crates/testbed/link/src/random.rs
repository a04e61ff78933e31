//! Deterministic random numbers, the only source of randomness in this crate.

use longhaul_units::{Span, math};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Random numbers from a seed: ChaCha with 8 rounds, identical on every platform.
///
/// Each random process has its own sequence. Enabling one impairment therefore leaves the draws of the others
/// unchanged, so that two controllers can be compared under the same losses.
#[derive(Clone, Debug)]
pub struct Random(Box<ChaCha8Rng>);

impl Random {
    /// Creates sequence number `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(Box::new(rng))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniform value in [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns `true` with probability `p`. A number is drawn only if `p` is strictly between 0 and 1.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.unit() < p)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits().checked_rem(bound).unwrap_or(0)
    }

    /// Returns a uniformly distributed span of at most `most`.
    pub fn span(&mut self, most: Span) -> Span {
        Span::from_nanos(self.below(most.as_nanos().saturating_add(1)))
    }

    /// Draws from the exponential distribution with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -math::ln(1.0 - self.unit())
    }

    /// Draws from the Pareto distribution with scale 1: at least 1, and above `x` with probability x^-`shape`.
    pub fn pareto(&mut self, shape: f64) -> f64 {
        math::exp(self.exponential() / shape)
    }

    /// Returns the number of failures before the first success, which has probability `p` in (0, 1).
    pub fn geometric(&mut self, p: f64) -> u64 {
        (self.exponential() / -math::ln(1.0 - p)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_come_out_as_asked() {
        let mut random = Random::new(1, 0);
        let hits = (0..100_000).filter(|_| random.chance(0.1)).count();
        // Tolerance: six standard deviations of the binomial distribution.
        assert!((9_430..=10_570).contains(&hits), "{hits}");
        assert!(!random.chance(0.0) && random.chance(1.0));
        assert!((0..1_000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(2, 0);
        let mut mean = |draw: fn(&mut Random) -> f64| (0..200_000).map(|_| draw(&mut random)).sum::<f64>() / 200_000.0;
        // The standard error is 1 / sqrt(200,000) = 0.0022; the tolerance is six of them.
        assert!((mean(Random::exponential) - 1.0).abs() < 0.0134);
        // Shape 3: mean 3/2, variance 3/4, standard error 0.0019.
        assert!((mean(|r| r.pareto(3.0)) - 1.5).abs() < 0.012);
        // (1 - p) / p = 9, standard deviation 9.49, standard error 0.0212.
        assert!((mean(|r| r.geometric(0.1) as f64) - 9.0).abs() < 0.128);
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let first = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }
}

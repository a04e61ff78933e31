//! The one source of chance.

use longhaul_units::Span;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Random numbers from a seed: ChaCha with 8 rounds, the same on every platform.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// `true` with probability `p`. Draws a number only when the answer is open, so that switching a fault off leaves
    /// the draws of the others alone.
    pub fn chance(&mut self, p: f64) -> bool {
        // 53 bits: what the mantissa of a double holds.
        p > 0.0 && ((self.bits() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// A number below `bound`, 0 if that is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits().checked_rem(bound).unwrap_or(0)
    }

    /// A span shorter than `bound`.
    pub fn span(&mut self, bound: Span) -> Span {
        Span::from_nanos(self.below(bound.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_come_out_as_asked() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(0.1)).count();
        // Six standard deviations of the binomial distribution.
        assert!((9_430..=10_570).contains(&hits), "{hits}");
        assert!(!random.chance(0.0) && random.chance(1.0));
        assert!((0..1_000).all(|_| random.below(7) < 7));
    }
}

//! Heavy-tailed sizes with an upper bound.

use longhaul_units::math;

use crate::random::Random;

/// Bounded Pareto distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedPareto {
    scale: f64,
    largest: f64,
    shape: f64,
}

impl BoundedPareto {
    /// Creates the distribution on `scale` to `largest`. `shape` is above 0 and not 1; the smaller it is, the heavier
    /// is the tail. Bounds in the wrong order are swapped.
    pub fn new(scale: f64, largest: f64, shape: f64) -> Self {
        let [scale, largest] = [scale.min(largest), scale.max(largest)].map(|bound| bound.max(f64::MIN_POSITIVE));
        Self { scale, largest, shape }
    }

    /// Creates the distribution with this mean, which is between 0 and `largest`.
    pub fn with_mean(mean: f64, largest: f64, shape: f64) -> Self {
        let (mut low, mut high) = (f64::MIN_POSITIVE, mean.min(largest));
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if Self::new(middle, largest, shape).mean() < mean { low = middle } else { high = middle }
        }
        Self::new((low + high) / 2.0, largest, shape)
    }

    /// Returns the sizes of HTTP responses in Scharf's study of fast start-up: mean 14 kB, shape 1.1, at most 10 MB.
    /// The study does not say whether the mean is that before or after truncation; here it is the latter.
    pub fn http_responses() -> Self {
        Self::with_mean(14_000.0, 1e7, 1.1)
    }

    /// Returns the minimum value.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        let Self { scale, largest, shape } = *self;
        if scale >= largest {
            return largest;
        }
        let tail = math::pow(scale / largest, shape);
        let ratio = scale * (1.0 - tail * largest / scale) / (1.0 - tail);
        ratio * shape / (shape - 1.0)
    }

    /// Returns the value below which a fraction `q` of all values lie, for `q` from 0 to 1.
    pub fn quantile(&self, q: f64) -> f64 {
        let tail = math::pow(self.scale / self.largest, self.shape);
        (self.scale * math::pow(1.0 - q * (1.0 - tail), -1.0 / self.shape)).clamp(self.scale, self.largest)
    }

    /// Draws a size in whole bytes.
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.quantile(random.unit()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_responses_have_the_known_scale_and_quantiles() {
        let sizes = BoundedPareto::http_responses();
        let near = |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 0.005, "{got} for {expected}");
        near(sizes.scale(), 2_239.0);
        near(sizes.mean(), 14_000.0);
        near(sizes.quantile(0.5), 4_203.0);
        near(sizes.quantile(0.9), 18_144.0);
        near(sizes.quantile(0.99), 146_000.0);
        near(sizes.quantile(0.999), 1.10e6);
        assert_eq!((sizes.quantile(0.0), sizes.quantile(1.0)), (sizes.scale(), 1e7));
    }

    #[test]
    fn bounds_of_zero_draw_zero() {
        let none = BoundedPareto::new(0.0, 0.0, 1.1);
        assert_eq!((none.draw(&mut Random::new(4, 0)), none.mean()), (0, f64::MIN_POSITIVE));
    }

    #[test]
    fn draws_follow_the_quantiles() {
        let (sizes, mut random) = (BoundedPareto::http_responses(), Random::new(4, 0));
        let draws: Vec<u64> = (0..100_000).map(|_| sizes.draw(&mut random)).collect();
        for q in [0.1, 0.5, 0.9, 0.99] {
            let below = draws.iter().filter(|&&size| (size as f64) < sizes.quantile(q)).count() as f64 / 1e5;
            // Tolerance: five standard errors.
            assert!((below - q).abs() < 5.0 * (q * (1.0 - q) / 1e5).sqrt() + 1e-4, "{q}: {below}");
        }
    }
}

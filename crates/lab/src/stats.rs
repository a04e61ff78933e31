//! Confidence intervals and measures of spread.

use longhaul_link::Random;
use longhaul_units::statistics::{quantile, sample_deviation, sorted};

pub(crate) const RESAMPLES: usize = 2000;
/// Fraction of resamples outside an interval, both ends together.
const OUTSIDE: f64 = 0.05;
/// Seed of the resampling. It is constant, so that the same values always have the same interval.
const SEED: u64 = 1979;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// The sample standard deviation (n - 1), or `None` for a single value.
    pub(crate) deviation: Option<f64>,
    /// The interquartile range: from the quartiles by [`quantile`].
    pub(crate) iqr: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values.iter().copied());
        Some(Self {
            min: *sorted.first()?,
            max: *sorted.last()?,
            deviation: sample_deviation(values),
            iqr: quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?,
        })
    }
}

/// Returns the 95 % bootstrap percentile interval of the statistic `of` (Efron and Tibshirani 1993, chapter 13).
/// [`RESAMPLES`] times, as many values as given are drawn with replacement. The interval excludes the outer 2.5 % of
/// the resulting statistics on each side. `of` receives sorted values. For a single value, both ends are that value.
/// The order of the values does not matter.
pub(crate) fn interval(values: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let (values, mut random) = (sorted(values.iter().copied()), Random::new(SEED, 0));
    percentiles(|| of(&resampled(&values, &mut random)))
}

/// Returns the interval of a difference, statistic of `a` minus statistic of `b`. Both are resampled independently.
pub(crate) fn interval_of_difference(a: &[f64], b: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let (a, mut of_a) = (sorted(a.iter().copied()), Random::new(SEED, 1));
    let (b, mut of_b) = (sorted(b.iter().copied()), Random::new(SEED, 2));
    percentiles(|| Some(of(&resampled(&a, &mut of_a))? - of(&resampled(&b, &mut of_b))?))
}

fn resampled(values: &[f64], random: &mut Random) -> Vec<f64> {
    sorted(values.iter().map(|_| values[random.below(values.len() as u64) as usize]))
}

fn percentiles(draw: impl FnMut() -> Option<f64>) -> Option<[f64; 2]> {
    let drawn: Vec<f64> = std::iter::repeat_with(draw).take(RESAMPLES).collect::<Option<_>>()?;
    let drawn = sorted(drawn);
    let left_out = (RESAMPLES as f64 * OUTSIDE / 2.0) as usize;
    Some([*drawn.get(left_out)?, *drawn.get(RESAMPLES - 1 - left_out)?])
}

#[cfg(test)]
mod tests;

//! Confidence intervals and measures of spread.

use longhaul_link::Random;

/// Number of bootstrap resamples.
pub const RESAMPLES: usize = 2000;
/// Fraction of resamples outside an interval, both ends together.
const OUTSIDE: f64 = 0.05;
/// Seed of the resampling. It is constant, so that the same values always have the same interval.
const SEED: u64 = 1979;

/// Spread of a set of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// The sample standard deviation (n - 1), or `None` for a single value.
    pub deviation: Option<f64>,
    /// The interquartile range: see [`quantile`].
    pub iqr: f64,
}

impl Spread {
    /// Computes the spread. Returns `None` without values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        Some(Self {
            min: *sorted.first()?,
            max: *sorted.last()?,
            deviation: deviation(values),
            iqr: quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?,
        })
    }
}

/// Returns the quantile of sorted values, linearly interpolated between neighbours (type 7 of Hyndman and Fan 1996).
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

fn deviation(values: &[f64]) -> Option<f64> {
    let others = values.len().checked_sub(1).filter(|others| *others > 0)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / others as f64).sqrt())
}

/// Returns the 95 % bootstrap percentile interval of the statistic `of` (Efron and Tibshirani 1993, chapter 13).
/// [`RESAMPLES`] times, as many values as given are drawn with replacement. The interval excludes the outer 2.5 % of
/// the resulting statistics on each side. `of` receives sorted values. For a single value, both ends are that value.
/// The order of the values does not matter.
#[must_use]
pub fn interval(values: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let (values, mut random) = (sorted(values), Random::new(SEED, 0));
    percentiles(|| of(&resampled(&values, &mut random)))
}

/// Returns the interval of a difference, statistic of `a` minus statistic of `b`. Both are resampled independently.
#[must_use]
pub fn interval_of_difference(a: &[f64], b: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let (a, mut of_a) = (sorted(a), Random::new(SEED, 1));
    let (b, mut of_b) = (sorted(b), Random::new(SEED, 2));
    percentiles(|| Some(of(&resampled(&a, &mut of_a))? - of(&resampled(&b, &mut of_b))?))
}

/// Returns the values in ascending order.
#[must_use]
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn resampled(values: &[f64], random: &mut Random) -> Vec<f64> {
    let mut drawn: Vec<f64> = values.iter().map(|_| values[random.below(values.len() as u64) as usize]).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    drawn
}

fn percentiles(draw: impl FnMut() -> Option<f64>) -> Option<[f64; 2]> {
    let drawn: Vec<f64> = std::iter::repeat_with(draw).take(RESAMPLES).collect::<Option<_>>()?;
    let drawn = sorted(&drawn);
    let left_out = (RESAMPLES as f64 * OUTSIDE / 2.0) as usize;
    Some([*drawn.get(left_out)?, *drawn.get(RESAMPLES - 1 - left_out)?])
}

#[cfg(test)]
mod tests;

//! Confidence intervals, and how far values are apart.

use longhaul_link::Random;

/// Resamples of a bootstrap.
pub const RESAMPLES: usize = 2000;
/// The share of resamples that an interval leaves out, both ends together.
const OUTSIDE: f64 = 0.05;
/// Of the resamples. They are the same each time, so that the same values have the same interval.
const SEED: u64 = 1979;

/// How far values are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// The standard deviation of a sample, by n - 1; of one value there is none.
    pub deviation: Option<f64>,
    /// Between the quartiles: see [`quantile`].
    pub iqr: f64,
}

impl Spread {
    /// Of these; none of no values.
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

/// The value below which this share of sorted ones is, with straight lines between neighbours (type 7 of Hyndman and Fan 1996).
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

/// The 95 % interval of what is told `of` values, by the percentiles of a bootstrap (Efron and Tibshirani 1993, chapter 13): values are drawn
/// from these with repetition, as many as there are, [`RESAMPLES`] times, and of what they come to the outer 2.5 % on each side are left
/// out. `of` gets them in order. Of one value both ends are that value; the order of the values does not matter.
#[must_use]
pub fn interval(values: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let (values, mut random) = (sorted(values), Random::new(SEED, 0));
    percentiles(|| of(&resampled(&values, &mut random)))
}

/// The same of a difference, `a`'s less `b`'s; both are resampled, each on its own.
#[must_use]
pub fn interval_of_difference(a: &[f64], b: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let (a, mut of_a) = (sorted(a), Random::new(SEED, 1));
    let (b, mut of_b) = (sorted(b), Random::new(SEED, 2));
    percentiles(|| Some(of(&resampled(&a, &mut of_a))? - of(&resampled(&b, &mut of_b))?))
}

/// In order.
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

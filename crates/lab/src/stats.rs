//! Confidence intervals and measures of spread.

use longhaul_link::Random;
use longhaul_link::statistics::{quantile, sample_deviation, sorted};

pub(crate) const RESAMPLES: usize = 2000;
/// Fraction of resamples outside an interval, for both ends together.
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

/// Returns the 95 % bootstrap percentile interval of the statistic `of` (Efron and Tibshirani 1993, chapter 13). In
/// each of [`RESAMPLES`] resamples, as many values as given are drawn with replacement. The interval excludes the outer
/// 2.5 % of the resulting statistics on each side. `of` receives sorted values. For a single value, both ends are that
/// value. The order of the values does not matter.
pub(crate) fn interval(values: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let (values, mut random) = (sorted(values.iter().copied()), Random::new(SEED, 0));
    percentiles(|| of(&resampled(&values, &mut random)))
}

/// Returns the interval of the statistic of `a` minus that of `b`. Both are resampled independently.
pub(crate) fn interval_of_difference(a: &[f64], b: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let (a, mut of_a) = (sorted(a.iter().copied()), Random::new(SEED, 1));
    let (b, mut of_b) = (sorted(b.iter().copied()), Random::new(SEED, 2));
    percentiles(|| Some(of(&resampled(&a, &mut of_a))? - of(&resampled(&b, &mut of_b))?))
}

fn resampled(values: &[f64], random: &mut Random) -> Vec<f64> {
    sorted(values.iter().map(|_| values[random.below(values.len() as u64) as usize]))
}

fn percentiles(draw: impl FnMut() -> Option<f64>) -> Option<[f64; 2]> {
    bounds(std::iter::repeat_with(draw).take(RESAMPLES).collect::<Option<_>>()?)
}

fn bounds(drawn: Vec<f64>) -> Option<[f64; 2]> {
    let drawn = sorted(drawn);
    let left_out = (RESAMPLES as f64 * OUTSIDE / 2.0) as usize;
    Some([*drawn.get(left_out)?, *drawn.get(RESAMPLES - 1 - left_out)?])
}

/// Resamples `groups` of `each` values: for each group, as many values are drawn with replacement. Returns the indices
/// of the values drawn in each of [`RESAMPLES`] resamples.
pub(crate) fn redraws(groups: usize, each: usize) -> impl Iterator<Item = Vec<Vec<usize>>> {
    let mut random = Random::new(SEED, 3);
    let mut group = move || (0..each).map(|_| random.below(each as u64) as usize).collect();
    std::iter::repeat_with(move || (0..groups).map(|_| group()).collect()).take(RESAMPLES)
}

/// Returns the interval of a statistic from its values in [`RESAMPLES`] resamples. The percentile interval of few
/// values is too short, so that both of its sides are extended by a factor: Student's 97.5 % quantile instead of the
/// normal one, and sqrt(n / (n - 1)), since the variance of a resample of n values is less than the variance of the
/// values.
pub(crate) fn extended(drawn: Vec<f64>, value: f64, each: usize, freedom: usize) -> Option<[f64; 2]> {
    if each < 2 || freedom == 0 {
        return None;
    }
    let factor = student(freedom) / student(usize::MAX) * (each as f64 / (each - 1) as f64).sqrt();
    let [low, high] = bounds(drawn)?;
    Some([value + factor * (low - value).min(0.0), value + factor * (high - value).max(0.0)])
}

/// Returns the 95 % intervals of values that `of` computes from several samples at once, such as the differences
/// between their medians, by bootstrap with the extension of [`extended`]. `paired` samples have the same length, and
/// their n-th values belong together: they are drawn together (Efron and Tibshirani 1993, section 8.3). Otherwise, each
/// sample is resampled independently. Returns `None` if a sample has a single value, which provides no information
/// about its spread.
pub(crate) fn intervals_of_several(
    samples: &[Vec<f64>],
    paired: bool,
    of: impl Fn(&[Vec<f64>]) -> Option<Vec<f64>>,
) -> Option<Vec<[f64; 2]>> {
    let least = samples.iter().map(Vec::len).min().filter(|least| *least > 1)?;
    let values = of(samples)?;
    let mut drawn: Vec<Vec<f64>> = vec![Vec::with_capacity(RESAMPLES); values.len()];
    let mut random = Random::new(SEED, 4);
    let mut draw =
        |length: usize| -> Vec<usize> { (0..length).map(|_| random.below(length as u64) as usize).collect() };
    for _ in 0..RESAMPLES {
        let together = draw(least);
        let resample = |sample: &Vec<f64>| {
            let picks = if paired { together.clone() } else { draw(sample.len()) };
            picks.into_iter().map(|nth| sample[nth]).collect()
        };
        let resampled: Vec<Vec<f64>> = samples.iter().map(resample).collect();
        for (drawn, value) in drawn.iter_mut().zip(of(&resampled)?) {
            drawn.push(value);
        }
    }
    let freedom = if paired { least - 1 } else { samples.iter().map(|sample| sample.len() - 1).sum() };
    drawn.into_iter().zip(values).map(|(drawn, value)| extended(drawn, value, least, freedom)).collect()
}

/// Returns the 95 % interval of a probability of which `hits` of `runs` trials are known (Clopper and Pearson,
/// Biometrika 26, 1934). `runs` is at least 1 and at most 1000.
pub(crate) fn binomial_interval(hits: u32, runs: u32) -> [f64; 2] {
    let bound = |most: u32, share: f64| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            // The probability of at most this many hits decreases as the probability of a hit increases.
            if at_most(most, runs, middle) > share { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    };
    let low = if hits == 0 { 0.0 } else { bound(hits - 1, 1.0 - OUTSIDE / 2.0) };
    let high = if hits >= runs { 1.0 } else { bound(hits, OUTSIDE / 2.0) };
    [low, high]
}

/// Returns the probability of at most `most` hits in `runs` trials with the given probability of a hit.
fn at_most(most: u32, runs: u32, probability: f64) -> f64 {
    if most >= runs {
        return 1.0;
    }
    if probability > 0.5 {
        // Otherwise, the first term would be too small for a floating-point number.
        return 1.0 - at_most(runs - most - 1, runs, 1.0 - probability);
    }
    let odds = probability / (1.0 - probability);
    let mut term = (1.0 - probability).powi(runs as i32);
    let mut sum = term;
    for hits in 1..=most {
        term *= f64::from(runs + 1 - hits) / f64::from(hits) * odds;
        sum += term;
    }
    sum
}

/// Returns the 97.5 % quantile of Student's distribution, to 0.2 %.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 6] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447];
    FEW.get(freedom - 1).copied().unwrap_or_else(|| {
        let part = 1.0 / freedom as f64;
        1.960 + 2.372 * part + 2.823 * part * part + 2.556 * part * part * part
    })
}

#[cfg(test)]
mod tests;

//! Statistics of samples: mean, standard deviations, quantiles, and Jain's fairness index.

/// Returns the arithmetic mean, or `None` without values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the standard deviation of a population, or `None` without values.
#[must_use]
pub fn population_deviation(values: &[f64]) -> Option<f64> {
    Some((squares_around(values, mean(values)?) / values.len() as f64).sqrt())
}

/// Returns the standard deviation of a sample, with n - 1 as the divisor, or `None` for fewer than two values.
#[must_use]
pub fn sample_deviation(values: &[f64]) -> Option<f64> {
    let others = values.len().checked_sub(1).filter(|others| *others > 0)?;
    Some((squares_around(values, mean(values)?) / others as f64).sqrt())
}

fn squares_around(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// Returns the values in ascending order. NaNs are at the ends ([`f64::total_cmp`]).
#[must_use]
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Returns the median of values in any order, or `None` without values. For an even number of values, it is the mean of
/// the two central ones.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values.iter().copied());
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// Returns the quantile `share` (0 to 1) of values in ascending order, or `None` without values. Interpolates linearly
/// between neighbours (type 7 of Hyndman and Fan, Sample quantiles in statistical packages, 1996).
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (*sorted.get(place.floor() as usize)?, *sorted.get(place.ceil() as usize)?);
    Some(below + (above - below) * place.fract())
}

/// Returns the nearest-rank percentile of values in ascending order: the smallest value that is not exceeded by at
/// least `percent` % of the values. Returns `None` without values.
#[must_use]
pub fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Returns Jain's fairness index of shares: 1 if all are equal, and k/n if k of n are equal and the others are zero
/// (Jain, Chiu and Hawe, DEC-TR-301, 1984). Returns `None` if all are zero.
#[must_use]
pub fn jain(shares: &[f64]) -> Option<f64> {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| shares.iter().sum::<f64>().powi(2) / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_by_hand() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(mean(&[]), None);
        // (4 + 1 + 9) / 2 = 7.
        assert_eq!(sample_deviation(&[1.0, 2.0, 6.0]), Some(7.0_f64.sqrt()));
        assert_eq!((sample_deviation(&[5.0]), sample_deviation(&[])), (None, None));
        assert_eq!(population_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some(2.0));
        assert_eq!((population_deviation(&[5.0]), population_deviation(&[])), (Some(0.0), None));
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!((median(&[7.0]), median(&[])), (Some(7.0), None));
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let quartiles = |values: &[f64]| [0.25, 0.5, 0.75].map(|share| quantile(values, share));
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0, 5.0]), [2.0, 3.0, 4.0].map(Some));
        assert_eq!(quartiles(&[1.0, 2.0]), [1.25, 1.5, 1.75].map(Some));
        assert_eq!(quartiles(&[7.0]), [Some(7.0); 3]);
        assert_eq!((quantile(&[1.0, 2.0], -1.0), quantile(&[1.0, 2.0], 2.0)), (Some(1.0), Some(2.0)));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn percentiles_by_the_nearest_rank() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        let known = [(0, 1.0), (50, 100.0), (99, 198.0), (100, 200.0)];
        assert!(known.iter().all(|(percent, value)| percentile(&values, *percent) == Some(*value)));
        assert_eq!((percentile(&[7.0], 1), percentile(&[], 50)), (Some(7.0), None));
    }

    #[test]
    fn the_fairness_index_is_the_fraction_of_equal_shares() {
        assert_eq!(jain(&[5.0, 5.0, 0.0, 0.0]), Some(0.5));
        assert_eq!(jain(&[3.0; 7]), Some(1.0));
        // (1 + 2 + 3)^2 = 36, and 3 (1 + 4 + 9) = 42.
        assert_eq!(jain(&[1.0, 2.0, 3.0]), Some(36.0 / 42.0));
        assert_eq!((jain(&[0.0; 7]), jain(&[])), (None, None));
    }
}

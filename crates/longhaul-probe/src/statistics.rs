//! Moments and order statistics of small samples.

/// Mean, or `None` without values.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample standard deviation; 0 for fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let Some(mean) = mean(values).filter(|_| values.len() > 1) else { return 0.0 };
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Pearson's kurtosis m4 / m2^2, which is 3 for a normal distribution. For equal values it is their number, the upper
/// bound of the kurtosis of a sample of that size.
pub(crate) fn kurtosis(values: &[f64]) -> f64 {
    let Some(mean) = mean(values) else { return 0.0 };
    let count = values.len() as f64;
    let moment = |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / count;
    let spread = moment(2);
    // Rounding errors leave a small spread between equal values.
    if spread <= (mean * 1e-9).powi(2) { count } else { moment(4) / (spread * spread) }
}

/// Values in ascending order; NaNs are at the ends.
pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Median; for an even number of values, the mean of the two central ones.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let values = sorted(values.to_vec());
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get((values.len() / 2).checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

/// Quantile of `sorted` by the nearest rank; `part` is from 0 to 1.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * part).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_by_hand() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(mean(&[]), None);
        // (4 + 1 + 9) / 2 = 7.
        assert_eq!(deviation(&[1.0, 2.0, 6.0]), 7.0_f64.sqrt());
        assert_eq!(deviation(&[5.0]), 0.0);
    }

    #[test]
    fn a_flat_distribution_has_a_lower_kurtosis_than_a_peak_with_tails() {
        // Two points: m4 = m2^2.
        assert_eq!(kurtosis(&[1.0, 3.0]), 1.0);
        // -1, 0, 0, 0, 0, 0, 0, 0, 0, 1: m2 = m4 = 0.2.
        let peaked = [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        assert!((kurtosis(&peaked) - 5.0).abs() < 1e-12);
        assert_eq!(kurtosis(&[7.0, 7.0, 7.0]), 3.0, "the number of values, which have no spread");
    }

    #[test]
    fn medians_and_quantiles_by_hand() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        let eleven: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!((quantile(&eleven, 0.1), quantile(&eleven, 0.9)), (Some(1.0), Some(9.0)));
    }
}

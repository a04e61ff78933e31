//! Moments and order statistics of small samples.

/// The mean, unless there is no value.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample's standard deviation; 0 below two values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let Some(mean) = mean(values).filter(|_| values.len() > 1) else { return 0.0 };
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Pearson's kurtosis m4 / m2^2: 3 for a normal distribution. Of values without spread it is their number, the bound that
/// no sample of that size exceeds.
pub(crate) fn kurtosis(values: &[f64]) -> f64 {
    let Some(mean) = mean(values) else { return 0.0 };
    let count = values.len() as f64;
    let moment = |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / count;
    let spread = moment(2);
    // Rounding leaves a little spread between equal values.
    if spread <= (mean * 1e-9).powi(2) { count } else { moment(4) / (spread * spread) }
}

/// In ascending order; what is not a number goes to the ends.
pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The median: of an even number of values the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let values = sorted(values.to_vec());
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get((values.len() / 2).checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

/// The value below which a part of `sorted` lies (0 to 1), by the nearest rank.
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
        assert_eq!(kurtosis(&[7.0, 7.0, 7.0]), 3.0, "no spread: as many as there are");
    }

    #[test]
    fn the_middle_and_the_ends() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        let eleven: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!((quantile(&eleven, 0.1), quantile(&eleven, 0.9)), (Some(1.0), Some(9.0)));
    }
}

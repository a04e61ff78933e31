use super::*;
use crate::definition::Statistic;

fn median(sorted: &[f64]) -> Option<f64> {
    Statistic::Median.of(sorted)
}

/// The probability that at least `k` of `n` trials succeed, each with probability `p`.
fn at_least(k: usize, n: usize, p: f64) -> f64 {
    let choose = |n: usize, k: usize| (0..k).fold(1.0, |all, i| all * (n - i) as f64 / (i + 1) as f64);
    (k..=n).map(|i| choose(n, i) * p.powi(i as i32) * (1.0 - p).powi((n - i) as i32)).sum()
}

/// For an odd number of values, the bootstrap median is at most the k-th value with the probability that more than
/// half of n draws are among the first k (Efron 1979, section 3). The interval ends where this probability passes 2.5
/// % and 97.5 %, within the sampling error of 2,000 resamples.
#[test]
fn the_interval_ends_where_the_exact_bootstrap_distribution_has_its_percentiles() {
    // Four standard errors of a proportion of 2.5 %.
    let error = 4.0 * (0.025 * 0.975 / RESAMPLES as f64).sqrt();
    for n in (3..=41).step_by(2) {
        let values: Vec<f64> = (1..=n).map(|value| f64::from(value as u32)).collect();
        let up_to = |k: f64| at_least(n / 2 + 1, n, k / n as f64);
        let [low, high] = interval(&values, median).unwrap();
        assert!(up_to(low) > 0.025 - error && up_to(low - 1.0) < 0.025 + error, "{n}: {low}");
        assert!(up_to(high) > 0.975 - error && up_to(high - 1.0) < 0.975 + error, "{n}: {high}");
    }
}

/// For any continuous distribution, its median lies between the a-th and b-th of n sorted samples with the
/// probability that n coin tosses have at least a and fewer than b heads.
#[test]
fn the_interval_covers_the_median_as_often_as_order_statistics_do() {
    const SAMPLES: usize = 600;
    for n in [9, 15] {
        let places: Vec<f64> = (1..=n).map(|value| f64::from(value as u32)).collect();
        let [a, b] = interval(&places, median).unwrap().map(|place| place as usize);
        let theory = at_least(a, n, 0.5) - at_least(b, n, 0.5);
        let mut random = Random::new(7, n as u64);
        let covered = (0..SAMPLES)
            .filter(|_| {
                // The exponential distribution is skewed; its median is ln 2.
                let sample: Vec<f64> = (0..n).map(|_| random.exponential()).collect();
                let [low, high] = interval(&sample, median).unwrap();
                (low..=high).contains(&std::f64::consts::LN_2)
            })
            .count();
        let share = covered as f64 / SAMPLES as f64;
        let error = 4.0 * (theory * (1.0 - theory) / SAMPLES as f64).sqrt();
        assert!((share - theory).abs() < error, "{n}: {share} covered, {theory} expected");
        assert!(theory > 0.9, "{n}: {theory} of nominally 0.95");
    }
}

#[test]
fn one_value_is_its_own_interval_and_order_does_not_matter() {
    let one = Spread::of(&[5.0]).unwrap();
    assert_eq!((one.min, one.max, one.deviation, one.iqr), (5.0, 5.0, None, 0.0));
    assert_eq!(interval(&[5.0], median), Some([5.0; 2]));
    assert_eq!(interval_of_difference(&[5.0], &[3.0], median), Some([2.0; 2]));
    assert_eq!(interval(&[3.0, 1.0, 2.0, 9.0], median), interval(&[9.0, 3.0, 2.0, 1.0], median));
    assert_eq!((Spread::of(&[]), interval(&[], median)), (None, None));
    assert_eq!(interval_of_difference(&[1.0], &[], median), None);
}

/// Values computed by hand; the quartiles are those of `numpy.percentile`.
#[test]
fn spread_by_hand() {
    let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
    assert_eq!((spread.min, spread.max), (2.0, 9.0));
    assert!((spread.deviation.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    assert_eq!(spread.iqr, 5.5 - 4.0);
}

/// The interval of the difference contains 0 for two similar samples, and does not for two samples that are far
/// apart.
#[test]
fn differences_are_told_from_chance() {
    let a: Vec<f64> = (0..15).map(f64::from).collect();
    let b: Vec<f64> = a.iter().rev().map(|value| value + 0.5).collect();
    let far: Vec<f64> = a.iter().map(|value| value + 20.0).collect();
    let [low, high] = interval_of_difference(&a, &b, median).unwrap();
    assert!(low < 0.0 && high > 0.0, "{low} {high}");
    let [low, high] = interval_of_difference(&far, &a, median).unwrap();
    assert!(low > 0.0 && low < 20.0 && high > 20.0, "{low} {high}");
}

/// Two samples that vary together are told apart by what they differ in, if they are paired, and not if they are drawn
/// independently. A constant difference has an interval of length zero, and one value per sample none at all.
#[test]
fn paired_samples_are_drawn_together() {
    let first: Vec<f64> = (0..12).map(|nth| f64::from(nth * nth)).collect();
    let second: Vec<f64> = first.iter().map(|value| value - 1.0).collect();
    let difference = |samples: &[Vec<f64>]| {
        let [one, next] = [0, 1].map(|nth| median(&sorted(samples[nth].iter().copied())));
        Some(vec![one? - next?])
    };
    let samples = [first.clone(), second];
    assert_eq!(intervals_of_several(&samples, true, difference), Some(vec![[1.0; 2]]));
    let [low, high] = intervals_of_several(&samples, false, difference).unwrap()[0];
    assert!(low < 0.0 && high > 2.0, "{low} {high}");
    assert_eq!(intervals_of_several(&[vec![1.0], vec![0.0]], true, difference), None);
    assert_eq!(intervals_of_several(&[first, vec![0.0]], false, difference), None);
}

/// Values of scipy.stats.beta.ppf(0.025, k, n - k + 1) and beta.ppf(0.975, k + 1, n - k).
#[test]
fn binomial_intervals_are_those_of_the_beta_distribution() {
    for (hits, runs, wanted) in [
        (0, 30, [0.0, 0.115_70]),
        (1, 90, [0.000_28, 0.060_38]),
        (5, 10, [0.187_09, 0.812_91]),
        (30, 30, [0.884_30, 1.0]),
    ] {
        let found = binomial_interval(hits, runs);
        assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-4), "{hits}: {found:?}");
    }
    // The ends are where tails of 2.5 % begin, counted by another sum.
    for (hits, runs) in [(6, 90), (38, 60), (23, 30), (999, 1000)] {
        let [low, high] = binomial_interval(hits, runs);
        let upper = |p: f64| at_least(hits as usize, runs as usize, p);
        assert!((upper(low) - 0.025).abs() < 1e-6, "{hits}: {}", upper(low));
        let lower = at_least((runs - hits) as usize, runs as usize, 1.0 - high);
        assert!((lower - 0.025).abs() < 1e-6, "{hits}: {lower}");
    }
}

/// An interval of three values with a known deviation is as long as Student's, within the error of the percentiles of a
/// bootstrap of 27 different resamples; a single value has none.
#[test]
fn extended_intervals_of_few_values_are_as_long_as_students() {
    for (each, quantile) in [(3, 4.303), (5, 2.776), (12, 2.201)] {
        let values: Vec<f64> = (0..each).map(|value| value as f64).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / each as f64;
        let of = |picks: Vec<Vec<usize>>| mean(&mut picks[0].iter().map(|nth| values[*nth]));
        let value = mean(&mut values.iter().copied());
        let [low, high] = extended(redraws(1, each).map(of).collect(), value, each, each - 1).unwrap();
        let error = sample_deviation(&values).unwrap() / (each as f64).sqrt();
        for side in [value - low, high - value] {
            assert!((side / (quantile * error) - 1.0).abs() < 0.26, "{each}: {low} to {high}, {}", quantile * error);
        }
    }
    assert_eq!(extended(vec![1.0; RESAMPLES], 1.0, 1, 0), None);
    assert!(
        (student(7) - 2.365).abs() < 0.005 && (student(60) - 2.000).abs() < 0.001,
        "{} {}",
        student(7),
        student(60)
    );
}

use longhaul_units::{Bytes, Time};

use super::*;

/// Packets of 1000 bytes with these arrival times in microseconds.
fn arrivals(micros: &[u64]) -> Vec<Option<Arrived>> {
    let packet = |at: &u64| Arrived {
        sent_at: Time::ZERO,
        arrived_at: Time::ZERO + Span::from_micros(*at),
        rtt: Span::from_millis(100),
        size: Bytes(1000),
        coalesced: false,
    };
    micros.iter().map(|at| Some(packet(at))).collect()
}

fn merged(micros: &[u64], indices: &[usize]) -> Vec<Option<Arrived>> {
    let mut packets = arrivals(micros);
    for index in indices {
        packets[*index].as_mut().expect("arrived").coalesced = true;
    }
    packets
}

fn repeated(groups: &[(f64, usize)]) -> Vec<f64> {
    groups.iter().flat_map(|(rate, count)| vec![*rate; *count]).collect()
}

/// Four packets follow the first in 4 ms; the arrival times between do not matter.
#[test]
fn a_trains_rate_is_that_of_the_packets_after_its_first() {
    assert_eq!(train_rate(&arrivals(&[7000, 8000, 9000, 10_000, 11_000]), Span::ZERO), Sample::Rate(1e6));
    assert_eq!(train_rate(&arrivals(&[7000, 7001, 10_500, 10_900, 11_000]), Span::ZERO), Sample::Rate(1e6));
}

#[test]
fn a_train_with_a_loss_is_lossy_and_one_that_is_too_fast_is_ignored() {
    let whole = arrivals(&[0, 10, 20]);
    assert_eq!(train_rate(&[whole[0], None, whole[2]], Span::ZERO), Sample::Lossy);
    assert_eq!(train_rate(&whole[..1], Span::ZERO), Sample::Lossy);
    assert_eq!(train_rate(&[], Span::ZERO), Sample::Lossy);
    assert_eq!(train_rate(&whole, Span::from_micros(21)), Sample::Ignored);
    assert!(matches!(train_rate(&whole, Span::from_micros(20)), Sample::Rate(_)));
    assert_eq!(train_rate(&arrivals(&[5, 5]), Span::ZERO), Sample::Ignored);
}

#[test]
fn merged_packets_matter_only_at_the_ends_of_a_train() {
    let times = [0, 1000, 3000, 3000, 4000];
    assert_eq!(train_rate(&merged(&times, &[2, 3]), Span::ZERO), Sample::Rate(1e6));
    assert_eq!(train_rate(&merged(&times, &[0, 1]), Span::ZERO), Sample::Ignored);
    assert_eq!(train_rate(&merged(&times, &[3, 4]), Span::ZERO), Sample::Ignored);
}

/// The second of eleven values is the 10th percentile, and the tenth is the 90th.
#[test]
fn a_bin_is_an_eighth_of_the_range() {
    let steps = |step: f64| (0..=10).map(|k| 1e6 + step * f64::from(k)).collect::<Vec<_>>();
    let width = |rates: &[f64]| bin_width(rates, &BinRule::default());
    assert_eq!(width(&steps(100_000.0)), 100_000.0, "an eighth of 800,000");
    assert_eq!(width(&steps(10_000.0)), 20_000.0, "a quarter of 80,000, which is less than 1 Mb/s");
    assert_eq!(width(&[25e6; 9]), 2.5e6, "20 Mb/s for equal rates");
    assert_eq!(width(&[1e6; 9]), 250_000.0, "at most a quarter of the median");
    assert_eq!(width(&[]), 0.0);
}

/// The 11th of 101 values is the 10th percentile, and the 91st is the 90th. A range of 1/10,000 of the median counts as
/// zero, and a range of 1 Mb/s is not narrow.
#[test]
fn where_the_rules_for_bins_change() {
    let steps = |middle: f64, step: f64| (-50..=50).map(|k| middle + step * f64::from(k)).collect::<Vec<_>>();
    let width = |rates: &[f64]| bin_width(rates, &BinRule::default());
    assert_eq!(width(&steps(1e8, 100_000.0)), 1e6, "an eighth of 8 MB/s");
    assert_eq!(width(&steps(1e8, 124.0)), 2.5e6, "80 x 124 is less than 10,000");
    assert_eq!(width(&steps(1e8, 126.0)), 2520.0, "a quarter of 80 x 126, which exceeds 10,000");
    assert_eq!(width(&steps(1e8, 1562.5)), 15_625.0, "an eighth of 80 x 1562.5, which is 1 Mb/s");
}

#[test]
fn the_ends_are_trimmed_unless_nothing_would_be_left() {
    let rates = [9.0, 1.0, 5.0, 4.0, 100.0, 3.0];
    assert_eq!(trimmed(&rates, 2), [4.0, 5.0]);
    assert_eq!(trimmed(&rates, 3), [1.0, 3.0, 4.0, 5.0, 9.0, 100.0]);
    assert_eq!((adr(&rates, 1), adr(&[], 1)), (Some(5.25), None));
}

/// The fullest bins of ten are 92 to 100 and 100 to 108. The lower one is the mode, and its bell extends from 88 to
/// 112, with the deviations 0 (six times), 8 and 12 (twice each): m2 = 41.6, m4 = 4966.4. The other mode has the
/// deviations -1.6 (four times) and 6.4: m2 = 10.24, m4 = 340.787.
#[test]
fn modes_by_hand() {
    let mut rates = repeated(&[(150.0, 4), (100.0, 6)]);
    rates.extend([158.0, 88.0, 92.0, 108.0, 112.0]);
    let found = modes(&rates, 10.0, &ModeRule::default());
    assert_eq!(found.len(), 2);
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-3, "{value}, not {expected}");
    assert_eq!((found[0].centre, found[0].value, found[0].high()), (96.0, 100.0, 101.0));
    near(found[0].share, 7.0 / 15.0);
    near(found[0].kurtosis, 4966.4 / (41.6 * 41.6));
    near(found[0].merit(), 1.339);
    assert_eq!((found[1].centre, found[1].value), (154.0, 150.0));
    near(found[1].merit(), 3.25 / 3.0);
    assert_eq!(best(found.clone()), Some(found[0]));
    assert_eq!(best(found.into_iter().filter(|mode| mode.high() > 101.0)).map(|mode| mode.value), Some(150.0));
}

/// A peak with long tails has more merit than a fuller bin that is flat.
#[test]
fn kurtosis_outweighs_the_share() {
    let flat = repeated(&[(100.0, 30), (108.0, 30)]);
    let peak = repeated(&[(200.0, 36), (209.0, 1), (218.0, 1), (191.0, 1), (182.0, 1)]);
    let found = modes(&[flat, peak].concat(), 10.0, &ModeRule::default());
    assert_eq!(found.iter().map(|mode| mode.value).collect::<Vec<_>>(), [104.0, 200.0]);
    assert_eq!((found[0].share, found[0].kurtosis), (0.6, 1.0));
    // m2 = 2 (81 + 324) / 40, m4 = 2 (6561 + 104976) / 40.
    assert!((found[1].kurtosis - 5576.85 / (20.25 * 20.25)).abs() < 1e-9);
    assert_eq!(best(found).map(|mode| mode.value), Some(200.0));
}

/// The bin has 20 samples, and the bins after it 5, 5 and 6. An increase by a fifth starts another mode, unless the
/// noise permits it.
#[test]
fn a_bell_ends_where_bins_fill_up_again() {
    let rates = repeated(&[(100.0, 10), (104.0, 10), (107.0, 5), (111.0, 5), (115.0, 6)]);
    let two = modes(&rates, 4.0, &ModeRule::default());
    assert_eq!(two.iter().map(|mode| mode.value).collect::<Vec<_>>(), [102.0, 115.0]);
    assert_eq!(two[1].kurtosis, 6.0, "the number of values, which have no spread");
    assert_eq!(modes(&rates, 4.0, &ModeRule { noise: 0.21, ..ModeRule::default() }).len(), 1);
    let mirrored: Vec<f64> = rates.iter().map(|rate| 300.0 - rate).collect();
    assert_eq!(modes(&mirrored, 4.0, &ModeRule::default())[1].value, 185.0);
}

/// A bell ends one bin after its last sample, or at an increase that exceeds the noise.
#[test]
fn the_edges_of_a_bell() {
    let rates = repeated(&[(100.0, 5), (104.0, 1), (108.0, 2)]);
    let mirrored: Vec<f64> = rates.iter().map(|rate| 300.0 - rate).collect();
    for rates in [rates, mirrored] {
        assert_eq!(modes(&rates, 4.0, &ModeRule::default()).len(), 1, "{rates:?}");
    }
    let hill = repeated(&[(100.0, 10), (104.0, 10), (107.0, 5), (111.0, 5), (115.0, 6)]);
    let mirrored: Vec<f64> = hill.iter().map(|rate| 300.0 - rate).collect();
    for rates in [hill, mirrored] {
        // 6 samples are a fifth more than 5.
        let count = |noise| modes(&rates, 4.0, &ModeRule { noise, ..ModeRule::default() }).len();
        assert_eq!((count(0.19), count(0.2)), (2, 1), "{rates:?}");
    }
}

#[test]
fn a_mode_needs_two_percent_and_two_samples() {
    let count = |groups: &[(f64, usize)]| modes(&repeated(groups), 10.0, &ModeRule::default()).len();
    assert_eq!(count(&[(100.0, 981), (200.0, 19)]), 1);
    assert_eq!(count(&[(100.0, 980), (200.0, 20)]), 2);
    assert_eq!(count(&[(100.0, 2), (200.0, 1)]), 1);
    assert_eq!(count(&[]), 0);
}

/// Two bursts of five packets: eight of nine gaps are zero, and the second burst has 5000 bytes in 5 ms.
#[test]
fn the_packets_of_a_burst_arrived_after_the_burst_before() {
    let times = [0, 0, 20, 20, 20, 5000, 5000, 5020, 5020, 5020];
    assert_eq!(bursts(&arrivals(&times), 0.25), Bursts { back_to_back: 8.0 / 9.0, rate: Some(1e6) });
    let regular: Vec<u64> = (0..9).map(|k| 1000 * k).collect();
    assert_eq!(bursts(&arrivals(&regular), 0.25), Bursts { back_to_back: 0.0, rate: Some(1e6) });
    assert_eq!(bursts(&merged(&regular, &[1, 2, 3]), 0.25).back_to_back, 3.0 / 8.0);
    assert_eq!(bursts(&arrivals(&[4, 4, 4]), 0.25), Bursts { back_to_back: 1.0, rate: None });
    assert_eq!(bursts(&arrivals(&[4]), 0.25), Bursts { back_to_back: 0.0, rate: None });
    assert_eq!(bursts(&[None], 0.25), Bursts { back_to_back: 0.0, rate: None });
}

#[test]
fn a_range_includes_its_value_and_no_negative_rates() {
    let rates = |range: RateRange| [range.low, range.value, range.high].map(Rate::as_bytes_per_sec);
    assert_eq!(rates(around(5.0, (-3.0, 9.0))), [0, 5, 9]);
    assert_eq!(rates(around(5.0, (6.0, 4.0))), [5, 5, 5]);
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

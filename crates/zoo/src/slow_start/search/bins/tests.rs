use super::*;
use crate::slow_start::search::THRESH_SENT;
use crate::tests::segments;

const RTT: Span = Span::from_millis(100);

fn at(ms: u64) -> Time {
    Time::from_nanos((1000 + ms) * 1_000_000)
}

/// Returns the comparison at the end of each of 15 bins, with the number of the bin. Bins have 40 ms, so that a window
/// is four round trips. In the middle of each round trip, as many segments are delivered as `delivered` says, and
/// those of `sent` were sent a round trip earlier.
fn compared(delivered: &[u64], sent: &[u64], rule: ExitRule) -> Vec<(u64, Option<f64>)> {
    let mut bins = Bins::begin(at(0), RTT, 4.0, Bytes::ZERO, Bytes::ZERO).expect("bins");
    let upto = |steps: &[u64], ms: u64| {
        let count = steps.iter().zip(0u64..).filter(|(_, round)| 100 * round + 50 <= ms).map(|(step, _)| step).sum();
        segments(count)
    };
    (1..=15)
        .map(|bin| {
            let ms = 40 * bin;
            bins.advance(at(ms), upto(delivered, ms), upto(sent, ms + 100));
            (bin, bins.compare(RTT, rule).and_then(|(expected, delivered)| norm(expected, delivered)))
        })
        .collect()
}

/// The draft's example: deliveries of 1, 2, 4, 8, 16 and again 16 segments, where 32 were sent. In the window of four
/// round trips that ends with the sixth, 44 of 60 segments were delivered.
#[test]
fn deliveries_that_stay_at_sixteen_fall_short_by_27_per_cent() {
    let (delivered, sent) = ([1, 2, 4, 8, 16, 16], [1, 2, 4, 8, 16, 32]);
    for rule in [ExitRule::Sent, ExitRule::Delivered] {
        let norms = compared(&delivered, &sent, rule);
        let (bin, last) = norms.last().copied().expect("bins");
        assert_eq!((bin, last), (15, Some((60.0 - 44.0) / 60.0)), "{rule:?}");
        for (bin, norm) in &norms[..14] {
            assert!(norm.is_none_or(|norm| norm < THRESH_SENT), "{rule:?}, bin {bin}: {norm:?}");
        }
        assert!(norms[..12].iter().all(|(_, norm)| norm.is_none()), "{rule:?}: {norms:?}");
    }
}

/// Below the capacity there is no shortfall.
#[test]
fn deliveries_that_double_fall_short_by_nothing() {
    let steps = [1, 2, 4, 8, 16, 32];
    for rule in [ExitRule::Sent, ExitRule::Delivered] {
        assert_eq!(compared(&steps, &steps, rule).last(), Some(&(15, Some(0.0))), "{rule:?}");
    }
}

/// A bin without an ACK has the totals of the bin before. An ACK that ends several bins counts in the newest of them.
#[test]
fn skipped_bins_stand_where_the_last_one_did() {
    let mut bins = Bins::begin(at(0), RTT, 3.5, Bytes(7), Bytes(70)).expect("bins");
    assert!(!bins.is_over(at(34)) && bins.is_over(at(35)));
    assert_eq!((bins.passed(at(34)), bins.passed(at(35)), bins.passed(at(69)), bins.passed(at(70))), (0, 1, 1, 2));
    bins.advance(at(36), Bytes(100), Bytes(1000));
    bins.advance(at(36 + 105), Bytes(200), Bytes(2000));
    assert_eq!(bins.last, 4);
    let delivered = |bins: &Bins| (0..=bins.last).map(|bin| bins.at(bin).delivered.0).collect::<Vec<_>>();
    assert_eq!(delivered(&bins), [7, 100, 100, 100, 200]);
    assert!(!bins.is_over(at(174)) && bins.is_over(at(175)));
    // More bins pass than are kept.
    bins.advance(at(175 + 35 * 100), Bytes(300), Bytes(3000));
    assert_eq!((bins.last, bins.at(105).delivered, bins.at(104).delivered), (105, Bytes(300), Bytes(200)));
}

/// Eleven bins and fifteen additional ones are kept. Nothing is compared before there is more than one window, or if
/// the RTT reaches beyond the bins kept.
#[test]
fn too_few_bins_and_too_long_a_round_trip_compare_nothing() {
    let mut bins = Bins::begin(at(0), RTT, 3.5, Bytes::ZERO, Bytes::ZERO).expect("bins");
    let mut first = None;
    for bin in 1..40 {
        bins.advance(at(35 * bin), segments(bin), segments(bin));
        if bins.compare(RTT, ExitRule::Sent).is_some() {
            first = first.or(Some(bin));
        }
    }
    // 100 ms are two bins and a part. Bin 13 is the first for which both bins of the interpolation, 11 and 10, have a
    // whole window.
    assert_eq!(first, Some(13));
    assert!(bins.compare(Span::from_millis(35 * 15) - Span::from_nanos(1), ExitRule::Sent).is_some());
    assert!(bins.compare(Span::from_millis(35 * 15), ExitRule::Sent).is_none());
}

/// If the RTT is not a multiple of the bin length, the comparison interpolates between the end of the bin at that
/// distance and the end of the bin before that.
#[test]
fn a_part_of_a_bin_is_interpolated_backwards() {
    let mut bins = Bins::begin(at(0), RTT, 3.5, Bytes::ZERO, Bytes::ZERO).expect("bins");
    for bin in 1..=20 {
        bins.advance(at(35 * bin), Bytes(bin * bin), Bytes(bin * bin * bin));
    }
    let window = |end: u64| ((end * end * end) - (end - 10).pow(3)) as f64;
    let (expected, delivered) = bins.compare(Span::from_micros(3 * 35_000 + 8_750), ExitRule::Sent).expect("enough");
    assert_eq!(expected, 0.75 * window(17) + 0.25 * window(16));
    assert_eq!(delivered, (20 * 20 - 10 * 10) as f64);
    let (expected, _) = bins.compare(Span::from_millis(70), ExitRule::Delivered).expect("enough");
    assert_eq!(expected, 2.0 * (18.0 * 18.0 - 8.0 * 8.0));
}

#[test]
fn nothing_expected_is_no_shortfall() {
    assert_eq!(norm(0.0, 5.0), None);
    assert_eq!(norm(100.0, 74.0), Some(0.26));
    assert!(Bins::begin(at(0), Span::ZERO, 3.5, Bytes::ZERO, Bytes::ZERO).is_none());
}

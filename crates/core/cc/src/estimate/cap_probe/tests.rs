use proptest::prelude::*;

use super::*;

/// Transmission time of 1500 bytes at 80 Mb/s.
const D: u64 = 150;

/// Returns a pair over a path of 66 ms whose packets were queued for `first` and `second` microseconds; `second`
/// excludes the wait for the transmission of the first packet.
fn pair(first: u64, second: u64) -> PairSample {
    shifted(first, second, 66_000)
}

fn shifted(first: u64, second: u64, base: u64) -> PairSample {
    let micros = Span::from_micros;
    let dispersion = micros((D + second).saturating_sub(first));
    let (first_delay, second_delay) = (micros(base + first), micros(base + D + second));
    PairSample { first_delay, second_delay, dispersion, bytes: Bytes(1500), coalesced: false }
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn mbit(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64 / 1e6
}

fn feed(filter: &mut CapProbe, pairs: impl IntoIterator<Item = PairSample>) -> CapProbeEstimate {
    for (k, pair) in pairs.into_iter().enumerate() {
        assert!(filter.on_pair(&pair, at(k as u64)));
    }
    filter.estimate().unwrap()
}

/// An expanded pair (40 Mb/s), a compressed one (120 Mb/s), and one that was queued as a whole (80 Mb/s, which is
/// correct only by chance). A single pair among them was not queued.
#[test]
fn the_pair_that_waited_least_is_believed() {
    let mut pairs = vec![pair(0, 150), pair(50, 0), pair(70, 70)];
    pairs.extend((0..36).map(|k| pair(10 + k, 90 - k)));
    pairs.push(pair(0, 0));
    let estimate = feed(&mut CapProbe::default(), pairs);
    assert_eq!((mbit(estimate.rate.value), estimate.samples, estimate.support), (80.0, 40, 1));
    assert_eq!((estimate.excess, estimate.converged), (Span::ZERO, true));
    // Only the clock causes uncertainty: 2 us of 150.
    assert!((mbit(estimate.rate.low) - 12_000.0 / 152.0).abs() < 1e-3, "{estimate:?}");
    assert!((mbit(estimate.rate.high) - 12_000.0 / 148.0).abs() < 1e-3, "{estimate:?}");
}

/// First packets without queueing occur only with second packets that were queued, and vice versa. The best pair is
/// distorted, and the convergence test detects that.
#[test]
fn it_does_not_converge_where_every_pair_waited() {
    let pairs = (0..100).map(|k| if k % 2 == 0 { pair(0, 60 + k) } else { pair(40 + k, 0) });
    let estimate = feed(&mut CapProbe::default(), pairs);
    assert_eq!((estimate.converged, estimate.excess), (false, Span::from_micros(41)));
    assert!(mbit(estimate.rate.low) < 80.0 && mbit(estimate.rate.high) > 80.0, "{estimate:?}");
}

#[test]
fn it_waits_for_enough_samples_and_takes_two_ticks_and_five_percent() {
    let mut filter = CapProbe::default();
    assert_eq!(filter.estimate(), None);
    assert!(!feed(&mut filter, (0..39).map(|_| pair(0, 0))).converged);
    assert!(feed(&mut filter, [pair(0, 0)]).converged);
    // The smallest sum exceeds by 9 us: 2 us of clock and 5 % of 141 or 159 make 9.05 and 9.95. An excess of 10 us is
    // too much.
    for (wait, converged) in [(9, true), (10, false)] {
        let others = (0..20).flat_map(|_| [pair(0, 100), pair(100, 0)]);
        let estimate = feed(&mut CapProbe::default(), others.chain([pair(wait, 0), pair(0, 200)]));
        assert_eq!((estimate.converged, estimate.excess), (converged, Span::from_micros(wait)));
    }
}

#[test]
fn absurd_samples_change_nothing() {
    let mut filter = CapProbe::default();
    feed(&mut filter, [pair(0, 0)]);
    let before = filter;
    let tiny = PairSample { first_delay: Span::ZERO, second_delay: Span::ZERO, ..pair(0, 0) };
    assert!(!filter.on_pair(&PairSample { dispersion: Span::ZERO, ..tiny }, at(9)));
    assert!(!filter.on_pair(&PairSample { coalesced: true, ..tiny }, at(9)));
    assert!(!filter.on_pair(&PairSample { bytes: Bytes::ZERO, ..tiny }, at(9)));
    assert_eq!(filter, before);
}

/// The new route is 10 ms longer and half as fast. It is detected after at least half of the window, and at the
/// latest after the window.
#[test]
fn a_longer_route_shows_when_the_old_one_is_forgotten() {
    let mut filter = CapProbe::default();
    let longer = || {
        let slow = shifted(0, D, 76_000);
        assert_eq!(slow.dispersion, Span::from_micros(300));
        slow
    };
    let mut shows = None;
    for ms in (0..300_000).step_by(100) {
        let sample = if ms < 100_000 { pair(0, 0) } else { longer() };
        filter.on_pair(&sample, at(ms));
        if mbit(filter.estimate().unwrap().rate.value) < 41.0 {
            shows.get_or_insert(ms);
        }
    }
    assert!((160_000..=220_100).contains(&shows.unwrap()), "{shows:?}");
    assert!(filter.estimate().unwrap().converged);
}

/// A shorter route, and a faster link on the same route, have smaller sums and are detected at once.
#[test]
fn a_shorter_route_and_a_faster_link_show_at_once() {
    let mut filter = CapProbe::default();
    feed(&mut filter, (0..40).map(|_| pair(0, 0)));
    let fast = PairSample { second_delay: Span::from_micros(66_075), dispersion: Span::from_micros(75), ..pair(0, 0) };
    let estimate = feed(&mut filter, [fast]);
    assert_eq!((mbit(estimate.rate.value), estimate.support), (160.0, 1));
}

#[test]
fn another_size_begins_anew() {
    let mut filter = CapProbe::default();
    feed(&mut filter, (0..40).map(|_| pair(0, 0)));
    let small = PairSample { bytes: Bytes(700), ..pair(9, 9) };
    let estimate = feed(&mut filter, [small]);
    assert_eq!((estimate.samples, estimate.converged), (1, false));
}

#[test]
fn it_is_small() {
    assert!(size_of::<CapProbe>() <= 152, "{}", size_of::<CapProbe>());
}

proptest! {
    /// For any queueing delays: without expiry the result is that of a search through all samples, an offset of the
    /// clock changes only the delays, and a converged estimate is within its range if any first and any second packet
    /// was not queued.
    #[test]
    fn it_is_the_least_sum_of_all(waits in prop::collection::vec((0_u64..140, 0_u64..140), 1..120), offset in 0_u64..9_000_000) {
        let mut pairs: Vec<_> = waits.iter().map(|(first, second)| pair(*first, *second)).collect();
        pairs.extend([pair(0, 139), pair(139, 0)]);
        let estimate = feed(&mut CapProbe::default(), pairs.clone());
        let best = pairs.iter().min_by_key(|pair| pair.sum()).unwrap();
        prop_assert_eq!(estimate.sum, best.sum());
        prop_assert_eq!(estimate.rate.value, best.rate().unwrap());
        prop_assert!(mbit(estimate.rate.low) <= 80.0 && mbit(estimate.rate.high) >= 80.0);

        let moved = waits.iter().map(|(first, second)| shifted(*first, *second, offset));
        let moved = feed(&mut CapProbe::default(), moved.chain([shifted(0, 139, offset), shifted(139, 0, offset)]));
        prop_assert_eq!((moved.rate, moved.converged, moved.excess), (estimate.rate, estimate.converged, estimate.excess));
    }
}

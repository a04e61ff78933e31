//! Limits: the first rate, the range of rates, both resolutions, and the bounds of rules.

use longhaul_link::statistics::sorted;

use super::*;
use crate::Estimate;

const MB: f64 = 1e6;

/// Report of a train whose packets have the delays `delay`.
fn answered(train: &Train, delay: impl Fn(u64) -> Span) -> TrainReport {
    let packets = (0_u64..).zip(&train.packets).map(|(n, planned)| {
        let sent_at = Time::from_nanos(1_000_000_000) + planned.at;
        let arrived_at = sent_at + Span::from_millis(10) + delay(n);
        Some(Arrived { sent_at, arrived_at, rtt: Span::from_millis(20), size: planned.size, coalesced: false })
    });
    TrainReport { id: train.id, packets: packets.collect() }
}

/// Report of a first train over a link of this rate in bytes per second.
fn first_train(train: &Train, rate: f64) -> TrainReport {
    let each = train.packets[0].size.as_f64() / rate;
    answered(train, |n| Span::from_secs_f64(n as f64 * each))
}

fn rate(stream: &Train) -> f64 {
    stream.packets[0].size.as_f64() / stream.packets[1].at.as_secs_f64()
}

/// Rates in MB/s that a session tries if its first train shows `first` and its fleets have the verdicts `says`. At grey
/// rates every other stream is increasing.
fn session(config: PathloadConfig, first: f64, says: impl Fn(f64) -> Verdict) -> (Vec<f64>, Estimate) {
    let mut method = Turns::of(Procedure::new(config));
    let mut rates = Vec::new();
    run(&mut method, |n, train| {
        if n == 0 {
            return Some(first_train(train, first * MB));
        }
        let (rate, place) = (rate(train) / MB, (n - 1) % config.streams);
        if place == 0 {
            rates.push(rate);
        }
        let rises = match says(rate) {
            Verdict::Above => true,
            Verdict::Grey => place % 2 == 0,
            Verdict::Below | Verdict::Again => false,
        };
        Some(answered(train, |n| Span::from_micros(if rises { 10 * n } else { 0 })))
    });
    (rates, method.estimate())
}

/// Asserts equality up to the rounding of gaps to nanoseconds.
fn assert_rates(found: &[f64], expected: &[f64]) {
    let near = |(found, expected): (&f64, &f64)| (found / expected - 1.0).abs() < 1e-3;
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?}, {expected:?}");
}

fn available(estimate: &Estimate) -> [f64; 3] {
    let range = estimate.available.unwrap();
    [range.low, range.value, range.high].map(|rate| rate.as_bytes_per_sec() as f64 / MB)
}

fn one_verdict() -> PathloadConfig {
    PathloadConfig { verdicts: 1, ..PathloadConfig::default() }
}

fn above(end: f64) -> impl Fn(f64) -> Verdict {
    move |rate| if rate > end { Verdict::Above } else { Verdict::Below }
}

/// Verdicts of a path: rates within 1 % of `grey` are grey, higher ones above, and lower ones below.
fn beside(grey: f64) -> impl Fn(f64) -> Verdict {
    move |rate| if (rate / grey - 1.0).abs() < 0.01 { Verdict::Grey } else { above(grey)(rate) }
}

/// L = R T for L from 200 to 1500 B; otherwise the nearest L, and T = L / R from 7 us to 200 ms.
#[test]
fn a_rate_determines_size_and_gap() {
    let shapes: [(f64, u64, u64); 7] = [
        (500e-6, 200, 200_000),
        (1.25, 200, 160),
        (2.0, 200, 100),
        (5.0, 500, 100),
        (15.0, 1500, 100),
        (30.0, 1500, 50),
        (1000.0, 1500, 7),
    ];
    for (first, size, gap) in shapes {
        let mut method = Turns::of(Procedure::new(PathloadConfig::default()));
        let Next::Send(train) = method.poll(Time::from_nanos(1)) else { panic!("nothing to wait for") };
        assert_eq!((train.packets.len(), train.packets[0].size), (48, Bytes(1500)));
        method.on_report(Time::from_nanos(1), &first_train(&train, first * MB));
        let Next::Send(stream) = method.poll(Time::from_nanos(1)) else { panic!("it has a rate") };
        let found = (stream.packets[0].size, (stream.packets[1].at.as_nanos() + 500) / 1000);
        assert_eq!((stream.packets.len(), found), (100, (Bytes(size), gap)), "{first}");
    }
}

/// Rates double until one is above, up to 1500 B every 7 us.
#[test]
fn without_an_upper_end_rates_double() {
    let (rates, estimate) = session(PathloadConfig::default(), 10.0, |_| Verdict::Below);
    assert_rates(&rates, &[10.0, 20.0, 40.0, 80.0, 160.0, 1500.0 / 7.0]);
    assert_rates(&available(&estimate), &[1500.0 / 7.0; 3]);
    assert_eq!((estimate.converged, estimate.confidence), (false, 0.0));
}

/// If the link is faster than the highest rate that can be sent, that rate replaces it, also for the resolution (4.29).
#[test]
fn the_first_rate_is_one_that_can_be_sent() {
    let (rates, _) = session(one_verdict(), 500.0, above(110.0));
    let most = 1500.0 / 7.0;
    assert_rates(&rates, &[1.0, 0.5, 0.75, 0.625, 0.5625, 0.53125, 0.515625].map(|part| part * most));
}

/// Omega is 2 % of 10: the range of 0.156 is narrower, and both ends are confirmed, the upper one first.
#[test]
fn the_search_ends_at_omega() {
    let halves = [10.0, 5.0, 7.5, 6.25, 5.625, 5.3125, 5.15625];
    let (rates, _) = session(one_verdict(), 10.0, above(5.05));
    assert_rates(&rates, &halves);
    let (rates, estimate) = session(PathloadConfig::default(), 10.0, above(5.05));
    assert_rates(&rates, &[&halves[..], &[5.15625, 5.0]].concat());
    assert_rates(&available(&estimate), &[5.0, (5.0 + 5.15625) / 2.0, 5.15625]);
    assert!(estimate.converged && (estimate.confidence - 5.0 / 5.15625).abs() < 1e-4);
}

/// Chi is 5 % of 10: a distance to the grey rates of 0.625 exceeds it, and one of 0.3125 does not.
#[test]
fn beside_grey_rates_the_search_ends_at_chi() {
    let (rates, estimate) = session(one_verdict(), 10.0, beside(7.5));
    assert_rates(&rates[..3], &[10.0, 5.0, 7.5]);
    assert_rates(&sorted(rates)[1..], &[6.25, 6.875, 7.1875, 7.5, 7.8125, 8.125, 8.75, 10.0]);
    assert_rates(&available(&estimate), &[7.1875, 7.5, 7.8125]);
    assert!(estimate.converged && (estimate.confidence - 7.1875 / 7.8125).abs() < 1e-4);
}

/// 5 % of 56 MB/s would be 2.8 MB/s, but chi is at most 12 Mb/s: a distance to the grey rates of 1.75 MB/s exceeds it.
#[test]
fn chi_is_at_most_twelve_megabits_a_second() {
    let (rates, _) = session(one_verdict(), 56.0, beside(42.0));
    assert_rates(&sorted(rates), &[28.0, 35.0, 38.5, 40.25, 41.125, 42.0, 42.875, 43.75, 45.5, 49.0, 56.0]);
}

/// 200 B per millisecond are 0.2 MB/s: half of 0.203 MB/s is less than the lowest rate.
#[test]
fn the_search_ends_at_the_lowest_rate() {
    let config = PathloadConfig { most_gap: Span::from_millis(1), resolution: 0.001, ..one_verdict() };
    let (rates, estimate) = session(config, 6.5, |_| Verdict::Above);
    assert_rates(&rates, &[6.5, 3.25, 1.625, 0.8125, 0.40625, 0.203125]);
    assert_eq!((available(&estimate)[0], estimate.converged), (0.0, false));
}

/// Nine first trains without a rate do not end the session; ten would.
#[test]
fn the_tenth_first_train_may_show_a_rate() {
    let mut method = Turns::of(Procedure::new(PathloadConfig::default()));
    let (_, trains) = run(&mut method, |n, train| Some(if n < 9 { first_only(train) } else { fluid(train) }));
    assert!(trains > 10 + 12 && method.estimate().converged, "{trains}");
}

/// If even the lowest rate is above, no fleet supports the lower end of the range.
#[test]
fn zero_is_an_end_without_a_fleet() {
    let mut search = Search::new(1.0, 5.0, 100.0);
    search.verdicts = 2;
    search.learn(1.0, Verdict::Above, 1.0);
    assert_eq!((search.next(), search.converged()), (Some(1.0), false));
    search.learn(1.0, Verdict::Above, 1.0);
    assert_eq!((search.next(), search.converged(), search.support()), (None, true, 0.0));
}

#[test]
fn grey_rates_without_an_upper_end_are_doubled_too() {
    let mut search = Search::new(1.0, 5.0, 100.0);
    search.learn(30.0, Verdict::Grey, 1.0);
    assert_eq!(search.next(), Some(60.0));
    search.learn(40.0, Verdict::Grey, 1.0);
    search.learn(20.0, Verdict::Grey, 1.0);
    assert_eq!((search.grey, search.next()), (Some((20.0, 40.0)), Some(80.0)));
    search.learn(100.0, Verdict::Grey, 1.0);
    assert_eq!((search.grey, search.next(), search.converged()), (Some((20.0, 100.0)), None, false));
}

/// The ends of the grey rates are grey until a verdict at one of them contradicts.
#[test]
fn a_verdict_on_an_end_of_the_grey_rates_takes_them_away() {
    let with = |rate, verdict| {
        let mut search = Search::new(1.0, 1.0, 100.0);
        search.grey = Some((35.0, 45.0));
        search.learn(rate, verdict, 1.0);
        search.grey
    };
    assert_eq!(with(35.0, Verdict::Above), None);
    assert_eq!(with(36.0, Verdict::Above), Some((35.0, 36.0)));
    assert_eq!(with(45.0, Verdict::Below), None);
    assert_eq!(with(44.0, Verdict::Below), Some((44.0, 45.0)));
}

/// A stream with these delays in nanoseconds.
fn fine(delays: impl IntoIterator<Item = u64>) -> Vec<Option<Arrived>> {
    let mut packets = stream([0; 200]);
    let mut count = 0;
    for (packet, delay) in packets.iter_mut().flatten().zip(delays) {
        packet.arrived_at += Span::from_nanos(delay);
        count += 1;
    }
    packets.truncate(count);
    packets
}

/// The medians of ten groups rise by 90 steps. The smallest rise is 9.9 us, a thousandth of 9.9 ms, and hosts cause
/// less than 100 us.
#[test]
fn a_rise_is_small_or_unclear_or_clear() {
    let rises = |step: u64| trend(&fine((0..100).map(|n| n * step)));
    let trends = [109, 111, 1100, 1122].map(rises);
    assert_eq!(trends, [Trend::NonIncreasing, Trend::Ambiguous, Trend::Ambiguous, Trend::Increasing]);
    let falls = |step: u64| trend(&fine((0..100).map(|n| (99 - n) * step)));
    assert_eq!([1100, 1122].map(falls), [Trend::NonIncreasing, Trend::Decreasing]);
}

/// Packets arrive in bursts of two and three, so that three of five gaps are short: less than a quarter of the planned
/// gap. A queue grows by 162 us. That is a clear rise unless arrivals are coalesced, which requires one gap more.
/// Arrivals are coalesced with 60 short gaps of 99, and not with 60 of 100.
#[test]
fn arrivals_are_coalesced_where_more_than_six_tenths_are_close() {
    let bursts = |count: u64, late: u64| {
        let before_end = |n: u64| [1, 0, 2, 1, 0][n as usize % 5];
        trend(&fine((0..count).map(|n| 1800 * n + late * before_end(n))))
    };
    assert_eq!(bursts(100, 77_000), Trend::Ambiguous, "24.8 us apart");
    assert_eq!(bursts(101, 77_000), Trend::Increasing);
    assert_eq!(bursts(100, 75_000), Trend::Increasing, "26.8 us apart");
}

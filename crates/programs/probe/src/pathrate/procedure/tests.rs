use longhaul_units::{Rate, Time};

use super::*;
use crate::turns::Turns;
use crate::{Method, Next, TrainReport};

const RTT: Span = Span::from_millis(100);
/// Number of trains before the preliminary ones, if none is lost and none takes too long: 10 exchanges and 17 lengths.
const BEFORE: usize = 27;
/// Number of preliminary trains: 7 of each length from 2 to 10.
const PRELIMINARY: usize = 63;
const PAIRS: usize = BEFORE + PRELIMINARY;
const TRAINS: usize = PAIRS + 1000;

/// Options with equal sizes, so that every rate is exact.
fn one_size() -> PathrateConfig {
    PathrateConfig { smallest: Bytes(1500), ..PathrateConfig::default() }
}

fn arrived(at: Time, size: Bytes) -> Option<Arrived> {
    Some(Arrived { sent_at: at, arrived_at: at, rtt: RTT, size, coalesced: false })
}

/// Report of a train without loss at `rate` bytes per second.
fn at_rate(train: &Train, rate: f64) -> Vec<Option<Arrived>> {
    let mut at = Time::ZERO;
    let packets = train.packets.iter().enumerate();
    packets
        .map(|(index, packet)| {
            at += if index == 0 { Span::ZERO } else { Span::from_secs_f64(packet.size.as_f64() / rate) };
            arrived(at, packet.size)
        })
        .collect()
}

/// Runs a session to its end. `answer` gets each train and its number. Returns the trains with their departure times.
fn run(
    pathrate: &mut Turns<Procedure>,
    mut answer: impl FnMut(usize, &Train) -> Vec<Option<Arrived>>,
) -> Vec<(Time, usize, u64)> {
    let (mut now, mut sent) = (Time::ZERO, Vec::new());
    loop {
        match pathrate.poll(now) {
            Next::Send(train) => {
                let packets = answer(sent.len(), &train);
                sent.push((now, train.packets.len(), train.packets.iter().map(|packet| packet.size.0).sum()));
                pathrate.on_report(now + RTT, &TrainReport { id: train.id, packets });
                now += RTT;
            }
            Next::Wait(until) => now = until,
            Next::Done => return sent,
        }
    }
}

fn session(config: PathrateConfig) -> Turns<Procedure> {
    Turns::of(Procedure::new(config))
}

/// Low end, value and high end of the capacity in bytes per second.
fn capacity(pathrate: &Turns<Procedure>) -> [u64; 3] {
    let range = pathrate.estimate().capacity.expect("an estimate");
    [range.low, range.value, range.high].map(Rate::as_bytes_per_sec)
}

/// Rates of a path with cross traffic. Half of the preliminary trains have 4 MB/s and half 8 MB/s, so that bins are 500
/// kB/s wide; three of five pairs have 3 MB/s and two 10 MB/s; long trains have `long`.
fn busy(long: f64) -> impl FnMut(usize, &Train) -> Vec<Option<Arrived>> {
    move |number, train| {
        let rate = match number {
            0..PAIRS => [4e6, 8e6][number % 2],
            PAIRS..TRAINS => [3e6, 10e6, 3e6, 10e6, 3e6][number % 5],
            _ => long,
        };
        at_rate(train, rate)
    }
}

/// Lengths from 2 to 6 in steps of 1, to 12 in steps of 2, and to 48 in steps of 4; then 2 to 10 seven times.
#[test]
fn an_idle_path_takes_ninety_trains() {
    let mut pathrate = session(PathrateConfig::default());
    let sent = run(&mut pathrate, |_, train| at_rate(train, 10e6));
    let lengths: Vec<usize> = sent.iter().map(|(_, length, _)| *length).collect();
    assert_eq!(lengths[..10], [1; 10]);
    assert_eq!(lengths[10..BEFORE], [2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48]);
    assert_eq!(lengths[BEFORE..], [2, 3, 4, 5, 6, 7, 8, 9, 10].repeat(7));
    // 10 x 550, and 338 + 378 packets of 1500 bytes.
    assert_eq!(sent.iter().map(|(_, _, bytes)| bytes).sum::<u64>(), 1_079_500);
    assert_eq!(capacity(&pathrate), [8_750_000, 10_000_000, 11_250_000], "a bin of 20 Mb/s");
    assert_eq!((pathrate.estimate().converged, pathrate.estimate().confidence), (true, 1.0));
}

/// Five preliminary trains at each end are dropped. One of six slow trains remains: the mean is (52 x 10 + 1) / 53
/// MB/s, and the standard deviation is 9 / sqrt(53) MB/s, which is 12.6 %.
#[test]
fn quick_termination_ignores_up_to_ten_outliers() {
    for (slow, quick) in [(5, true), (6, false)] {
        let mut pathrate = session(one_size());
        let sent = run(&mut pathrate, |number, train| {
            let preliminary = number.wrapping_sub(BEFORE);
            let rate = if preliminary < slow { 1e6 } else { 10e6 };
            at_rate(train, if (40..45).contains(&preliminary) { 100e6 } else { rate })
        });
        assert_eq!(sent.len() == PAIRS, quick, "{slow} slow trains: {}", sent.len());
        assert!(pathrate.estimate().converged);
    }
}

/// After four losses in total, the length tried last has not passed.
#[test]
fn four_lossy_trains_end_the_search_for_the_longest() {
    let mut pathrate = session(PathrateConfig::default());
    let sent = run(&mut pathrate, |_, train| {
        let mut packets = at_rate(train, 10e6);
        if packets.len() > 6 {
            packets[3] = None;
        }
        packets
    });
    let lengths: Vec<usize> = sent.iter().map(|(_, length, _)| *length).collect();
    assert_eq!(lengths[10..24], [2, 3, 4, 5, 6, 8, 8, 8, 8, 2, 3, 4, 5, 6]);
    assert_eq!(sent.len(), 10 + 9 + 7 * 5);
    assert!(pathrate.estimate().converged);
}

/// A packet takes 12.5 ms, and trains are 125 ms apart: 12 packets take 137.5 ms.
#[test]
fn a_train_that_outlasts_the_spacing_ends_the_search_for_the_longest() {
    let mut pathrate = session(PathrateConfig::default());
    let sent = run(&mut pathrate, |_, train| at_rate(train, 120e3));
    assert_eq!(sent[16..18].iter().map(|(_, length, _)| *length).collect::<Vec<_>>(), [10, 12]);
    assert_eq!(sent.len(), 10 + 8 + PRELIMINARY);
}

/// 48 packets are 72 kB: at a tenth of 1 MB/s the next train is sent 720 ms later. Small trains are 1.25 round trips
/// apart.
#[test]
fn trains_keep_to_a_tenth_of_the_rate() {
    let config = PathrateConfig { time: Span::from_secs(86_400), ..one_size() };
    let mut pathrate = session(config);
    let sent = run(&mut pathrate, |number, train| match number {
        0..PAIRS => at_rate(train, [0.75e6, 1.25e6][number % 2]),
        _ => at_rate(train, 1e6),
    });
    let gaps = |from: usize, to: usize| -> Vec<u64> {
        sent[from..to].windows(2).map(|pair| (pair[1].0.since(pair[0].0).as_micros() + 500) / 1000).collect()
    };
    assert_eq!(gaps(0, 10), [100; 9], "after the last answer");
    assert_eq!(gaps(PAIRS, PAIRS + 4), [125; 3]);
    assert_eq!(sent[TRAINS].1, 48);
    // The preliminary mean is not exactly 1 MB/s: of 32 and 31 trains, 5 each are dropped.
    assert!(gaps(TRAINS, TRAINS + 4).iter().all(|gap| (710..730).contains(gap)), "{:?}", gaps(TRAINS, TRAINS + 4));
}

/// The lower mode has more samples, but long trains are faster.
#[test]
fn the_capacity_is_the_best_mode_above_the_rate_of_long_trains() {
    let mut pathrate = session(one_size());
    let sent = run(&mut pathrate, busy(5e6));
    assert_eq!(sent.len(), TRAINS + 500);
    assert!(sent[PAIRS..TRAINS].iter().all(|(_, length, _)| *length == 2));
    assert!(sent[TRAINS..].iter().all(|(_, length, _)| *length == 48));
    assert_eq!(capacity(&pathrate), [9_750_000, 10_000_000, 10_250_000]);
    let estimate = pathrate.estimate();
    assert!(estimate.converged && (estimate.confidence - 0.4).abs() < 1e-9, "{estimate:?}");

    let mut pathrate = session(one_size());
    run(&mut pathrate, busy(2e6));
    assert_eq!(capacity(&pathrate)[1], 3_000_000, "both modes are above: 600 x 0.6 exceeds 400 x 0.4");
}

#[test]
fn without_a_mode_above_it_the_rate_of_long_trains_is_the_estimate() {
    let mut pathrate = session(one_size());
    run(&mut pathrate, busy(12e6));
    assert_eq!(capacity(&pathrate), [11_750_000, 12_000_000, 12_250_000]);
    assert!(!pathrate.estimate().converged);
}

#[test]
fn phase_one_takes_all_sizes_in_turn() {
    let (mut pathrate, mut sizes) = (session(PathrateConfig::default()), Vec::new());
    run(&mut pathrate, |number, train| {
        if (PAIRS..TRAINS).contains(&number) {
            sizes.push(train.packets[0].size.0);
        }
        busy(5e6)(number, train)
    });
    assert_eq!((sizes[0], sizes[39], sizes[40], sizes.len()), (550, 1500, 550, 1000));
    sizes.sort_unstable();
    sizes.dedup();
    assert_eq!(sizes.len(), 40);
    // Rounding to nanoseconds changes a rate by some parts per million.
    assert!(capacity(&pathrate)[1].abs_diff(10_000_000) < 100);
}

/// Pairs that are too fast: 40 trains of each length from 2 to 12, with growing sizes. The result is a lower bound.
#[test]
fn phase_one_without_samples_is_given_up() {
    let (mut pathrate, mut smallest) = (session(PathrateConfig::default()), Vec::new());
    let mut lengths = Vec::new();
    run(&mut pathrate, |number, train| match number {
        PAIRS.. if train.packets.len() < 48 => {
            lengths.push(train.packets.len());
            smallest.push(train.packets[0].size.0);
            at_rate(train, 2e9)
        }
        PAIRS.. => at_rate(train, 5e6),
        _ => busy(5e6)(number, train),
    });
    let expected: Vec<usize> = (2..=12).flat_map(|length| [length; 40]).collect();
    assert_eq!(lengths, expected);
    let steps: Vec<u64> = smallest.chunks(40).map(|sizes| sizes[0]).collect();
    assert_eq!(steps, [550, 825, 1100, 1375, 1500, 1500, 1500, 1500, 1500, 1500, 1500]);
    assert_eq!(capacity(&pathrate), [5_000_000, 5_000_000, 1_250_000_000]);
    assert!(!pathrate.estimate().converged);
}

/// If pairs lose samples, the mode is the estimate, but the session does not converge.
#[test]
fn a_phase_with_too_few_samples_does_not_converge() {
    let mut pathrate = session(one_size());
    let sent = run(&mut pathrate, |number, train| match number {
        TRAINS.. if number % 3 > 0 => vec![at_rate(train, 5e6)[0], None],
        _ => busy(5e6)(number, train),
    });
    assert_eq!(sent.len(), TRAINS + 1000, "twice as many trains as samples are required");
    assert_eq!(capacity(&pathrate)[1], 10_000_000);
    assert!(!pathrate.estimate().converged);
}

/// Exactly half of the pairs are ignored.
#[test]
fn pairs_stay_pairs_while_half_of_them_count() {
    let mut pathrate = session(one_size());
    let sent = run(&mut pathrate, |number, train| {
        let mut packets = busy(5e6)(number, train);
        if (PAIRS..TRAINS).contains(&number) && (number - PAIRS) % 2 == 1 {
            packets.iter_mut().flatten().for_each(|packet| packet.arrived_at = Time::ZERO);
        }
        packets
    });
    assert!(sent[PAIRS..TRAINS].iter().all(|(_, length, _)| *length == 2));
}

/// Six packets arrive together every 3 ms: 9000 bytes in 3 ms.
fn handed_over(train: &Train) -> Vec<Option<Arrived>> {
    let at = |index: usize| Time::ZERO + Span::from_millis(3 * (index as u64 / 6));
    train.packets.iter().enumerate().map(|(index, packet)| arrived(at(index), packet.size)).collect()
}

#[test]
fn under_interrupt_coalescence_only_long_trains_count() {
    let mut pathrate = session(PathrateConfig::default());
    let sent = run(&mut pathrate, |_, train| handed_over(train));
    assert_eq!(sent.len(), BEFORE + 40);
    assert!(sent[BEFORE..].iter().all(|(_, length, _)| *length == 48));
    // 72 kB at a tenth of 3 MB/s.
    assert_eq!(sent[BEFORE + 2].0.since(sent[BEFORE + 1].0), Span::from_millis(240));
    assert_eq!(
        capacity(&pathrate),
        [2_625_000, 3_000_000, 3_375_000],
        "a quarter of the median, which is less than 20 Mb/s"
    );
    assert_eq!((pathrate.estimate().converged, pathrate.estimate().confidence), (true, 1.0));
}

/// Half of the long trains have 3 MB/s and half 4.5 MB/s: the mean is 3.75 MB/s, and the standard deviation is 0.75
/// sqrt(40 / 39) MB/s.
#[test]
fn the_spread_of_long_trains_reduces_the_confidence() {
    let mut pathrate = session(PathrateConfig::default());
    run(&mut pathrate, |number, train| {
        let mut packets = handed_over(train);
        if number % 2 == 0 {
            let faster = |at: Time| Time::ZERO + at.since(Time::ZERO) * 2 / 3;
            packets.iter_mut().flatten().for_each(|packet| packet.arrived_at = faster(packet.arrived_at));
        }
        packets
    });
    let estimate = pathrate.estimate();
    let expected = 1.0 - 0.75 * (40.0_f64 / 39.0).sqrt() / 3.75;
    assert!((estimate.confidence - expected).abs() < 1e-6 && !estimate.converged, "{estimate:?}");
}

/// If the path dies, the estimate remains without convergence.
#[test]
fn ten_unanswered_trains_end_the_session_in_any_phase() {
    for (dies, expected) in
        [(0, None), (15, None), (60, Some(6_000_000)), (300, Some(10_000_000)), (1200, Some(10_000_000))]
    {
        let mut pathrate = session(one_size());
        let sent = run(&mut pathrate, |number, train| match number {
            _ if number >= dies => vec![None; train.packets.len()],
            _ => busy(5e6)(number, train),
        });
        assert_eq!(sent.len(), dies + 10);
        let found = pathrate.estimate().capacity.map(|range| range.value.as_bytes_per_sec());
        // There are 33 preliminary trains, 17 of them at 8 MB/s.
        assert!(found.map_or(expected.is_none(), |found| found.abs_diff(expected.unwrap_or(0)) < 70_000), "{found:?}");
        assert!(!pathrate.estimate().converged);
    }
    let mut pathrate = session(PathrateConfig::default());
    run(&mut pathrate, |number, train| if number < BEFORE + 9 { handed_over(train) } else { vec![None] });
    assert_eq!(capacity(&pathrate)[1], 3_000_000);
    assert!(!pathrate.estimate().converged);
}

fn with(trains: &[(f64, usize)], preliminary: f64) -> Procedure {
    let mut procedure = Procedure::new(PathrateConfig::default());
    procedure.trains = trains.iter().flat_map(|(rate, count)| vec![*rate; *count]).collect();
    (procedure.preliminary, procedure.width) = (vec![preliminary], 0.5e6);
    procedure
}

/// 400 trains at 6.0 MB/s and 100 at 6.4 MB/s are in one bin with its centre at 6.2 MB/s. Without ten trains at each
/// end their mean is (390 x 6.0 + 90 x 6.4) / 480.
#[test]
fn the_rate_of_long_trains_is_a_mode_or_a_mean() {
    let one_mode = [(6.0e6, 400), (6.4e6, 100)];
    assert_eq!(with(&one_mode, 6.5e6).asymptotic(), Some(6.2e6), "narrow and close to the preliminary mean");
    assert_eq!(with(&one_mode, 6.8e6).asymptotic(), Some(6.075e6), "narrow, but far from it");
    // The bell extends to 8 MB/s, and the coefficient of variation exceeds 0.1.
    let wide = [(6.0e6, 260), (6.5e6, 60), (7.0e6, 60), (7.5e6, 60), (8.0e6, 60)];
    assert_eq!(with(&wide, 6.0e6).asymptotic(), Some(3160e6 / 480.0));
    assert_eq!(with(&[(4e6, 300), (8e6, 200)], 6e6).asymptotic(), Some(4e6), "300 x 0.6 exceeds 200 x 0.4");
    assert_eq!(with(&[], 6e6).asymptotic(), Some(6e6), "the preliminary trains, because there are no long ones");
}

/// The first exchange does not count, because it may include route lookups. The other nine have a mean of 111 ms, so
/// that the spacing is 139 ms. Trains of four packets take 130 ms, and trains of five take 173 ms.
#[test]
fn the_spacing_is_of_all_exchanges_but_the_first() {
    let mut pathrate = session(one_size());
    let sent = run(&mut pathrate, |number, train| {
        let mut packets = at_rate(train, 1500.0 * 3.0 / 0.130);
        let rtt = [Span::from_secs(1), Span::from_millis(200)].get(number).copied().unwrap_or(RTT);
        packets.iter_mut().flatten().for_each(|packet| packet.rtt = rtt);
        packets
    });
    let lengths: Vec<usize> = sent.iter().map(|(_, length, _)| *length).collect();
    assert_eq!(lengths[10..20], [2, 3, 4, 5, 2, 3, 4, 2, 3, 4]);
}

/// A sample at the highest permitted rate counts.
#[test]
fn only_samples_above_the_highest_rate_are_ignored() {
    let at = |max_rate| {
        let mut pathrate = session(PathrateConfig { max_rate, ..one_size() });
        run(&mut pathrate, |_, train| at_rate(train, 1e6));
        pathrate.estimate().capacity.is_some()
    };
    assert!(at(Rate::from_bytes_per_sec(1_000_000)) && !at(Rate::from_bytes_per_sec(999_999)));
}

use longhaul_units::{Bytes, Span, Time};

use super::rules::*;
use super::{PathChirpConfig, Procedure};
use crate::turns::Turns;
use crate::{Arrived, Method, Next, Train, TrainReport};

mod bounds;

const RULE: ExcursionRule = ExcursionRule { fall: 1.5, least: 5, slope: 1e-4, noise: 1.5, misordered: 2.0 };

/// Gaps of 1 s with these rates, and these delays at the packets.
fn made<const N: usize>(rates: [f64; N], waits: &[f64]) -> Vec<Gap> {
    rates.iter().zip(waits.windows(2)).map(|(rate, w)| Gap { span: 1.0, rate: *rate, rise: w[1] - w[0] }).collect()
}

#[test]
fn gaps_shrink_by_the_factor_and_reach_both_rates() {
    let packets = chirp((1000.0, 2000.0), Bytes(1000), 1.2);
    // 1.2^4 > 2: rates 1, 1.2, 1.44, 1.728 and 2.0736 kB/s.
    let gaps: Vec<f64> = packets.windows(2).map(|p| (p[1].at.as_nanos() - p[0].at.as_nanos()) as f64 * 1e-9).collect();
    for (gap, rate) in gaps.iter().zip([1.0, 1.2, 1.44, 1.728, 2.0736]) {
        assert!((gap * rate - 1.0).abs() < 1e-6, "{gaps:?}");
    }
    assert_eq!(gaps.len(), 5);
}

/// Delays 0 3 6 9 12 6 0: the excursion rises to 12 and ends at the sixth packet, where 6 < 12 / 1.5. With five packets
/// it counts, so that its four gaps with a rise contribute 10, 20, 30 and 40; in the fifth gap the delay falls. No
/// excursion follows: all other gaps contribute the last rate, 80.
#[test]
fn an_excursion_that_ends_contributes_its_own_rates() {
    let rates = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0];
    let gaps = made(rates, &[0.0, 3.0, 6.0, 9.0, 12.0, 6.0, 0.0, 0.0]);
    assert_eq!(chirp_estimate(&gaps, 0.0, &RULE), Some((10.0 + 20.0 + 30.0 + 40.0 + 3.0 * 80.0) / 7.0));
    let longer = ExcursionRule { least: 6, ..RULE };
    assert_eq!(chirp_estimate(&gaps, 0.0, &longer), Some(80.0), "too short to count");
    // 8 equals 12 / 1.5: the excursion continues to the next packet.
    let edge = made(rates, &[0.0, 3.0, 6.0, 9.0, 12.0, 8.0, 0.0, 0.0]);
    assert_eq!(chirp_estimate(&edge, 0.0, &longer), Some((10.0 + 20.0 + 30.0 + 40.0 + 3.0 * 80.0) / 7.0));
}

/// The delay rises from the fourth packet to the end: all gaps contribute the rate of its gap.
#[test]
fn an_excursion_that_does_not_end_is_the_turning_point() {
    let gaps = made([10.0, 20.0, 30.0, 40.0, 50.0, 60.0], &[0.0, 0.0, 0.0, 0.0, 1.0, 3.0, 6.0]);
    assert_eq!(chirp_estimate(&gaps, 0.0, &RULE), Some(40.0));
    let flat = made([10.0, 20.0, 30.0], &[0.0; 4]);
    assert_eq!(chirp_estimate(&flat, 0.0, &RULE), Some(30.0), "without a rise, the last rate is a lower bound");
    assert_eq!(chirp_estimate(&[], 0.0, &RULE), None);
    let drifting = made([10.0, 20.0, 30.0], &[0.0, 5e-5, 1e-4, 1.5e-4]);
    assert_eq!(chirp_estimate(&drifting, 0.0, &RULE), Some(30.0), "a clock that is 50 ppm fast");
}

/// Delays change by 3 up and down for rates up to 40; then a queue grows. After the first rise, the delay never falls
/// to a third of it, so that the excursion would start there. The median change in the first half is 3: an excursion
/// below 4.5 ends at once, and the last one starts before 50.
#[test]
fn an_excursion_below_the_noise_ends() {
    let gaps = made([10.0, 20.0, 30.0, 40.0, 50.0, 60.0], &[0.0, 3.0, 2.0, 5.0, 3.0, 9.0, 19.0]);
    let rule = ExcursionRule { fall: 3.0, ..RULE };
    assert_eq!(noise(&gaps), 3.0);
    assert_eq!(chirp_estimate(&gaps, 0.0, &rule), Some(10.0));
    assert_eq!(chirp_estimate(&gaps, rule.noise * noise(&gaps), &rule), Some(50.0));
    assert_eq!(noise(&[]), 0.0);
    let louder = made([10.0, 20.0, 30.0, 40.0], &[0.0, 1.0, 2.0, 12.0, 22.0]);
    assert_eq!(noise(&louder), 1.0, "the queue changes the second half only");
}

#[test]
fn longer_gaps_weigh_more() {
    let mut gaps = made([10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0], &[0.0, 3.0, 6.0, 9.0, 12.0, 6.0, 0.0, 0.0]);
    gaps[0].span = 4.0;
    assert_eq!(chirp_estimate(&gaps, 0.0, &RULE), Some((4.0 * 10.0 + 20.0 + 30.0 + 40.0 + 3.0 * 80.0) / 10.0));
}

fn packet(sent: u64, arrived: u64, coalesced: bool) -> Option<Arrived> {
    let at = |millis: u64| Time::ZERO + Span::from_millis(millis);
    Some(Arrived {
        sent_at: at(sent),
        arrived_at: at(arrived),
        rtt: Span::from_millis(9),
        size: Bytes(1000),
        coalesced,
    })
}

#[test]
fn gaps_beside_lost_and_merged_packets_are_joined() {
    let packets =
        [packet(0, 500, false), None, packet(200, 700, false), packet(280, 790, true), packet(350, 860, false)];
    let found = gaps(&packets, &RULE).unwrap();
    assert_eq!(found.iter().map(|gap| gap.rate.round()).collect::<Vec<_>>(), [10_000.0, 13_333.0]);
    assert!((found[0].rise).abs() < 1e-12 && (found[1].rise - 0.01).abs() < 1e-12);
    // Two of five packets are less than half.
    let few = [packets[0], None, None, packets[3], packets[4]];
    assert_eq!(gaps(&few, &RULE), None);
    assert_eq!(gaps(&packets[..1], &RULE), None);
    assert_eq!(gaps(&packets[..2], &RULE), None);
    assert!(
        gaps(&packets[1..3], &RULE).is_none() && gaps(&packets[1..5], &RULE).is_some(),
        "half of four packets suffice"
    );
    let lost = [packet(0, 0, false), packet(100, 100, false), None, None, packet(400, 400, false)];
    assert!(gaps(&lost, &RULE).is_some(), "three joined gaps of 100 ms are no interruption");
}

#[test]
fn an_interrupted_sender_makes_a_chirp_invalid() {
    let with = |third: u64| gaps(&[packet(0, 0, false), packet(100, 100, false), packet(third, third, false)], &RULE);
    assert!(with(300).is_some(), "exactly twice the gap before");
    assert!(with(301).is_none());
}

/// A fluid queue in front of a link of 10 MB/s with cross traffic of 5 MB/s.
fn fluid(train: &Train) -> TrainReport {
    let (mut queue, mut before) = (0.0_f64, 0.0);
    let packets = train.packets.iter().map(|planned| {
        let at = planned.at.as_secs_f64();
        queue = (queue - (at - before) * 5e6).max(0.0) + planned.size.as_f64();
        before = at;
        let delay = Span::from_millis(10) + Span::from_secs_f64(queue / 1e7);
        let sent_at = Time::from_nanos(1_000_000_000) + planned.at;
        Some(Arrived { sent_at, arrived_at: sent_at + delay, rtt: delay * 2, size: planned.size, coalesced: false })
    });
    TrainReport { id: train.id, packets: packets.collect() }
}

fn run(method: &mut Turns<Procedure>, answers: impl Fn(u32) -> bool) -> (Vec<Train>, Time) {
    let (mut now, mut trains) = (Time::from_nanos(1), Vec::new());
    loop {
        match method.poll(now) {
            Next::Send(train) => {
                if answers(trains.len() as u32) {
                    now += train.packets.last().unwrap().at + Span::from_millis(20);
                    method.on_report(now, &fluid(&train));
                }
                trains.push(train);
            }
            Next::Wait(until) => now = until,
            Next::Done => return (trains, now),
        }
    }
}

/// The first rate of a chirp above the available bandwidth exceeds it by at most the factor 1.2: the range consists of
/// the two rates between which delays start to rise.
#[test]
fn an_ideal_path_is_measured_to_one_step() {
    let mut method = Turns::of(Procedure::new(PathChirpConfig::default()));
    let (trains, _) = run(&mut method, |_| true);
    let estimate = method.estimate();
    let range = estimate.available.unwrap();
    let (low, high) = (range.low.as_bytes_per_sec(), range.high.as_bytes_per_sec());
    assert!(estimate.converged && low <= 5_000_000 && high >= 5_000_000, "{estimate:?}");
    assert!(
        (5_000_000..=6_000_000).contains(&range.value.as_bytes_per_sec()),
        "the upper of the two rates: {estimate:?}"
    );
    assert!((0.75..0.84).contains(&estimate.confidence), "the range is a step of 1.2: {estimate:?}");
    assert_eq!(trains.len(), 25, "5 chirps find the range, and 20 count");
    // 16 gaps from a fifth of the estimate to three times the estimate, because 1.2^15 > 15.
    assert_eq!(trains.last().unwrap().packets.len(), 17);
}

/// Trains with their rests take at most a twentieth of the estimate, which is at most 6 MB/s. No rest is longer than
/// the option permits.
#[test]
fn chirps_take_a_twentieth_of_the_estimate() {
    let rate = |config| {
        let (trains, took) = run(&mut Turns::of(Procedure::new(config)), |_| true);
        trains.iter().flat_map(|train| &train.packets).map(|packet| packet.size.as_f64()).sum::<f64>()
            / took.since(Time::ZERO).as_secs_f64()
    };
    let config = PathChirpConfig::default();
    let found = rate(config);
    assert!((0.025 * 5e6..0.05 * 6e6).contains(&found), "{found}");
    let hasty = rate(PathChirpConfig { most_rest: Span::from_millis(1), ..config });
    assert!(hasty > 2.0 * found, "{hasty}");
}

/// Chirps of which a single packet arrives are invalid, and the largest number of chirps ends the session.
#[test]
fn the_largest_number_of_chirps_ends_the_session() {
    let mut method = Turns::of(Procedure::new(PathChirpConfig { chirps: 30, ..PathChirpConfig::default() }));
    let (mut now, mut trains) = (Time::from_nanos(1), 0);
    loop {
        match method.poll(now) {
            Next::Send(train) => {
                trains += 1;
                let mut report = fluid(&train);
                report.packets.truncate(1);
                method.on_report(now, &report);
            }
            Next::Wait(until) => now = until,
            Next::Done => break,
        }
        assert!(trains <= 30);
    }
    assert_eq!((trains, method.estimate().available), (30, None));
}

#[test]
fn a_path_without_answers_ends_the_session() {
    let mut method = Turns::of(Procedure::new(PathChirpConfig::default()));
    assert_eq!(run(&mut method, |_| false).0.len(), 10);
    assert_eq!(method.estimate().available, None);
    let mut dies = Turns::of(Procedure::new(PathChirpConfig::default()));
    assert_eq!(run(&mut dies, |n| n < 15).0.len(), 25);
    assert!(dies.estimate().available.is_some() && !dies.estimate().converged);
}

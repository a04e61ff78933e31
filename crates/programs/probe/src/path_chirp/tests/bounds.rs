//! Limits: excursions, the first and later chirps, and convergence.

use longhaul_units::Rate;

use super::*;
use crate::Estimate;

/// With F = 3, an excursion to 12 continues at 4 and ends below; with L = 5, it counts from 5 packets on.
#[test]
fn an_excursion_ends_below_a_third_and_counts_from_five_packets_on() {
    let rates = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0];
    let own = Some((10.0 + 20.0 + 30.0 + 40.0 + 3.0 * 80.0) / 7.0);
    let of = |waits: &[f64], least| {
        let rule = ExcursionRule { least, ..ExcursionRule::default() };
        chirp_estimate(&made(rates, waits), 0.0, &rule)
    };
    assert_eq!(of(&[0.0, 3.0, 6.0, 9.0, 12.0, 4.0, 0.0, 0.0], 6), own, "the sixth packet ends it");
    assert_eq!(of(&[0.0, 3.0, 6.0, 9.0, 12.0, 3.99, 0.0, 0.0], 6), Some(80.0), "the fifth does");
    let least = ExcursionRule::default().least;
    assert_eq!(of(&[0.0, 3.0, 6.0, 9.0, 12.0, 3.99, 0.0, 0.0], least), own);
    assert_eq!(of(&[0.0, 3.0, 6.0, 9.0, 2.99, 0.0, 0.0, 0.0], least), Some(80.0), "four packets");
}

/// A rise of 1 % of the gap is clock drift.
#[test]
fn an_excursion_starts_with_more_than_a_hundredth_of_its_gap() {
    let of = |rise: f64| {
        let waits = [0.0, rise, rise, rise];
        chirp_estimate(&made([10.0, 20.0, 30.0], &waits), 0.0, &ExcursionRule::default())
    };
    assert_eq!([of(0.01), of(0.0101)], [Some(30.0), Some(10.0)]);
}

/// Gaps with constant delays in an excursion that counts contribute their own rates.
#[test]
fn constant_delays_in_an_excursion_contribute_their_own_rates() {
    let rates = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0];
    let gaps = made(rates, &[0.0, 3.0, 3.0, 9.0, 12.0, 3.0, 0.0, 0.0]);
    assert_eq!(chirp_estimate(&gaps, 0.0, &RULE), Some((10.0 + 20.0 + 30.0 + 40.0 + 3.0 * 80.0) / 7.0));
}

/// One excursion ends and counts. The last one does not end: all other gaps contribute the rate at its start, however
/// short it is.
#[test]
fn the_last_excursion_determines_the_rate_outside_of_others() {
    let rates = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
    let gaps = made(rates, &[0.0, 3.0, 6.0, 9.0, 12.0, 3.0, 3.0, 3.0, 4.0, 6.0, 9.0]);
    assert_eq!(chirp_estimate(&gaps, 0.0, &RULE), Some((10.0 + 20.0 + 30.0 + 40.0 + 6.0 * 80.0) / 10.0));
    let single = made(rates, &[0.0, 3.0, 6.0, 9.0, 12.0, 3.0, 3.0, 3.0, 3.0, 3.0, 4.0]);
    assert_eq!(chirp_estimate(&single, 0.0, &RULE), Some((10.0 + 20.0 + 30.0 + 40.0 + 6.0 * 100.0) / 10.0));
}

#[test]
fn an_excursion_as_high_as_noise_continues() {
    let gaps = made([10.0, 20.0, 30.0], &[0.0, 4.5, 4.5, 4.5]);
    assert_eq!([4.5, 4.6].map(|least| chirp_estimate(&gaps, least, &RULE)), [Some(10.0), Some(30.0)]);
}

#[test]
fn packets_that_left_at_once_make_a_chirp_invalid() {
    assert_eq!(gaps(&[packet(5, 5, false), packet(5, 6, false)], &RULE), None);
    assert!(gaps(&[packet(5, 5, false), packet(6, 6, false)], &RULE).is_some());
}

#[test]
fn a_chirp_has_at_least_two_gaps() {
    assert_eq!(chirp((1000.0, 1000.0), Bytes(1000), 1.2).len(), 3);
}

/// Rates of the first and the last gap of a train in bytes per second.
fn ends(train: &Train) -> [f64; 2] {
    let rate = |pair: &[crate::Planned]| 1200.0 / (pair[1].at - pair[0].at).as_secs_f64();
    let last = train.packets.len() - 2;
    [rate(&train.packets[..2]), rate(&train.packets[last..])]
}

/// A path without a queue; sending takes `stretch` times the planned time.
fn stretched(train: &Train, stretch: f64) -> TrainReport {
    let packets = train.packets.iter().map(|planned| {
        let sent_at = Time::from_nanos(1_000_000_000) + planned.at.mul_f64(stretch);
        let (arrived_at, rtt) = (sent_at + Span::from_millis(10), Span::from_millis(20));
        Some(Arrived { sent_at, arrived_at, rtt, size: planned.size, coalesced: false })
    });
    TrainReport { id: train.id, packets: packets.collect() }
}

/// The first chirp goes from 1 Mb/s to at least 200 Mb/s, because 1.2^30 > 200. Without a queue the result of a chirp
/// is its highest rate, and the next one goes from a fifth of that to at least three times that, because 1.2^15 > 15.
/// It is sent when both chirps take a twentieth of that rate.
#[test]
fn the_first_chirps_find_the_range() {
    let mut method = Turns::of(Procedure::new(PathChirpConfig::default()));
    let mut now = Time::from_nanos(1);
    let (mut from, mut gaps, mut said) = (125e3, 31, None::<f64>);
    for chirp in 0..3 {
        let Next::Send(train) = method.poll(now) else { panic!("{chirp}: nothing to wait for") };
        let to = from * 1.2_f64.powi(gaps - 1);
        let [low, high] = ends(&train);
        assert_eq!(train.packets.len() as i32, gaps + 1, "{chirp}");
        assert!((low / from - 1.0).abs() < 1e-3 && (high / to - 1.0).abs() < 1e-3, "{chirp}: {low} to {high}");
        method.on_report(now, &stretched(&train, 1.0));
        now += train.packets.last().unwrap().at;
        if let Some(said) = said {
            let Next::Wait(until) = method.poll(now) else { panic!("{chirp}: it rests") };
            let rest = f64::from(gaps + 1) * 1200.0 / (0.05 * said);
            assert!((until.since(now).as_secs_f64() / rest - 1.0).abs() < 1e-3, "{chirp}");
            now = until;
        }
        (from, gaps, said) = (0.2 * to, 16, Some(to));
    }
}

/// Number of chirps and estimate of a session whose chirps have these rates in MB/s in turn.
fn session(config: PathChirpConfig, says: impl Fn(usize) -> f64) -> (usize, Estimate) {
    let mut method = Turns::of(Procedure::new(config));
    let (mut now, mut chirps) = (Time::from_nanos(1), 0);
    loop {
        match method.poll(now) {
            Next::Send(train) => {
                let [_, highest] = ends(&train);
                now += train.packets.last().unwrap().at;
                method.on_report(now, &stretched(&train, highest / (says(chirps) * 1e6)));
                chirps += 1;
            }
            Next::Wait(until) => now = until,
            Next::Done => return (chirps, method.estimate()),
        }
    }
}

fn near(rate: Rate, megabytes: f64) -> bool {
    (rate.as_bytes_per_sec() as f64 / (megabytes * 1e6) - 1.0).abs() < 1e-4
}

/// The rates 1 + x and 1 - x in turn have a standard deviation of x sqrt(n / (n - 1)). For x = 0.22, the half-width
/// over 20 chirps is 0.0989 of the mean. For x = 0.23 it is 0.1034, and over 21 chirps it is 0.0996, or 0.1018 if there
/// are more of 1 - x. The chirps that find the range do not count.
#[test]
fn a_session_converges_with_a_half_width_of_a_tenth() {
    for (spread, first, chirps) in [(0.22, 0, 20), (0.23, 0, 21), (0.23, 1, 22)] {
        let says = |n: usize| match n {
            ..5 => 7.0,
            _ if (n - 5) % 2 == first => 1.0 + spread,
            _ => 1.0 - spread,
        };
        let (sent, estimate) = session(PathChirpConfig::default(), says);
        assert_eq!((sent, estimate.converged), (5 + chirps, true), "{spread} {first}");
    }
}

/// The last three of six chirps count. After one chirp the estimate has no confidence.
#[test]
fn the_estimate_is_the_mean_of_the_window() {
    let config = PathChirpConfig { warm_up: 0, window: 3, chirps: 6, ..PathChirpConfig::default() };
    let (chirps, estimate) = session(config, |n| if n < 3 { 1.0 } else { 5.0 });
    let range = estimate.available.unwrap();
    assert!(chirps == 6 && near(range.low, 5.0 / 1.2) && near(range.value, 5.0) && near(range.high, 5.0), "{range:?}");
    assert!(!estimate.converged && (estimate.confidence - 1.0 / 1.2).abs() < 1e-4);
    let (chirps, estimate) = session(PathChirpConfig { chirps: 6, ..PathChirpConfig::default() }, |_| 2.0);
    assert!(chirps == 6 && near(estimate.available.unwrap().value, 2.0));
    assert_eq!((estimate.converged, estimate.confidence), (false, 0.0));
}

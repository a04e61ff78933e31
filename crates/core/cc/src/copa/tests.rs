use longhaul_units::{Span, Time};

use super::*;
use crate::tests::MSS;

const BASE: Span = Span::from_millis(100);

fn copa(delta: f64) -> Copa {
    Copa::new(CopaConfig { delta, ..CopaConfig::default() }, &BuildParams::default())
}

/// Copa after slow start, with a window of `segments`, an RTT of 100 ms, and a queueing delay of `queue_ms`.
fn past_start(delta: f64, segments: f64, queue_ms: u64) -> Copa {
    let mut copa = copa(delta);
    (copa.mss, copa.cwnd, copa.slow_start) = (MSS, segments * MSS.as_f64(), false);
    let start = Time::from_nanos(1_000_000_000);
    copa.delays.sample(start, BASE, BASE);
    copa.delays.sample(start + Span::from_secs(1), BASE + Span::from_millis(queue_ms), BASE);
    copa.restart();
    copa.slow_start = false;
    copa
}

fn in_segments(copa: &Copa) -> f64 {
    copa.cwnd / MSS.as_f64()
}

/// One segment is delivered, and the window limits the sender.
fn arrival() -> Ack<'static> {
    let mut ack = Ack::new(Time::from_nanos(3_000_000_000));
    (ack.delivered, ack.cwnd_limited) = (MSS, true);
    ack
}

/// 1 / (delta dq) segments per second: with dq = 10 ms and delta = 0.5 they are 200/s, or 22 in 110 ms.
#[test]
fn the_target_is_the_inverse_of_price_and_delay() {
    for (delta, queue_ms, rate) in [(0.5, 10, 200.0), (0.5, 50, 40.0), (0.1, 10, 1000.0), (0.04, 1, 25_000.0)] {
        let mut copa = past_start(delta, 10.0, queue_ms);
        let standing = 0.1 + queue_ms as f64 * 1e-3;
        let found = copa.target() / MSS.as_f64() / standing;
        assert!((found / rate - 1.0).abs() < 1e-9, "delta {delta}, {queue_ms} ms: {found}");
        // With half of the segments in the queue, the rate is half as high.
        copa.kept = 0.5;
        let half = copa.target() / MSS.as_f64() / standing;
        assert!((half / rate - 0.5).abs() < 1e-9);
    }
    assert_eq!(past_start(0.5, 10.0, 0).target(), f64::INFINITY);
}

/// v / (delta W) of a segment per delivered segment: 1 / (0.5 x 100) at velocity 1, up below the target and down
/// above it.
#[test]
fn an_ack_moves_by_the_velocity_over_price_and_window() {
    for (queue_ms, sign) in [(0, 1.0), (2, 1.0), (3, -1.0), (50, -1.0)] {
        // 102 / (0.5 x 2) = 102 segments, 103 / (0.5 x 3) = 68.7.
        let mut copa = past_start(0.5, 100.0, queue_ms);
        copa.move_window(&arrival());
        let moved = in_segments(&copa) - 100.0;
        assert!((moved - sign * 0.02).abs() < 1e-9, "{queue_ms} ms: {moved}");
        copa.velocity = velocity_of(sign, 2.0, copa.cwnd);
        let before = in_segments(&copa);
        copa.move_window(&arrival());
        assert!((in_segments(&copa) - before - sign * 2.0 / (0.5 * before)).abs() < 1e-9);
    }
}

/// A velocity of `value` with a window of `cwnd`, upwards, or downwards if `sign` is negative.
fn velocity_of(sign: f64, value: f64, cwnd: f64) -> Velocity {
    let mut velocity = Velocity::new(cwnd);
    let mut at = cwnd;
    while velocity.towards(sign > 0.0, at, f64::INFINITY) < value {
        at += sign;
        velocity.on_round(at, STEADY_ROUNDS);
    }
    velocity
}

/// The direction must be the same for three round trips; then the velocity is 2, 4, 8 and so on. The other direction
/// resets it to 1.
#[test]
fn the_velocity_doubles_after_three_round_trips_in_one_direction() {
    let mut velocity = Velocity::new(100.0);
    let mut values = Vec::new();
    let mut last = 100.0;
    for cwnd in [101.0, 102.0, 103.0, 104.0, 105.0, 104.0, 103.0, 102.0, 101.0, 100.0, 101.0] {
        velocity.on_round(cwnd, STEADY_ROUNDS);
        values.push(velocity.towards(cwnd > last, cwnd, 1e9));
        last = cwnd;
    }
    assert_eq!(values, [1.0, 1.0, 2.0, 4.0, 8.0, 1.0, 1.0, 1.0, 2.0, 4.0, 1.0]);
    velocity.on_round(101.0, STEADY_ROUNDS);
    velocity.on_round(102.0, STEADY_ROUNDS);
    assert_eq!(velocity.towards(true, 102.0, 1e9), 1.0, "a round in which nothing moved has no direction");
    let mut fast = velocity_of(1.0, 64.0, 1.0);
    assert_eq!(fast.towards(true, 100.0, 5.0), 5.0);
    let mut back = fast;
    assert_eq!((back.towards(false, 100.0, 1e9), fast.towards(true, 100.0, 1e9)), (1.0, 5.0), "at once");
    assert_eq!(fast.towards(true, 100.0, 0.1), 1.0);
}

/// With a velocity of s delta W, a window of W segments moves by the fraction s of a segment per delivered segment,
/// at most s W per round trip. If s is 1, as in the authors' code, it doubles.
#[test]
fn no_velocity_moves_the_window_by_more_than_its_step() {
    for (step, queue_ms, sign) in [(0.05, 0, 1.0), (0.05, 50, -1.0), (1.0, 0, 1.0), (1.0, 50, -1.0)] {
        let mut copa = past_start(0.5, 100.0, queue_ms);
        copa.config.step = step;
        copa.velocity = velocity_of(sign, 1024.0, copa.cwnd);
        copa.move_window(&arrival());
        assert!((in_segments(&copa) - 100.0 - sign * step).abs() < 1e-9, "{step}: {}", in_segments(&copa));
    }
    let mut greedy = past_start(0.01, 2.0, 0);
    greedy.move_window(&arrival());
    assert!((in_segments(&greedy) - 3.0).abs() < 1e-9, "{}", in_segments(&greedy));
}

#[test]
fn it_does_not_rise_while_the_window_is_not_used() {
    let mut copa = past_start(0.5, 100.0, 0);
    let mut ack = arrival();
    ack.cwnd_limited = false;
    copa.move_window(&ack);
    assert_eq!(in_segments(&copa), 100.0);
    copa.slow_start = true;
    copa.move_window(&ack);
    assert_eq!(in_segments(&copa), 100.0);
}

/// RTTmin is valid for ten seconds, or for the configured time; RTTstanding for half a smoothed RTT.
#[test]
fn the_windows_of_the_round_trips() {
    for (long, forgotten) in [(LONG, 10_001), (Span::from_secs(3), 3001)] {
        let mut delays = Delays::new(long);
        let at = |ms: u64| Time::from_nanos(1_000_000_000) + Span::from_millis(ms);
        delays.sample(at(0), BASE, BASE);
        let mut forgot_standing = None;
        let mut forgot_least = None;
        for ms in 1..12_000_u64 {
            delays.sample(at(ms), BASE + Span::from_millis(20), BASE);
            if delays.standing() > Some(BASE) {
                forgot_standing.get_or_insert(ms);
            }
            if delays.queueing() == 0.0 && forgot_standing.is_some() {
                forgot_least.get_or_insert(ms);
            }
        }
        assert_eq!(forgot_standing, Some(51));
        assert_eq!(forgot_least, Some(forgotten));
    }
}

/// dq is below a tenth of RTTmax - RTTmin, where RTTmax is of four round trips.
#[test]
fn a_queue_is_nearly_empty_below_a_tenth_of_its_swing() {
    for (now_ms, expected) in [(0, true), (3, true), (5, false), (30, false)] {
        let mut delays = Delays::new(LONG);
        let at = |ms: u64| Time::from_nanos(1_000_000_000) + Span::from_millis(ms);
        delays.sample(at(0), BASE, BASE);
        delays.sample(at(100), BASE + Span::from_millis(40), BASE);
        delays.sample(at(200), BASE + Span::from_millis(now_ms), BASE);
        assert_eq!(delays.is_nearly_empty(0.0, NEARLY), expected, "{now_ms} ms of 40");
        assert_eq!(delays.is_nearly_empty(0.0, 0.5), now_ms < 20, "half: {now_ms} ms of 40");
    }
    assert!(Delays::new(LONG).is_nearly_empty(0.0, NEARLY));
    // Half the time of a segment does not count, with 100 segments per 100 ms.
    assert!((past_start(0.5, 100.0, 0).noise() - 0.5e-3).abs() < 1e-12);
}

/// A route that becomes longer looks like jitter at first. The floor contains all of the delay, so that nothing of it
/// counts as a queue once the jitter is forgotten; a queue above it does.
#[test]
fn the_floor_contains_what_looked_like_jitter() {
    let mut delays = Delays::new(LONG).with_jitter();
    let rtt = Span::from_millis(40);
    let mut now = Time::ZERO;
    let mut samples = |delays: &mut Delays, milliseconds: &[u64]| {
        for queue in milliseconds {
            now += rtt;
            delays.sample(now, rtt + Span::from_millis(*queue), rtt);
        }
    };
    samples(&mut delays, &[0, 0, 0, 30, 20, 20]);
    let looked = delays.jitter();
    assert!(looked > 0.004 && delays.queueing() < 0.016, "{looked} s");
    delays.raise_floor(delays.queueing());
    assert_eq!((delays.floor(), delays.jitter()), (Span::from_millis(20), 0.0));
    samples(&mut delays, &[20; 9]);
    assert!(delays.queueing() < 1e-9);
    samples(&mut delays, &[25; 3]);
    assert!((delays.queueing() - 0.005).abs() < 1e-9);
}

/// A route that is longer by 15 ms in each direction, with a queue of 5 ms in one of them, and what is left after a part of
/// it has become the floor. The directions are unknown without arrival times.
#[test]
fn both_directions_have_the_delay_of_a_longer_route() {
    let rtt = Span::from_millis(30);
    let of_each_way = |reports: bool, there: u64, back: u64, floor: u64| {
        let mut delays = Delays::new(LONG);
        delays.set_floor(Span::from_millis(floor));
        for (round, is_longer) in [0, 0, 1, 1, 1].into_iter().enumerate() {
            let now = Time::ZERO + rtt * 2 * (round as u64 + 1);
            let (there, back) = (Span::from_millis(there * is_longer), Span::from_millis(back * is_longer));
            if reports {
                delays.sample_one_way(now, Time::ZERO, Time::ZERO + rtt + there);
            }
            delays.sample(now, rtt + there + back, rtt);
        }
        (delays.of_each_way() * 1e6).round()
    };
    assert_eq!(of_each_way(true, 20, 15, 0), 15_000.0);
    assert_eq!(of_each_way(true, 15, 20, 0), 15_000.0);
    assert_eq!(of_each_way(true, 20, 15, 10), 5000.0);
    assert_eq!(of_each_way(true, 20, 15, 18), 0.0);
    assert_eq!(of_each_way(true, 20, 0, 0), 0.0);
    assert_eq!(of_each_way(false, 20, 15, 0), 0.0);
}

/// A queue that grows and falls again looks like jitter. If the delay is that of the forward path, it is no more than a
/// limit, which is at least 0.03 of the RTT.
#[test]
fn jitter_of_the_forward_path_is_limited() {
    let rtt = Span::from_millis(40);
    let jitter = |most: f64, reports: bool, reverse: f64| {
        let mut delays = Delays::new(LONG).with_jitter();
        delays.limit_jitter(most);
        delays.limit_reverse(reverse);
        for round in 0..40 {
            let now = Time::ZERO + rtt * (round + 1);
            // Both directions have a queue of 20 ms at the same times.
            let queue = Span::from_millis(20 * (round / 2 % 2));
            if reports {
                delays.sample_one_way(now, Time::ZERO, Time::ZERO + rtt + queue);
            }
            delays.sample(now, rtt + queue * 2, rtt);
        }
        delays.jitter()
    };
    let without = jitter(0.005, false, f64::INFINITY);
    assert!(without > 0.02, "{without}");
    assert!((jitter(0.005, true, f64::INFINITY) - 0.005).abs() < 1e-9);
    // RTTstanding is 80 ms.
    let least = jitter(0.0, true, f64::INFINITY);
    assert!((least - 0.03 * 0.08).abs() < 1e-9, "{least}");
    // The way back is not believed to have more than 1 ms of queue, so that the delay is that of both ways.
    assert!(jitter(0.005, true, 0.001) > 0.02);
}

/// After five round trips without an empty queue, 1 / delta is 2, 3, 4 and so on per round trip. It is halved at a
/// loss, once per round trip, and never below the default's 2. An empty queue ends the mode.
#[test]
fn competition_is_aimd_on_the_inverse_of_delta() {
    let mut mode = Competition::new(0.5, PATIENCE);
    let round = |mode: &mut Competition| {
        mode.on_ack(true, false);
        for _ in 0..3 {
            mode.on_ack(false, false);
        }
        (1.0 / mode.delta() * 1000.0).round() / 1000.0
    };
    for _ in 0..5 {
        assert_eq!((round(&mut mode), mode.is_on()), (2.0, false));
    }
    let rises: Vec<f64> = (0..6).map(|_| round(&mut mode)).collect();
    assert!(mode.is_on());
    assert_eq!(rises, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    mode.on_loss();
    mode.on_loss();
    assert_eq!(1.0 / mode.delta(), 3.5);
    assert_eq!(round(&mut mode), 3.5, "no rise in a round with a loss");
    assert_eq!(round(&mut mode), 4.5);
    for _ in 0..4 {
        mode.on_loss();
        round(&mut mode);
    }
    mode.on_loss();
    assert_eq!(1.0 / mode.delta(), 2.0);
    mode.on_ack(false, true);
    assert_eq!((mode.is_on(), mode.delta()), (false, 0.5));
}

/// The default mode does not respond to one loss, nor to a loss rate of 30 %. A higher rate over two round trips
/// keeps 0.7.
#[test]
fn only_heavy_losses_lower_the_window() {
    for (lost, kept) in [(5, 1.0), (29, 1.0), (31, 0.7)] {
        let mut counts = HeavyLoss::default();
        let mut path = Path::new(MSS);
        path.srtt = Some(BASE);
        let mut at = Time::from_nanos(1_000_000_000);
        let mut cwnd = 1.0;
        for n in 0..100 {
            let mut ack = Ack::new(at);
            (ack.delivered, ack.newly_lost) = if n < lost { (Bytes::ZERO, MSS) } else { (MSS, Bytes::ZERO) };
            cwnd *= if counts.is_heavy(&ack, &path) { KEEP } else { 1.0 };
            at += Span::from_millis(2);
        }
        let mut last = Ack::new(at + Span::from_millis(1));
        last.delivered = Bytes(1);
        cwnd *= if counts.is_heavy(&last, &path) { KEEP } else { 1.0 };
        assert_eq!(cwnd, kept, "{lost} of 100");
    }
}

/// The round trips before the velocity doubles, and the patience before the competitive mode, are options.
#[test]
fn steadiness_and_patience_are_options() {
    let mut velocity = Velocity::new(100.0);
    velocity.on_round(101.0, 1);
    assert_eq!(velocity.towards(true, 101.0, 1e9), 2.0);
    let mut mode = Competition::new(0.5, 2);
    let after: Vec<bool> = (0..4)
        .map(|_| {
            mode.on_ack(true, false);
            mode.is_on()
        })
        .collect();
    assert_eq!(after, [false, false, true, true]);
}

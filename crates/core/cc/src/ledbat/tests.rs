use longhaul_units::{Bytes, Span, Time};

use super::plus_plus::LedbatPlusPlus;
use super::start::{LedbatStart, Options};
use super::*;
use crate::compose::{AvoidanceStep, CongestionAvoidance, Handoff, Reason, SlowStart, Stage, Step, Window};
use crate::tests::{MSS, segments};
use crate::{Ack, Path, RttSample};

const AIM: Span = Span::from_millis(60);

fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000_000) + Span::from_millis(ms)
}

/// Returns an ACK of one segment at `ms`, with an RTT of `rtt_ms`, from a sender that uses its window.
fn ack(ms: u64, rtt_ms: u64) -> Ack<'static> {
    let mut ack = Ack::new(at(ms));
    let rtt = Span::from_millis(rtt_ms);
    ack.rtt = Some(RttSample { rtt, sent_at: ack.now - rtt });
    (ack.delivered, ack.cwnd_limited) = (MSS, true);
    ack
}

fn path(srtt_ms: u64) -> Path {
    let mut path = Path::new(MSS);
    path.srtt = Some(Span::from_millis(srtt_ms));
    path
}

/// The gain is 1 / min(16, ceil(2 x 60 ms / base)).
#[test]
fn the_gain_is_by_the_base_round_trip() {
    let rows = [(1, 16), (7, 16), (8, 15), (10, 12), (20, 6), (59, 3), (60, 2), (119, 2), (120, 1), (133, 1), (600, 1)];
    for (base, divisor) in rows {
        let mut delays = Delays::default();
        delays.sample(at(0), Span::from_millis(base));
        assert_eq!(1.0 / delays.gain(AIM), f64::from(divisor), "{base} ms");
    }
}

/// RFC 6817: the base is the minimum of ten minutes; a minute without samples counts as infinite.
#[test]
fn the_base_is_forgotten_after_ten_minutes() {
    let mut delays = Delays::default();
    assert_eq!((delays.base(), delays.queueing()), (None, 0.0));
    delays.sample(at(0), Span::from_millis(50));
    for minute in 1..10 {
        delays.sample(at(minute * 60_000), Span::from_millis(80));
        assert_eq!(delays.base(), Some(Span::from_millis(50)), "minute {minute}");
    }
    delays.sample(at(600_000), Span::from_millis(80));
    assert_eq!(delays.base(), Some(Span::from_millis(80)));
    delays.sample(at(10 * 3_600_000), Span::from_millis(90));
    assert_eq!(delays.base(), Some(Span::from_millis(90)), "after hours of idleness");
}

/// The current delay is the minimum of the last four samples, without those older than a round trip.
#[test]
fn the_delay_now_is_the_least_of_four() {
    let mut delays = Delays::default();
    for (n, rtt) in [100, 130, 120, 150, 140, 190].into_iter().enumerate() {
        delays.sample(at(n as u64), Span::from_millis(rtt));
    }
    assert!((delays.queueing() - 0.020).abs() < 1e-12, "{}", delays.queueing());
    delays.sample(at(1000), Span::from_millis(170));
    assert!((delays.queueing() - 0.070).abs() < 1e-12, "{}", delays.queueing());
}

fn plus_plus(decrease: f64, slowdown: bool) -> LedbatPlusPlus {
    LedbatPlusPlus::new(plus_plus::Options { target: AIM, decrease, slowdown, ..plus_plus::Options::default() })
}

/// Processes a round trip of ACKs at a window of 100 segments over a base of `base_ms`, at `rtt_ms`. Returns the
/// change in segments.
fn change(base_ms: u64, rtt_ms: u64, decrease: f64) -> f64 {
    let mut algorithm = plus_plus(decrease, false);
    algorithm.observe(&ack(0, base_ms), &path(base_ms));
    algorithm.begin(&Handoff::new(at(0), Reason::NoLoss), &path(base_ms), &mut Window::new(1.0));
    let mut window = Window::new(100.0 * MSS.as_f64());
    let mut total = 0.0;
    for n in 0..100 {
        let event = ack(500 + n, rtt_ms);
        algorithm.observe(&event, &path(rtt_ms));
        algorithm.on_ack(&event, MSS, &path(rtt_ms), &mut window);
        total += window.cwnd / MSS.as_f64() - 100.0;
        window.cwnd = 100.0 * MSS.as_f64();
    }
    total
}

/// Below the target the window grows by the gain; above it changes by `gain - W (delay / target - 1)`, at most half
/// of the window.
#[test]
fn the_window_change_is_additive_below_and_multiplicative_above() {
    let rows = [
        (133, 133, 1.0, 1.0),
        (133, 192, 1.0, 1.0),
        (133, 193, 1.0, 1.0),        // at the target: W x 0
        (133, 196, 1.0, 1.0 - 5.0),  // 63 ms: 100 x 0.05
        (133, 205, 1.0, 1.0 - 20.0), // 72 ms
        (133, 205, 0.5, 1.0 - 10.0), // the same, weighted by half
        (133, 400, 1.0, -50.0),      // capped
        (10, 15, 1.0, 1.0 / 12.0),
        (10, 85, 1.0, 1.0 / 12.0 - 25.0), // 75 ms
    ];
    for (base, rtt, decrease, expected) in rows {
        let found = change(base, rtt, decrease);
        assert!((found - expected).abs() < 1e-6, "{rtt} ms over {base}: {found}, not {expected}");
    }
}

#[test]
fn the_window_keeps_two_segments_and_rises_only_while_used() {
    let mut algorithm = plus_plus(1.0, false);
    algorithm.observe(&ack(0, 100), &path(100));
    let mut window = Window::new(10.0 * MSS.as_f64());
    algorithm.on_ack(&ack(1, 100), Bytes::ZERO, &path(100), &mut window);
    assert_eq!(window.cwnd, 10.0 * MSS.as_f64());
    for n in 0..100 {
        let event = ack(1000 + n, 900);
        algorithm.observe(&event, &path(900));
        algorithm.on_ack(&event, Bytes::ZERO, &path(900), &mut window);
    }
    assert_eq!(window.cwnd, 2.0 * MSS.as_f64());
}

/// In equilibrium gain = W (delay / target - 1): at 100 segments and a gain of 1 the delay is 60.6 ms.
#[test]
fn the_delay_settles_just_above_the_target() {
    let mut algorithm = plus_plus(1.0, false);
    let (base, capacity) = (0.2, 400.0);
    let mut window = Window::new(30.0 * MSS.as_f64());
    let mut now = at(0);
    let mut rtt = base;
    for _ in 0..200_000 {
        let mut event = ack(0, 0);
        event.now = now;
        event.rtt = Some(RttSample { rtt: Span::from_secs_f64(rtt), sent_at: now });
        algorithm.observe(&event, &path(200));
        algorithm.on_ack(&event, MSS, &path(200), &mut window);
        let segments = window.cwnd / MSS.as_f64();
        rtt = f64::max(base, segments / capacity);
        now += Span::from_secs_f64(rtt / segments);
    }
    let segments = window.cwnd / MSS.as_f64();
    let expected = 0.060 * (1.0 + 1.0 / segments);
    assert!((rtt - base - expected).abs() < 0.0005, "{} s at {segments} segments", rtt - base);
}

/// A round trip multiplies the window by 1 + gain: by 2 over 133 ms, by 13/12 over 10 ms.
#[test]
fn slow_start_rises_by_the_gain() {
    for (base, factor) in [(133, 2.0), (100, 1.5), (10, 13.0 / 12.0)] {
        let mut start = LedbatStart::new(Options { target: AIM, ..Options::default() });
        start.observe(&ack(0, base), &path(base));
        let mut window = Window::new(120.0 * MSS.as_f64());
        for n in 0..120 {
            assert_eq!(start.on_ack(&ack(n, base), MSS, &path(base), &mut window), Step::Stay);
        }
        let found = window.cwnd / MSS.as_f64() / 120.0;
        assert!((found - factor).abs() < 1e-9, "{base} ms: {found}");
    }
}

/// At three quarters of the target, 45 ms, the first slow start ends. Slow start towards a known threshold continues.
#[test]
fn the_delay_ends_the_first_slow_start_only() {
    for (rtt, step) in [(145, Step::Stay), (146, Step::Done)] {
        let mut start = LedbatStart::new(Options { target: AIM, ..Options::default() });
        start.observe(&ack(0, 100), &path(100));
        for n in 0..4 {
            start.observe(&ack(1000 + n, rtt), &path(100));
        }
        let mut window = Window::new(50.0 * MSS.as_f64());
        assert_eq!(start.on_ack(&ack(1004, rtt), MSS, &path(100), &mut window), step, "{rtt} ms");
        let mut known = Window { ssthresh: 60.0 * MSS.as_f64(), ..Window::new(50.0 * MSS.as_f64()) };
        assert_eq!(start.on_ack(&ack(1004, rtt), MSS, &path(100), &mut known), Step::Stay);
    }
    let mut start = LedbatStart::new(Options { target: AIM, ..Options::default() });
    assert_eq!(start.initial_window(&Path::new(MSS)), segments(2));
    let mut near = Window { ssthresh: 50.5 * MSS.as_f64(), ..Window::new(50.0 * MSS.as_f64()) };
    start.observe(&ack(0, 200), &path(200));
    assert_eq!(start.on_ack(&ack(0, 200), MSS, &path(200), &mut near), Step::Done);
    assert_eq!(near.cwnd, near.ssthresh);
}

/// The first slowdown starts two round trips after slow start: two segments for two round trips, then slow start to
/// the window before. The next slowdown follows nine durations later.
#[test]
fn slowdowns_take_a_tenth_of_the_time() {
    let mut algorithm = plus_plus(1.0, true);
    let mut window = Window::new(100.0 * MSS.as_f64());
    algorithm.observe(&ack(0, 100), &path(100));
    algorithm.begin(&Handoff::new(at(0), Reason::NoLoss), &path(100), &mut window);
    let tell = |algorithm: &mut LedbatPlusPlus, ms, window: &mut Window| {
        algorithm.on_ack(&ack(ms, 100), MSS, &path(100), window)
    };
    assert_eq!(tell(&mut algorithm, 199, &mut window), AvoidanceStep::Stay);
    let before = window.cwnd;
    assert!(before > 100.0 * MSS.as_f64());
    assert_eq!((tell(&mut algorithm, 200, &mut window), algorithm.phase()), (AvoidanceStep::Stay, "slowdown"));
    assert_eq!((window.cwnd, window.ssthresh), (2.0 * MSS.as_f64(), before));
    assert_eq!(tell(&mut algorithm, 399, &mut window), AvoidanceStep::Stay);
    assert_eq!(window.cwnd, 2.0 * MSS.as_f64());
    assert_eq!(tell(&mut algorithm, 400, &mut window), AvoidanceStep::Grow);
    // The ramp ends at 900 ms: the slowdown took 700 ms, and the next is due at 900 + 6300 ms.
    window.cwnd = before;
    algorithm.begin(&Handoff::new(at(900), Reason::Asked), &path(100), &mut window);
    tell(&mut algorithm, 7199, &mut window);
    assert_eq!(algorithm.phase(), "congestion-avoidance");
    tell(&mut algorithm, 7200, &mut window);
    assert_eq!(algorithm.phase(), "slowdown");
    // A loss ends a slowdown early.
    algorithm.begin(&Handoff::new(at(7300), Reason::Loss), &path(100), &mut window);
    tell(&mut algorithm, 8199, &mut window);
    assert_eq!(algorithm.phase(), "congestion-avoidance");
    tell(&mut algorithm, 8200, &mut window);
    assert_eq!(algorithm.phase(), "slowdown");
}

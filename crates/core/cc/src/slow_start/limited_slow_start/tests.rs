use longhaul_units::Time;

use super::*;
use crate::tests::MSS;

/// Returns the growth of each round in segments, starting from `window`, with one ACK per segment.
fn rounds(slow_start: &mut LimitedSlowStart, window: &mut Window, count: usize) -> Vec<f64> {
    let (ack, path) = (Ack::new(Time::ZERO), Path::new(MSS));
    let mut grown = Vec::new();
    for _ in 0..count {
        let before = window.cwnd;
        for _ in 0..(before / MSS.as_f64()) as u64 {
            slow_start.on_ack(&ack, MSS, &path, window);
        }
        grown.push((window.cwnd - before) / MSS.as_f64());
    }
    grown
}

/// RFC 3742, section 2: the window doubles up to 100 segments, and grows by 50 segments per round trip above. K may
/// increase within a round, so the growth of a round differs from 50 by up to one ACK's increment.
#[test]
fn growth_is_exponential_and_then_linear() {
    let mut slow_start = LimitedSlowStart::default();
    let mut window = Window::new(12.5 * MSS.as_f64());
    window.cwnd = 25.0 * MSS.as_f64();
    assert_eq!(rounds(&mut slow_start, &mut window, 2), [25.0, 50.0]);
    for _ in 0..500 {
        let w = window.cwnd / MSS.as_f64();
        let grown = rounds(&mut slow_start, &mut window, 1)[0];
        assert!((grown - 50.0).abs() < 0.5, "from {w}: {grown}");
    }
}

/// RFC 3742, section 2: each ACK adds at most half a segment above 100 segments, a third above 150, "and so on".
#[test]
fn each_ack_adds_a_whole_part_of_a_segment() {
    let (ack, path) = (Ack::new(Time::ZERO), Path::new(MSS));
    for (from, to, k) in
        [(50.0, 100.0, 1.0), (100.01, 149.99, 2.0), (150.0, 199.99, 3.0), (200.0, 249.99, 4.0), (5e6, 5e6, 1e5)]
    {
        for segments in [from, to] {
            let mut window = Window::new(segments * MSS.as_f64());
            LimitedSlowStart::default().on_ack(&ack, MSS, &path, &mut window);
            let added = (window.cwnd - segments * MSS.as_f64()) / MSS.as_f64();
            assert!((added * k - 1.0).abs() < 1e-3, "from {segments}: {added}");
        }
    }
}

/// The formula of RFC 3742, log2(max_ssthresh) + (cwnd - max_ssthresh) / (max_ssthresh / 2) round trips, yields 1,665
/// for 83,000 segments; the text of the RFC prints 836, half of it.
#[test]
fn eighty_three_thousand_segments_take_1665_round_trips() {
    let mut slow_start = LimitedSlowStart::default();
    let mut window = Window::new(MSS.as_f64());
    let mut count = 0;
    while window.cwnd < 83_000.0 * MSS.as_f64() {
        rounds(&mut slow_start, &mut window, 1);
        count += 1;
    }
    let formula = 100_f64.log2() + 82_900.0 / 50.0;
    assert!((f64::from(count) - formula).abs() <= 1.0, "{count} round trips, not {formula}");
}

#[test]
fn it_ends_exactly_at_the_threshold() {
    let mut slow_start = LimitedSlowStart::default();
    let mut window = Window { cwnd: 199.9 * MSS.as_f64(), ssthresh: 200.0 * MSS.as_f64() };
    let (ack, path) = (Ack::new(Time::ZERO), Path::new(MSS));
    assert_eq!(slow_start.on_ack(&ack, MSS / 10, &path, &mut window), Step::Stay);
    assert_eq!(slow_start.on_ack(&ack, MSS, &path, &mut window), Step::Done);
    assert_eq!(window.cwnd, window.ssthresh);
}

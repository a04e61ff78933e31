use longhaul_units::Span;

use super::*;
use crate::tests::MSS;
use crate::tests::Rounds;

const BASE: Span = Span::from_millis(100);

/// Returns a flow of `segments` that has seen a round at the base RTT and then had `rounds` rounds of `rtt` ms.
fn flow(segments: f64, rtt: u64, rounds: u32) -> Rounds<Yeah> {
    let mut flow = Rounds::new(Yeah::default(), BASE, segments);
    flow.round();
    flow.rtt = Span::from_millis(rtt);
    for _ in 0..rounds {
        flow.window.cwnd = segments * MSS.as_f64();
        flow.round();
    }
    flow.window.cwnd = segments * MSS.as_f64();
    flow
}

/// With a short queue the window grows by a hundredth, at least one segment. 110 ms over a base of 100 ms are a
/// tenth, or 45 of 500 segments.
#[test]
fn a_short_queue_is_scalable() {
    for (segments, rtt, expected) in [(1000.0, 100, 10.0), (500.0, 110, 5.0), (40.0, 100, 1.0)] {
        let raised = flow(segments, rtt, 2).round();
        assert!((raised / expected - 1.0).abs() < 0.03, "{segments} at {rtt} ms: {raised}");
    }
}

/// 115 ms exceed the delay limit, but the queue of 500 segments is 65: the window grows by one segment and nothing is
/// drained.
#[test]
fn a_late_round_is_new_renos() {
    let raised = flow(500.0, 115, 3).round();
    assert!((raised - 1.0).abs() < 0.01, "{raised}");
}

/// A queue of more than 80 segments is drained at once, but at most by half of the window.
#[test]
fn a_long_queue_is_drained() {
    for (segments, rtt) in [(1000.0, 110), (1000.0, 150), (1000.0, 400)] {
        let mut flow = flow(segments, rtt, 1);
        let mut before = flow.cwnd();
        flow.ack();
        while flow.cwnd() > before - 1.0 {
            before = flow.cwnd();
            flow.ack();
        }
        let queue = before * (1.0 - 100.0 / rtt as f64);
        let expected = before - queue.min(before / 2.0);
        assert!((flow.cwnd() - expected).abs() < 0.1, "{rtt} ms: {}, not {expected}", flow.cwnd());
    }
}

/// At a bottleneck the queue settles below 80 segments, without losses.
#[test]
fn the_queue_stays_short() {
    let capacity = 10_000.0;
    let mut flow = Rounds::new(Yeah::default(), BASE, 500.0);
    let mut longest = 0.0_f64;
    for index in 0..200 * 1000 {
        flow.rtt = BASE.max(Span::from_secs_f64(flow.cwnd() / capacity));
        flow.ack();
        if index > 100 * 1000 {
            longest = longest.max(flow.cwnd() - 1000.0);
        }
    }
    assert!((60.0..120.0).contains(&longest), "{longest}");
    assert!(flow.cwnd() > 950.0, "{}", flow.cwnd());
}

/// A loss gives up the queue, and half of the window after sixteen slow rounds.
#[test]
fn a_loss_takes_the_queue() {
    for (rtt, rounds, kept) in [(100, 3, 0.875), (105, 3, 0.875), (120, 3, 0.833), (120, 15, 0.833), (120, 20, 0.5)] {
        // At 300 segments and 120 ms there are 50 in the queue, which exceeds the delay limit but is not drained.
        let share = flow(300.0, rtt, rounds).lose();
        assert!((share - kept).abs() < 0.01, "{rtt} ms, {rounds} rounds: {share}");
    }
}

#[test]
fn a_loss_takes_an_eighth_at_least_and_a_half_at_most() {
    let mut algorithm = Yeah::default();
    for (backlog, kept) in [(0.0, 0.875), (30.0, 0.875), (60.0, 0.8), (100.0, 2.0 / 3.0), (200.0, 0.5)] {
        algorithm.backlog = backlog;
        assert!((algorithm.keep(300.0) - kept).abs() < 1e-9, "{backlog}");
    }
}

/// Draining stops at the estimated NewReno window, which grows by one segment per slow round and is halved by a loss.
#[test]
fn draining_leaves_new_renos_window() {
    let mut algorithm = Yeah::default();
    (algorithm.backlog, algorithm.reno) = (300.0, 800.0);
    assert_eq!(algorithm.drain(1000.0), 800.0);
    assert_eq!(algorithm.drain(700.0), 700.0);
    algorithm.reno = 2.0;
    assert_eq!(algorithm.drain(1000.0), 700.0);
    for _ in 0..=50 {
        algorithm.reno = 9.0;
        algorithm.fast_round();
    }
    assert_eq!(algorithm.reno, 2.0, "fifty fast rounds: NewReno is gone");
}

/// The increase, the smallest decrease at a loss, and both counts of rounds are options.
#[test]
fn the_constants_are_options() {
    let algorithm = Yeah { rise: 0.02, delta: 0.3, rho: 5, zeta: 2, ..Yeah::default() };
    let mut flow = Rounds::new(algorithm, BASE, 1000.0);
    assert!((flow.round() / 20.0 - 1.0).abs() < 0.03);
    let algorithm = &mut flow.algorithm;
    for (backlog, slow_rounds, kept) in [(0.0, 0, 0.7), (120.0, 4, 0.6), (120.0, 5, 0.5)] {
        (algorithm.backlog, algorithm.slow_rounds) = (backlog, slow_rounds);
        assert!((algorithm.keep(300.0) - kept).abs() < 1e-9, "{backlog}, {slow_rounds}");
    }
    algorithm.fast_rounds = 0;
    for expected in [9.0, 9.0, 2.0] {
        algorithm.reno = 9.0;
        algorithm.fast_round();
        assert_eq!(algorithm.reno, expected);
    }
}

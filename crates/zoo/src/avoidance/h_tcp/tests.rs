use longhaul_cc::compose::Signal;

use super::*;
use crate::tests::Rounds;

fn flow(algorithm: HTcp, rtt_ms: u64, segments: f64) -> Rounds<HTcp> {
    Rounds::new(algorithm, Span::from_millis(rtt_ms), segments)
}

/// The increase is 1 + 10 (D - 1) + ((D - 1) / 2)^2 after the first second.
#[test]
fn the_increase_is_quadratic_in_time() {
    for (secs, expected) in [(0.0, 1.0), (1.0, 1.0), (2.0, 11.25), (3.0, 22.0), (11.0, 126.0)] {
        assert!((increase(Span::from_secs_f64(secs)) - expected).abs() < 1e-9, "{secs}");
    }
}

/// The increase depends on time, not on round trips: at RTTs of 10 and 40 ms.
#[test]
fn a_round_raises_by_the_increase_of_its_time() {
    for rtt in [10, 40] {
        let mut flow = flow(HTcp::default(), rtt, 20_000.0);
        flow.lose();
        for _ in 0..3 {
            flow.run(1.0);
            let since = flow.now.since(flow.algorithm.epoch.expect("an epoch"));
            // With beta = 1/2 the increase is not scaled. The window and the time advance during the round.
            let expected = increase(since + Span::from_millis(rtt / 2));
            let raised = flow.round();
            assert!((raised / expected - 1.0).abs() < 0.02, "{rtt} ms, {since:?}: {raised}, not {expected}");
        }
    }
}

/// Once the throughputs of two epochs are alike, the ratio of minimum to maximum RTT is kept, between 0.5 and 0.8. The
/// increase is then 2 (1 - beta) times as large.
#[test]
fn the_backoff_follows_the_queue() {
    for (queued_ms, expected) in [(100, 0.8), (140, 100.0 / 140.0), (300, 0.5)] {
        let mut flow = flow(HTcp::default(), 100, 1000.0);
        flow.run(0.5);
        flow.rtt = Span::from_millis(queued_ms);
        for _ in 0..2 {
            flow.window.cwnd = 1000.0 * 1460.0;
            flow.run(0.9);
            flow.lose();
        }
        flow.window.cwnd = 1000.0 * 1460.0;
        flow.run(0.9);
        let kept = flow.lose();
        // At each congestion event rtt_max decays a little, and the next epoch measures it again.
        assert!((kept - expected).abs() < 0.01, "{queued_ms} ms: {kept}, not {expected}");
        let raised = flow.round();
        assert!((raised - 2.0 * (1.0 - kept)).abs() < 0.02, "{queued_ms} ms: {raised}");
    }
}

/// A queue fills to 0.96 of the path within four round trips, so that 100 / 196 is kept. SRTT would have seen a third
/// of it.
#[test]
fn a_queue_that_fills_fast_counts_in_full() {
    let mut flow = flow(HTcp::default(), 100, 1000.0);
    let mut kept = 0.0;
    for _ in 0..3 {
        flow.window.cwnd = 1000.0 * 1460.0;
        flow.rtt = Span::from_millis(100);
        flow.run(0.5);
        for step in 1..=4 {
            flow.rtt = Span::from_millis(100 + 24 * step);
            flow.round();
        }
        assert!(flow.path.srtt.expect("samples") < Span::from_millis(150));
        kept = flow.lose();
    }
    assert!((kept - 100.0 / 196.0).abs() < 0.005, "{kept}");
}

/// If the throughput has changed by more than a fifth, half is kept.
#[test]
fn a_changed_throughput_halves() {
    let usual = [(1.0, false), (0.85, false), (0.7, true), (1.15, false), (1.3, true)];
    let wider = [(0.7, false), (0.5, true)];
    for (rate_change, (share, halves)) in usual.map(|row| (0.2, row)).into_iter().chain(wider.map(|row| (0.4, row))) {
        let mut flow = flow(HTcp { rate_change, ..HTcp::default() }, 100, 1000.0);
        flow.run(1.0);
        assert!((flow.lose() - 0.5).abs() < 1e-5, "nothing to compare with");
        flow.window.cwnd = share * 1000.0 * 1460.0;
        flow.run(0.9);
        let kept = flow.lose();
        assert_eq!((kept - 0.5).abs() < 1e-5, halves, "{share}: {kept}");
        assert!(halves || (kept - 0.8).abs() < 1e-5, "{share}: {kept}");
    }
}

#[test]
fn the_largest_round_trip_fades() {
    for memory in [0.95_f64, 0.5] {
        let mut flow = flow(HTcp { memory, ..HTcp::default() }, 100, 100.0);
        flow.run(0.2);
        flow.rtt = Span::from_millis(200);
        flow.run(0.5);
        for n in 1..=10 {
            flow.lose();
            let expected = 0.1 + 0.1 * memory.powi(n);
            assert!((flow.algorithm.rtt_max - expected).abs() < 1e-9, "{n}: {}", flow.algorithm.rtt_max);
        }
    }
}

#[test]
fn options_switch_backoff_and_scaling() {
    let fixed = HTcp { adaptive_backoff: false, ..HTcp::default() };
    let mut flow_fixed = flow(fixed, 100, 1000.0);
    flow_fixed.run(1.0);
    flow_fixed.lose();
    flow_fixed.window.cwnd = 1000.0 * 1460.0;
    flow_fixed.run(1.0);
    assert!((flow_fixed.lose() - 0.5).abs() < 1e-5);
    for (rtt, factor) in [(5, 0.1), (50, 0.5), (100, 1.0), (400, 2.0)] {
        let scaled = HTcp { rtt_scaling: true, ..HTcp::default() };
        let mut flow = flow(scaled, rtt, 1000.0);
        flow.ack();
        let raised = flow.round();
        assert!((raised / factor - 1.0).abs() < 0.01, "{rtt} ms: {raised}");
    }
}

/// Time in which the window does not limit the sender does not count.
#[test]
fn pauses_do_not_count() {
    let mut flow = flow(HTcp::default(), 100, 1000.0);
    flow.lose();
    flow.run(0.5);
    flow.algorithm.on_event(&StageEvent::Idle { now: flow.now, idle: Span::from_secs(60) }, &flow.path);
    flow.now += Span::from_secs(60);
    let raised = flow.round();
    assert!((raised - 1.0).abs() < 0.02, "{raised}");
    assert!(flow.ask(Signal::Loss).cwnd > 0.0);
}

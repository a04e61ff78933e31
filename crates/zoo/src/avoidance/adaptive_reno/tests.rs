use super::*;
use crate::tests::MSS;
use crate::tests::Rounds;

/// The increase W_inc(1) is 1, and its mean over c from 0 to 1 is 1, as NewReno's, for any largest increase and
/// alpha.
#[test]
fn the_increase_is_new_renos_at_full_congestion_and_on_average() {
    for alpha in [0.1, 1.0, ALPHA, 100.0] {
        for most in [0.1, 1.0, 8.0, 100.0] {
            assert!((increase(1.0, most, alpha) - 1.0).abs() < 1e-9 * most.max(1.0), "{most}, {alpha}");
            let steps = 100_000;
            let sum: f64 = (0..steps).map(|k| increase((f64::from(k) + 0.5) / f64::from(steps), most, alpha)).sum();
            assert!((sum / f64::from(steps) - 1.0).abs() < 1e-5 * most.max(1.0), "{most}, {alpha}: {sum}");
        }
    }
    for most in [0.1, 1.0, 8.0, 100.0] {
        let idle = most + 1.0 - 0.2 * most;
        assert!((increase(0.0, most, ALPHA) / idle - 1.0).abs() < 1e-3, "{most}");
    }
}

/// Path of Gerla et al., PFLDnet 2006: 133 ms without a queue, 148 ms at losses, 80 Mb/s.
fn flow() -> Rounds<AdaptiveReno> {
    let capacity = Bandwidth::new(Span::from_secs(1), BandwidthStart::Round);
    let mut flow = Rounds::new(AdaptiveReno { capacity, ..AdaptiveReno::default() }, Span::from_millis(133), 900.0);
    flow.round();
    flow.rtt = Span::from_millis(148);
    for _ in 0..50 {
        flow.round();
        flow.window.cwnd = 900.0 * MSS.as_f64();
    }
    flow.lose();
    flow.window.cwnd = 900.0 * MSS.as_f64();
    flow
}

/// A loss leaves W / (1 + c): 1.00, 0.83, 0.71, 0.56 and 0.50 for c of 0, 0.2, 0.4, 0.8 and 1.
#[test]
fn a_loss_keeps_the_window_by_the_congestion_level() {
    for (ms, kept) in [(133, 1.0), (136, 0.833), (139, 0.714), (145, 0.556), (148, 0.5)] {
        let mut flow = flow();
        flow.rtt = Span::from_millis(ms);
        flow.ack();
        let share = flow.lose();
        assert!((share - kept).abs() < 0.001, "{ms} ms: {share}");
        flow.ack();
        assert!((flow.ask(Signal::Ecn).cwnd / flow.window.cwnd - 0.5).abs() < 1e-4, "a mark");
    }
}

/// On an idle path probing adds 0.8 times the capacity over 10 Mb/s to NewReno's one segment. Near congestion the
/// probing part is given back, while the base window keeps growing.
#[test]
fn probing_comes_and_goes() {
    let mut flow = flow();
    flow.rtt = Span::from_millis(133);
    for _ in 0..2 {
        flow.round(); // the increase follows the level at the start of the round
    }
    let before = flow.cwnd();
    for _ in 0..5 {
        flow.round();
    }
    let most = flow.algorithm.capacity.rate() * 8.0 / 10e6;
    let raised = (flow.cwnd() - before) / 5.0;
    assert!((raised - (1.0 + 0.8 * most)).abs() < 0.3, "{raised} at {most}");
    // At c = 0.33 the increase is negative, which undoes the probing part but nothing else.
    flow.rtt = Span::from_millis(138);
    for _ in 0..100 {
        flow.round();
    }
    assert_eq!(flow.algorithm.probe, 0.0);
    let raised = flow.round();
    assert!((raised - 1.0).abs() < 0.01, "{raised}");
}

/// The route becomes 60 ms longer, which is more than the buffer's 15 ms. After the old minimum RTT has expired, the
/// level is computed from the new one, and a loss without a queue keeps the window again.
#[test]
fn a_longer_route_is_no_congestion_for_ever() {
    for (window, kept) in [(Span::MAX, 0.5), (Span::from_secs(10), 1.0)] {
        let mut flow = flow();
        flow.algorithm.level = flow.algorithm.level.with_rtt_min_window(window);
        flow.rtt = Span::from_millis(193);
        let until = flow.now + Span::from_secs(20);
        while flow.now < until {
            flow.ack();
            flow.window.cwnd = 900.0 * MSS.as_f64();
        }
        let share = flow.lose();
        assert!((share - kept).abs() < 0.001, "{window}: {share}");
    }
}

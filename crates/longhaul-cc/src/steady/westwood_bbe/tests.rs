use super::*;
use crate::compose::Verdict;
use crate::steady::rounds::Rounds;
use crate::testing::MSS;

/// The Tokyo path's numbers (Gerla et al., PFLDnet 2006): 133 ms, 148 ms at losses, a window of 900 segments of 1448 bytes.
/// What each policy keeps, in hundredths.
const KEPT: [(u64, f64, f64, f64); 5] = [
    // RTT, plain, interpolate, adaptive-reno
    (133, 1.00, 1.00, 1.00),
    (136, 0.98, 0.89, 0.83),
    (139, 0.96, 0.77, 0.71),
    (145, 0.92, 0.58, 0.56),
    (148, 0.90, 0.50, 0.50),
];

fn level(rtt: u64) -> f64 {
    (rtt as f64 - 133.0) / 15.0
}

/// Each policy by itself, with BE the path's 80 Mb/s and RE the window over the round trip.
#[test]
fn the_policies_keep_what_the_table_says() {
    for (rtt, plain, interpolated, reno) in KEPT {
        let c = level(rtt);
        let be = 80e6 / 8.0 * 0.133 / 1448.0;
        let w = eligible(be, 900.0 * 133.0 / rtt as f64, c, 10.0);
        let kept = |policy: Policy| policy.window(c, 900.0, 900.0, w) / 900.0;
        let threshold = 0.5;
        let discriminated = if c >= threshold { 0.5 } else { plain };
        for (policy, expected) in [
            (Policy::PlainEre, plain),
            (Policy::Interpolate, interpolated),
            (Policy::AdaptiveReno, reno),
            (Policy::Discriminate { threshold }, discriminated),
        ] {
            assert_eq!((100.0 * kept(policy)).round() / 100.0, expected, "{rtt} ms, {policy:?}");
        }
    }
}

/// The same in a flow: estimates from ACKs, levels from losses.
fn flow(policy: Policy) -> Rounds<WestwoodBbe> {
    let config = WestwoodBbeConfig { policy, ..WestwoodBbeConfig::default() };
    let mut flow = Rounds::new(WestwoodBbe::new(config), Span::from_millis(133), 900.0);
    flow.round();
    flow.rtt = Span::from_millis(148);
    flow.round();
    flow.lose();
    flow.rtt = Span::from_millis(133);
    for _ in 0..80 {
        flow.window.cwnd = 900.0 * MSS.as_f64();
        flow.round();
    }
    flow.window.cwnd = 900.0 * MSS.as_f64();
    flow
}

/// A queue that has just come: BE and RE are still those without one, so that E is the whole window.
#[test]
fn a_new_queue_shows_in_the_level_only() {
    for (rtt, ..) in KEPT {
        let c = level(rtt);
        let policies = [
            (Policy::PlainEre, 1.0),
            (Policy::Interpolate, 1.0 - c / 2.0),
            (Policy::AdaptiveReno, 1.0 / (1.0 + c)),
            (Policy::Discriminate { threshold: 0.5 }, if c < 0.5 { 1.0 } else { 0.5 }),
        ];
        for (policy, expected) in policies {
            let mut flow = flow(policy);
            flow.rtt = Span::from_millis(rtt);
            flow.ack();
            let kept = flow.lose();
            assert!((kept - expected).abs() < 0.008, "{rtt} ms, {policy:?}: {kept}, not {expected}");
        }
    }
}

/// Once the flow itself has kept the queue for long, RE has fallen, and with it what is left: the table in full.
#[test]
fn the_estimate_falls_to_the_achieved_rate_with_the_level() {
    for (rtt, _, interpolated, _) in KEPT {
        let mut flow = flow(Policy::Interpolate);
        flow.rtt = Span::from_millis(rtt);
        for _ in 0..80 {
            flow.window.cwnd = 900.0 * MSS.as_f64();
            flow.round();
        }
        flow.window.cwnd = 900.0 * MSS.as_f64();
        let kept = flow.lose();
        // BE is no more than the rate, too: E = 133 / RTT.
        let c = level(rtt);
        let expected = (1.0 - c) * 133.0 / rtt as f64 + c * 0.5;
        assert!((kept - expected).abs() < 0.006, "{rtt} ms: {kept}, not {expected}");
        assert!(kept < interpolated + 0.006);
    }
}

/// Marks, and timeouts, are a full buffer; a classifier's doubt keeps more; without an estimate half is kept.
#[test]
fn marks_and_timeouts_halve() {
    for policy in [Policy::Interpolate, Policy::AdaptiveReno, Policy::Discriminate { threshold: 0.5 }] {
        let mut flow = flow(policy);
        for signal in [Signal::Ecn, Signal::Timeout] {
            assert!((flow.ask(signal).cwnd / flow.window.cwnd - 0.5).abs() < 0.001, "{policy:?}, {signal:?}");
        }
        let cause = Cause::new(flow.now, Signal::Timeout, Bytes::from_f64(flow.window.cwnd), flow.window.cwnd);
        let target = flow.law.reduce(&Cause { verdict: Verdict { severity: 0.5 }, ..cause }, &flow.path);
        assert!((target.cwnd / flow.window.cwnd - 0.75).abs() < 0.001, "{policy:?}");
        let blind = WestwoodBbe::new(WestwoodBbeConfig { policy, ..WestwoodBbeConfig::default() });
        let mut blind = Rounds::new(blind, Span::from_millis(100), 100.0);
        assert!((blind.lose() - 0.5).abs() < 1e-9, "{policy:?}");
    }
}

#[test]
fn a_round_raises_by_one_segment() {
    assert!((flow(Policy::Interpolate).round() - 1.0).abs() < 0.01);
}

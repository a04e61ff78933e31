use longhaul_units::Span;

use super::*;
use crate::tests::MSS;
use crate::tests::Rounds;

/// Returns a flow that lost at 1000 segments, half of them in the queue, and continues with 500.
fn after_a_loss() -> Rounds<LogWestwoodPlus> {
    after_a_loss_of(algorithm(false))
}

fn algorithm(dynamic: bool) -> LogWestwoodPlus {
    LogWestwoodPlus { dynamic, ..LogWestwoodPlus::default() }
}

fn after_a_loss_of(algorithm: LogWestwoodPlus) -> Rounds<LogWestwoodPlus> {
    let mut flow = Rounds::new(algorithm, Span::from_millis(100), 1000.0);
    flow.round();
    flow.rtt = Span::from_millis(200);
    for _ in 0..100 {
        flow.window.cwnd = 1000.0 * MSS.as_f64();
        flow.round();
    }
    flow.window.cwnd = 1000.0 * MSS.as_f64();
    let kept = flow.lose();
    assert!((kept - 0.5).abs() < 0.01, "Westwood+'s decrease: {kept}");
    flow
}

/// dW/dn = (W_max - W) / (2 W) per segment. A round trip closes 1 - exp(-1/2) of the gap, since the window changes
/// little meanwhile. Near and above the maximum the increase is one segment per round trip.
#[test]
fn the_gap_closes_logarithmically() {
    let mut flow = after_a_loss();
    let gap = 1000.0 - flow.cwnd();
    let raised = flow.round();
    // One ACK per segment of the window. The window, which divides the increase, grows by up to 1/e of the gap in
    // that time.
    assert!((0.3..0.4).contains(&(raised / gap)), "{raised} of {gap}");
    while flow.cwnd() < 999.0 {
        flow.round();
    }
    for _ in 0..5 {
        assert!((flow.round() - 1.0).abs() < 0.01);
    }
}

/// The window returns from half of W to W - 2 in logarithmic time; NewReno takes 500 rounds.
#[test]
fn it_returns_in_tens_of_rounds() {
    let mut flow = after_a_loss();
    let mut rounds = 0;
    while flow.cwnd() < 998.0 {
        flow.round();
        rounds += 1;
    }
    assert!((8..=20).contains(&rounds), "{rounds}");
}

#[test]
fn before_a_loss_it_is_new_reno() {
    let mut flow = Rounds::new(algorithm(false), Span::from_millis(100), 100.0);
    assert!((flow.round() - 1.0).abs() < 0.01);
}

/// Alpha starts at 2 and is halved per segment of increase: 1, 1/2 and so on. It closes the gap of 500 segments in
/// one round trip, where a constant alpha takes more than eight. The smallest alpha is 0.01, and a loss resets it to 2.
#[test]
fn a_dynamic_alpha_halves_with_each_segment() {
    let mut flow = after_a_loss_of(algorithm(true));
    assert_eq!(flow.algorithm.alpha, 2.0);
    let start = flow.cwnd();
    while flow.cwnd() < start + 7.99 {
        let before = flow.cwnd();
        flow.ack();
        let expected = 2.0 * 0.5_f64.powf((flow.cwnd() - start).floor());
        assert_eq!(flow.algorithm.alpha, expected.max(0.01), "{before}");
    }
    let raised = flow.round();
    assert!(flow.cwnd() > 999.0, "{raised}");
    assert_eq!(flow.algorithm.alpha, 0.01);
    flow.lose();
    assert_eq!(flow.algorithm.alpha, 2.0);
}

/// ACKs for segments behind a hole double alpha and stop its decrease. When the hole closes, it is 2 again. A
/// constant alpha does not change.
#[test]
fn a_dynamic_alpha_doubles_with_disorder() {
    for (algorithm, expected) in [(algorithm(true), [4.0, 8.0, 16.0, 2.0]), (algorithm(false), [2.0; 4])] {
        let mut flow = after_a_loss_of(algorithm);
        for (cumulative, expected) in [0, 0, 0, 4].into_iter().zip(expected) {
            let mut ack = Ack::new(flow.now);
            (ack.cumulative, ack.delivered) = (MSS * cumulative, MSS);
            flow.algorithm.observe(&ack, &flow.path);
            assert_eq!(flow.algorithm.alpha, expected, "{cumulative}");
        }
    }
}

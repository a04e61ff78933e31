use super::*;
use crate::steady::rounds::Rounds;
use crate::testing::MSS;

/// A flow that lost at 1000 segments with as much in the queue as on the path: on with 500.
fn after_a_loss() -> Rounds<LogWestwoodPlus> {
    let rate = RoundRate::new(Span::from_millis(50));
    let law = LogWestwoodPlus::new(Westwood::new(Eligible::Plus(rate), 0.5), 2.0);
    let mut flow = Rounds::new(law, Span::from_millis(100), 1000.0);
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

/// dW/dn = (W_max - W) / (2 W) for each segment: after a round trip 1 - exp(-1/2) of the gap is closed, as the window
/// changes little meanwhile; near the maximum one segment a round trip, and above it, too.
#[test]
fn the_gap_closes_logarithmically() {
    let mut flow = after_a_loss();
    let gap = 1000.0 - flow.cwnd();
    let raised = flow.round();
    // As many ACKs as the window had segments: the window that divides grows by up to 1/e of the gap in that time.
    assert!((0.3..0.4).contains(&(raised / gap)), "{raised} of {gap}");
    while flow.cwnd() < 999.0 {
        flow.round();
    }
    for _ in 0..5 {
        assert!((flow.round() - 1.0).abs() < 0.01);
    }
}

/// It comes back from half of W to W - 2 in log_2-like time, where NewReno takes 500 rounds.
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
    let rate = RoundRate::new(Span::from_millis(50));
    let law = LogWestwoodPlus::new(Westwood::new(Eligible::Plus(rate), 0.5), 2.0);
    let mut flow = Rounds::new(law, Span::from_millis(100), 100.0);
    assert!((flow.round() - 1.0).abs() < 0.01);
}

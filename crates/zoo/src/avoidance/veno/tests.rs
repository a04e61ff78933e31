use longhaul_units::Span;

use super::*;
use crate::tests::Rounds;
use crate::tests::{MSS, sender};

fn flow() -> Rounds<Veno> {
    let mut flow = Rounds::new(Veno::default(), Span::from_millis(100), 100.0);
    flow.round();
    flow
}

/// The backlog is N = W (1 - base / RTT) with W near 100: 2 segments at 102 ms, 4 at 104 ms.
#[test]
fn a_backlog_of_three_segments_halves_the_rise() {
    for (rtt, expected) in [(100, 1.0), (102, 1.0), (104, 0.5), (200, 0.5)] {
        let mut flow = flow();
        flow.rtt = Span::from_millis(rtt);
        flow.round();
        flow.round();
        let raised = flow.round();
        assert!((raised - expected).abs() < 0.02, "{rtt} ms: {raised}");
    }
}

#[test]
fn it_halves_at_a_loss_by_itself() {
    assert!((flow().lose() - 0.5).abs() < 1e-4);
}

/// In the profile `veno` a loss without a backlog keeps 0.8, and one with a backlog half.
#[test]
fn the_profile_tells_losses_apart() {
    for (queued, kept) in [(100, 0.8), (200, 0.5)] {
        let mut sender = sender("veno");
        sender.fill();
        for _ in 0..3 {
            sender.round();
        }
        sender.rtt = Span::from_millis(queued);
        sender.round();
        sender.round();
        let flight = sender.in_flight;
        sender.lose();
        let share = sender.ssthresh().as_f64() / flight.as_f64();
        assert!((share - kept).abs() < 0.01, "{queued} ms: {share}");
        assert!(flight > MSS * 20);
    }
}

use longhaul_units::Span;

use super::*;
use crate::tests::Rounds;

const RTT: Span = Span::from_millis(100);

fn flow(segments: f64) -> Rounds<Scalable> {
    Rounds::new(Scalable::default(), RTT, segments)
}

#[test]
fn a_round_raises_by_a_hundredth_and_a_loss_lowers_by_an_eighth() {
    for w in [17.0, 100.0, 10_000.0] {
        assert!((flow(w).round() / w - 0.01).abs() < 1e-9, "{w}");
        assert!((flow(w).lose() - 0.875).abs() < 1e-4, "{w}");
    }
}

#[test]
fn small_windows_are_new_renos() {
    assert!((flow(10.0).round() - 1.0).abs() < 0.06);
    assert!((flow(16.0).lose() - 0.5).abs() < 1e-9);
}

/// An epoch from 7/8 W to W takes W / 8 / 0.01 segments and ln(8/7) / 0.01 round trips, so that the average window is
/// 1 / (p x 100 ln(8/7)) = 0.0749 / p.
#[test]
fn the_response_function_is_its_closed_form() {
    for p in [1e-3, 1e-4, 1e-5] {
        let expected = 0.01 / (p * (8.0_f64 / 7.0).ln());
        let average = flow(expected).average(p, 40);
        assert!((average / expected - 1.0).abs() < 0.02, "p = {p}: {average}, not {expected}");
    }
}

/// The property that Scalable TCP is named for: a loss takes ln(8/7) / ln(1.01) = 13.4 rounds to recover from, at any
/// window.
#[test]
fn recovery_takes_thirteen_rounds_at_any_window() {
    for w in [100.0, 1000.0, 50_000.0] {
        let mut flow = flow(w);
        flow.lose();
        let mut rounds = 0;
        while flow.cwnd() < w {
            flow.round();
            rounds += 1;
        }
        assert!((14..=15).contains(&rounds), "{w}: {rounds}");
    }
}

/// Two flows with synchronised losses keep their ratio forever, which is why the algorithm is not internet-safe.
#[test]
fn synchronised_losses_never_make_two_flows_equal() {
    let (mut large, mut small) = (flow(1000.0), flow(100.0));
    for _ in 0..20 {
        for _ in 0..14 {
            large.round();
            small.round();
        }
        large.lose();
        small.lose();
    }
    let ratio = large.cwnd() / small.cwnd();
    assert!((ratio - 10.0).abs() < 0.5, "{ratio}");
}

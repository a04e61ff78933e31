use longhaul_cc::compose::Signal;
use longhaul_units::Span;

use super::*;
use crate::tests::Rounds;

const RTT: Span = Span::from_millis(100);
const BETA: f64 = 819.0 / 1024.0;

/// Returns a flow of `w` segments whose last loss occurred at `last` segments.
fn flow(w: f64, last: f64) -> Rounds<Bic> {
    let mut flow = Rounds::new(Bic { fast_convergence: false, ..Bic::default() }, RTT, last);
    if last > 0.0 {
        flow.lose();
    }
    flow.window.cwnd = w * 1460.0;
    flow
}

/// Increase in segments per round trip in each region, with the last loss at 1000 segments.
#[test]
fn every_region_has_its_increase() {
    let rows = [
        (10.0, 1.0),          // NewReno
        (14.0, 1.0),          // last window of NewReno
        (500.0, 16.0),        // 125 segments to the middle: the maximum
        (935.0, 16.0),        // 16.25
        (936.0, 16.0),        // exactly 16: binary search
        (960.0, 10.0),        // a quarter of the gap
        (990.0, 2.5),         // a quarter of the gap
        (995.9, 1.025),       // last step of the search
        (996.0, 0.2),         // 4 segments in 20 round trips
        (1000.0, 0.2),        // at the last loss
        (1003.9, 0.2),        // slow start of probing begins
        (1004.0, 4.0 / 3.0),  // a third of the distance
        (1030.0, 10.0),       // a third of the distance
        (1047.0, 47.0 / 3.0), // last window of that region
        (1048.0, 16.0),       // the maximum again
        (5000.0, 16.0),
    ];
    for (w, expected) in rows {
        let raised = Bic::default().increase(w, 1000.0);
        assert!((raised - expected).abs() < 1e-9, "{w}: {raised}, not {expected}");
    }
}

/// The window grows by the region's increase in one round.
#[test]
fn a_round_raises_by_the_regions_increase() {
    for (w, expected, tolerance) in
        [(500.0, 16.0, 0.3), (997.0, 0.2, 0.01), (1001.0, 0.2, 0.01), (2000.0, 16.0, 0.1), (8.0, 1.0, 0.1)]
    {
        let raised = flow(w, 1000.0).round();
        assert!((raised - expected).abs() < tolerance, "{w}: {raised}, not {expected}");
    }
    // A quarter of the gap per round trip, while the gap shrinks by a quarter: 1 - exp(-1/4) of 40 segments.
    let raised = flow(960.0, 1000.0).round();
    assert!((raised - 40.0 * (1.0 - (-0.25_f64).exp())).abs() < 0.3, "{raised}");
}

/// Before the first loss the window grows by at least a twentieth per round trip.
#[test]
fn without_a_loss_it_rises_by_a_twentieth() {
    for (w, expected) in [(1000.0, 50.0), (100.0, 16.0), (10.0, 1.0)] {
        assert_eq!(Bic::default().increase(w, 0.0), expected, "{w}");
        let slower = Bic { searchless: 50.0, ..Bic::default() };
        assert_eq!(slower.increase(w, 0.0), if w == 1000.0 { 20.0 } else { expected }, "{w}: a fiftieth");
    }
    let mut flow = flow(1000.0, 500.0);
    assert!(flow.round() < 17.0);
    flow.time_out();
    assert!((flow.round() / flow.cwnd() - 0.05).abs() < 0.01, "a timeout forgets the last loss");
}

#[test]
fn a_loss_keeps_beta_and_small_windows_half() {
    assert!((flow(1000.0, 0.0).lose() - BETA).abs() < 1e-6);
    assert!((flow(14.0, 0.0).lose() - 0.5).abs() < 1e-9);
    assert_eq!(flow(2.5, 0.0).ask(Signal::Loss).cwnd, 2.0 * 1460.0);
}

#[test]
fn fast_convergence_lowers_the_goal() {
    for (fast_convergence, goal) in [(true, 900.0 * (1.0 + BETA) / 2.0), (false, 900.0)] {
        let mut flow = Rounds::new(Bic { fast_convergence, ..Bic::default() }, RTT, 1000.0);
        flow.lose();
        flow.window.cwnd = 900.0 * 1460.0;
        flow.lose();
        assert!((flow.algorithm.last / 1460.0 - goal).abs() < 1e-6, "{}", flow.algorithm.last);
    }
}

/// With one loss per 1/p segments and a window so large that the additive part dominates, BIC is AIMD(16, 0.8). An
/// epoch from 0.8 W to W grows by 0.2 W in steps of 16 at an average of 0.9 W per round trip, so that W = sqrt(16 /
/// (0.18 p)) except for the logarithmic last part of the search. The simulation agrees within 15 % at p = 1e-7.
#[test]
fn large_windows_are_additive() {
    let p = 1e-7_f64;
    let w = (16.0 / (0.18 * p)).sqrt();
    let average = flow(w, w).average(p, 3);
    assert!((average / (0.9 * w) - 1.0).abs() < 0.15, "{average}, not {}", 0.9 * w);
}

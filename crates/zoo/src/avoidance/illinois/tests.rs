use longhaul_units::Span;

use super::*;
use crate::tests::MSS;
use crate::tests::Rounds;

/// Returns a flow that has seen RTTs of 100 ms and 200 ms and then had `rounds` rounds of `rtt_us`.
fn flow(rtt_us: u64, rounds: u32) -> Rounds<Illinois> {
    let mut flow = Rounds::new(Illinois::default(), Span::from_millis(100), 200.0);
    flow.round();
    flow.rtt = Span::from_millis(200);
    flow.round();
    flow.rtt = Span::from_micros(rtt_us);
    for _ in 0..rounds {
        flow.window.cwnd = 200.0 * MSS.as_f64();
        flow.round();
    }
    flow.window.cwnd = 200.0 * MSS.as_f64();
    flow
}

/// The increase is 10 segments up to 1 % of the largest delay and 0.3 at the largest. The decrease is 1/8 up to 10 %
/// of it, and half from 80 %.
#[test]
fn the_curves_have_their_end_points() {
    for (delay, expected, given_up) in [
        (0.0, 10.0, 0.125),
        (0.01, 10.0, 0.125),
        (0.1, 990.0 / (99.0 + 9.0 * (10.0 / 0.3 - 1.0)), 0.125),
        (0.45, 990.0 / (99.0 + 44.0 * (10.0 / 0.3 - 1.0)), 0.3125),
        (0.8, 990.0 / (99.0 + 79.0 * (10.0 / 0.3 - 1.0)), 0.5),
        (1.0, 0.3, 0.5),
    ] {
        assert!((rise(delay, 1.0) - expected).abs() < 1e-9, "{delay}: {}", rise(delay, 1.0));
        assert!((decrease(delay, 1.0) - given_up).abs() < 1e-9, "{delay}: {}", decrease(delay, 1.0));
    }
    // Before any delay has been seen.
    assert_eq!((rise(0.0, 0.0), decrease(0.0, 0.0)), (10.0, 0.125));
}

/// Rounds and losses follow the curves by the mean delay of a round, with a largest delay of 100 ms.
#[test]
fn rounds_rise_and_losses_lower_by_the_curves() {
    for rtt in [110_000, 130_000, 150_000, 180_000, 200_000] {
        let delay = (rtt - 100_000) as f64 / 100_000.0;
        let mut flow = flow(rtt, 4);
        let raised = flow.round();
        let expected = rise(delay, 1.0);
        assert!((raised / expected - 1.0).abs() < 0.05, "{rtt} us: {raised}, not {expected}");
        let kept = flow.lose();
        assert!((kept - (1.0 - decrease(delay, 1.0))).abs() < 0.01, "{rtt} us: {kept}");
    }
}

/// The path has no queue, but RTTs differ by the flow's own bursts of up to 80 us, which is less than 1 % of 1/8 of
/// 100 ms. The increase is largest and a loss gives up an eighth. Without the floor, the maximum of the bursts would
/// decide.
#[test]
fn bursts_are_no_queue() {
    for (floor, rise, kept) in [(0.125, 10.0, 0.875), (0.0, 990.0 / (99.0 + 49.0 * (10.0 / 0.3 - 1.0)), 0.6875)] {
        let mut flow = Rounds::new(Illinois { floor, ..Illinois::default() }, Span::from_millis(100), 200.0);
        for _ in 0..10 {
            flow.window.cwnd = 200.0 * MSS.as_f64();
            for n in 0..200 {
                flow.rtt = Span::from_millis(100) + Span::from_micros(80) * (n % 2);
                flow.ack();
            }
        }
        assert!((flow.algorithm.alpha / rise - 1.0).abs() < 0.05, "{floor}: {}", flow.algorithm.alpha);
        flow.window.cwnd = 200.0 * MSS.as_f64();
        let share = flow.lose();
        assert!((share - kept).abs() < 0.05, "{floor}: {share}");
    }
}

/// A buffer that exceeds the floor, here a quarter of the RTT, is judged by its own delay.
#[test]
fn a_queue_above_the_floor_is_what_it_is() {
    for floor in [0.0, 0.125] {
        let mut flow = Rounds::new(Illinois { floor, ..Illinois::default() }, Span::from_millis(100), 200.0);
        flow.round();
        flow.rtt = Span::from_millis(125);
        for _ in 0..4 {
            flow.window.cwnd = 200.0 * MSS.as_f64();
            flow.round();
        }
        assert!((flow.algorithm.alpha - 0.3).abs() < 0.01, "{floor}: {}", flow.algorithm.alpha);
        assert!((flow.lose() - 0.5).abs() < 0.01, "{floor}");
    }
}

/// After a queue, the increase is largest again only after five consecutive rounds without one.
#[test]
fn five_good_rounds_bring_the_largest_rise_back() {
    let raised: Vec<_> = (1..10).map(|rounds| flow(100_000, rounds).round() > 5.0).collect();
    let first = raised.iter().position(|large| *large).expect("it comes back");
    assert!((4..=7).contains(&first), "{raised:?}");
    assert!(raised[first..].iter().all(|large| *large), "{raised:?}");
}

#[test]
fn small_windows_and_timeouts_are_new_renos() {
    let mut small = Rounds::new(Illinois::default(), Span::from_millis(100), 12.0);
    small.round();
    small.window.cwnd = 12.0 * MSS.as_f64();
    assert!((small.round() - 1.0).abs() < 0.1);
    assert!((small.lose() - 0.5).abs() < 1e-3);
    let mut large = flow(100_000, 10);
    large.time_out();
    assert_eq!((large.algorithm.alpha, large.algorithm.beta), (1.0, 0.5));
}

use longhaul_cc::compose::Signal;
use longhaul_units::Span;

use super::*;
use crate::tests::Rounds;
use crate::tests::{MSS, segments};

const RTT: Span = Span::from_millis(100);

fn flow(segments: f64) -> Rounds<Hstcp> {
    Rounds::new(Hstcp::default(), RTT, segments)
}

/// Table of RFC 3649, appendix B: window, increase, decrease in hundredths.
#[rustfmt::skip]
const TABLE: [(u32, u32, u32); 73] = [
    (38, 1, 50), (118, 2, 44), (221, 3, 41), (347, 4, 38), (495, 5, 37), (663, 6, 35),
    (851, 7, 34), (1058, 8, 33), (1284, 9, 32), (1529, 10, 31), (1793, 11, 30), (2076, 12, 29),
    (2378, 13, 28), (2699, 14, 28), (3039, 15, 27), (3399, 16, 27), (3778, 17, 26), (4177, 18, 26),
    (4596, 19, 25), (5036, 20, 25), (5497, 21, 24), (5979, 22, 24), (6483, 23, 23), (7009, 24, 23),
    (7558, 25, 22), (8130, 26, 22), (8726, 27, 22), (9346, 28, 21), (9991, 29, 21), (10661, 30, 21),
    (11358, 31, 20), (12082, 32, 20), (12834, 33, 20), (13614, 34, 19), (14424, 35, 19), (15265, 36, 19),
    (16137, 37, 19), (17042, 38, 18), (17981, 39, 18), (18955, 40, 18), (19965, 41, 17), (21013, 42, 17),
    (22101, 43, 17), (23230, 44, 17), (24402, 45, 16), (25618, 46, 16), (26881, 47, 16), (28193, 48, 16),
    (29557, 49, 15), (30975, 50, 15), (32450, 51, 15), (33986, 52, 15), (35586, 53, 14), (37253, 54, 14),
    (38992, 55, 14), (40808, 56, 14), (42707, 57, 13), (44694, 58, 13), (46776, 59, 13), (48961, 60, 13),
    (51258, 61, 13), (53677, 62, 12), (56230, 63, 12), (58932, 64, 12), (61799, 65, 12), (64851, 66, 11),
    (68113, 67, 11), (71617, 68, 11), (75401, 69, 10), (79517, 70, 10), (84035, 71, 10), (89053, 72, 10),
    (94717, 73, 9),
];

/// The program of appendix B starts from an increase of exactly one and prints a row at the first window whose
/// increase exceeds that of the last row by more than one.
#[test]
fn all_rows_of_the_table_come_out() {
    let config = Hstcp::default();
    let mut rows = vec![(38, 1, 50)];
    let mut last = 1.0;
    for w in 39..=100_000 {
        let a = config.increase(f64::from(w));
        if a > last + 1.0 {
            last = a;
            rows.push((w, a as u32, (config.decrease(f64::from(w)) * 100.0).round() as u32));
        }
    }
    assert_eq!(rows, TABLE);
}

#[test]
fn a_round_raises_by_the_tables_increase_and_a_loss_lowers_by_its_decrease() {
    for (w, a, b) in TABLE {
        let mut flow = flow(f64::from(w));
        let raised = flow.round();
        // The exact increase lies between the row's integer and the next. The window grows during the round, so that
        // W ACKs, each of which adds a / W, increase it by sqrt(W^2 + 2 a W) - W.
        let in_a_round = |a: u32| (f64::from(w) * f64::from(w + 2 * a)).sqrt() - f64::from(w);
        assert!((in_a_round(a) - 0.01..in_a_round(a + 1) + 0.1).contains(&raised), "{w}: {raised}, not {a}");
        let kept = Rounds::new(Hstcp::default(), RTT, f64::from(w)).lose();
        assert!((1.0 - kept - f64::from(b) / 100.0).abs() < 0.0051, "{w}: kept {kept}, not all but {b} %");
    }
}

/// RFC 3649, section 5: w = 0.12 / p^0.835 above 38 segments under deterministic loss. The function describes the
/// average of the sawtooth.
#[test]
fn the_response_function_is_rfc_3649s() {
    for p in [1e-3_f64, 1e-4, 1e-5, 1e-6] {
        let expected = 0.12 / p.powf(0.835);
        let average = flow(expected).average(p, 30);
        assert!((average / expected - 1.0).abs() < 0.10, "p = {p}: {average}, not {expected}");
    }
}

#[test]
fn small_windows_are_new_renos() {
    for w in [4.0, 20.0, 37.0] {
        let raised = flow(w).round();
        assert!((raised - 1.0).abs() < 0.15, "{w}: {raised}");
        assert!((flow(w).lose() - 0.5).abs() < 1e-9);
    }
    assert_eq!(flow(3.0).ask(Signal::Loss).cwnd, segments(2).as_f64());
    // The formula is less than one just above 38 segments.
    assert_eq!(Hstcp::default().increase(39.0), 1.0);
    assert!(Hstcp::default().formula(39.0) < 1.0);
}

/// At a window of ten gigabytes the formula for b would be negative.
#[test]
fn huge_windows_still_fall() {
    let w = 1e10 / MSS.as_f64();
    assert!((flow(w).lose() - 0.91).abs() < 1e-9);
    assert!(Hstcp::default().increase(w).is_finite());
}

/// The cached increase differs from the formula's by less than a thousandth.
#[test]
fn the_cache_is_fresh_enough() {
    let mut algorithm = Hstcp::default();
    let mut w = 30.0;
    while w < 200_000.0 {
        let exact = Hstcp::default().increase(w);
        assert!((algorithm.cached_increase(w) / exact - 1.0).abs() < 1e-3, "{w}");
        w *= 1.0003;
    }
}

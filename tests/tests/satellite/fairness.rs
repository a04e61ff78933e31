//! SW-2: fairness between satellite flows and terrestrial flows (figure 7).

use longhaul_units::Span;

use super::world::{Course, Router, Scheme, all, mixed};

const EACH: usize = 5;
const SECONDS: u64 = 150;
/// With few random losses, the result depends on the start times. The ratio of a single run deviates by 0.04 from the
/// mean.
const BEGINNINGS: [(u64, u64); 6] = [(1, 27), (2, 34), (3, 41), (4, 48), (5, 55), (6, 62)];
const LOSSES: [f64; 5] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2];

const SCHEMES: [Scheme; 4] = [Scheme::NewReno, Scheme::Peach, Scheme::SwiftPaper, Scheme::Swift];

/// r_X / r_Y of each scheme, by loss rate.
fn figure() -> [[f64; LOSSES.len()]; SCHEMES.len()] {
    let cells: Vec<_> = SCHEMES.iter().flat_map(|scheme| LOSSES.map(|loss| (*scheme, loss))).collect();
    let runs: Vec<_> = cells.iter().flat_map(|cell| BEGINNINGS.map(|at| (*cell, at))).collect();
    let outcomes = all(&runs, |((scheme, loss), (seed, apart))| {
        let course = Course { seconds: SECONDS, seed: *seed, apart: Span::from_millis(*apart) };
        mixed(*scheme, EACH, *loss, Router::Priority, course)
    });
    let mut figure = [[0.0; LOSSES.len()]; SCHEMES.len()];
    let each = outcomes.chunks(BEGINNINGS.len());
    for (ratio, ((scheme, loss), outcomes)) in figure.as_flattened_mut().iter_mut().zip(cells.iter().zip(each)) {
        let halves = outcomes.iter().map(|outcome| outcome.goodput.split_at(EACH));
        let ratios: Vec<f64> = halves.map(|(x, y)| x.iter().sum::<f64>() / y.iter().sum::<f64>()).collect();
        *ratio = ratios.iter().sum::<f64>() / ratios.len() as f64;
        println!("NewReno & {scheme:?}, loss {loss}: ratio {ratio:.3} of {ratios:.3?}");
    }
    figure
}

/// Figure 7, resolution 21 (terrestrial flows have an RTT of 200 ms): competing with terrestrial NewReno, the
/// published TCP-Swift comes closest to equal shares, ahead of TCP-Peach and NewReno. The gated variant equals
/// TCP-Peach.
#[test]
fn sw2_r21_swift_is_the_fairest_beside_the_ground() {
    let [new_reno, peach, paper, swift] = figure();
    for nth in 0..LOSSES.len() {
        assert!(paper[nth] < 1.0 && paper[nth] > peach[nth] && peach[nth] > 1.3 * new_reno[nth], "{}", LOSSES[nth]);
        assert!(swift[nth] > 0.9 * peach[nth] && swift[nth] < 1.2 * peach[nth], "{}", LOSSES[nth]);
    }
    assert!(paper[3] > 1.2 * peach[3] && paper[4] > 1.8 * peach[4], "most where losses are chance");
}

//! SW-2: what flows over a satellite get beside flows on the ground (figure 7).

use super::world::{Router, Scheme, all, mixed};

const EACH: usize = 5;
const SECONDS: u64 = 150;
const LOSSES: [f64; 5] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2];

const SCHEMES: [Scheme; 4] = [Scheme::NewReno, Scheme::Peach, Scheme::SwiftPaper, Scheme::Swift];

/// r_X / r_Y of each scheme, by loss rate.
fn figure() -> [[f64; LOSSES.len()]; SCHEMES.len()] {
    let cells: Vec<_> = SCHEMES.iter().flat_map(|scheme| LOSSES.map(|loss| (*scheme, loss))).collect();
    let outcomes = all(&cells, |(scheme, loss)| mixed(*scheme, EACH, *loss, Router::Priority, SECONDS, 1));
    let mut figure = [[0.0; LOSSES.len()]; SCHEMES.len()];
    for (ratio, ((scheme, loss), outcome)) in figure.as_flattened_mut().iter_mut().zip(cells.iter().zip(outcomes)) {
        let (x, y) = outcome.goodput.split_at(EACH);
        let (x, y): (f64, f64) = (x.iter().sum(), y.iter().sum());
        *ratio = x / y;
        println!("NewReno & {scheme:?}, loss {loss}: {x:.0} and {y:.0} kb/s, ratio {ratio:.3}");
    }
    figure
}

/// Figure 7, resolution 21 (the flows on the ground have 200 ms): beside NewReno on the ground, TCP-Swift as published comes nearest to one
/// half each, before TCP-Peach and NewReno. Gated it is level with TCP-Peach.
#[test]
fn sw2_r21_swift_is_the_fairest_beside_the_ground() {
    let [new_reno, peach, paper, swift] = figure();
    for nth in 0..LOSSES.len() {
        assert!(paper[nth] < 1.0 && paper[nth] > peach[nth] && peach[nth] > 1.3 * new_reno[nth], "{}", LOSSES[nth]);
        assert!(swift[nth] > 0.9 * peach[nth] && swift[nth] < 1.2 * peach[nth], "{}", LOSSES[nth]);
    }
    assert!(paper[3] > 1.3 * peach[3] && paper[4] > 1.8 * peach[4], "most where losses are chance");
}

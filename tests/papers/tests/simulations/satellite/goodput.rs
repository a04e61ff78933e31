//! Drops of data and probes with and without priorities, and matching of answers to probes. The experiment
//! `tcp-swift-figure-5` measures the goodput of these schemes.

use std::sync::OnceLock;

use longhaul_tests_papers::long;

use super::world::{Outcome, Router, Scheme, satellite};

const FLOWS: usize = 20;
const SECONDS: u64 = 150;
const LOSSES: [f64; 4] = [1e-5, 1e-4, 1e-3, 1e-2];
const ROWS: [(Scheme, Router); 6] = [
    (Scheme::Sack, Router::Blind),
    (Scheme::Peach, Router::Priority),
    (Scheme::PeachPlus, Router::Priority),
    (Scheme::Swift, Router::Priority),
    (Scheme::Swift, Router::Blind),
    (Scheme::Swift, Router::Peach),
];

/// Returns the loss rates to test: two with few runs, and all with `LONGHAUL_LONG`.
fn losses() -> impl Iterator<Item = f64> {
    let (skipped, step) = if long() { (0, 1) } else { (1, 2) };
    LOSSES.into_iter().skip(skipped).step_by(step)
}

/// Returns the outcomes of a row for these loss rates. Tests share the runs.
fn row(scheme: Scheme, router: Router) -> Vec<&'static Outcome> {
    static FIGURE: [[OnceLock<Outcome>; LOSSES.len()]; ROWS.len()] =
        [const { [const { OnceLock::new() }; LOSSES.len()] }; ROWS.len()];
    let row = ROWS.iter().position(|row| *row == (scheme, router)).unwrap();
    let of = |loss: f64| LOSSES.iter().zip(&FIGURE[row]).find(|(known, _)| **known == loss).unwrap().1;
    losses().map(|loss| of(loss).get_or_init(|| run(scheme, router, loss))).collect()
}

fn run(scheme: Scheme, router: Router, loss: f64) -> Outcome {
    let outcome = satellite(scheme, FLOWS, loss, router, SECONDS, 1);
    let Outcome { data, probes, retransmitted, timeouts, .. } = &outcome;
    println!(
        "{scheme:?} {router:?}, loss {loss}: {:.0} kb/s, {retransmitted} retransmissions, {timeouts} timeouts, \
         offered and dropped: {data:?} data, {probes:?} probes; fairness index {:.3}",
        outcome.total(),
        outcome.jain()
    );
    outcome
}

/// With priorities, congestion drops many probes, but no more data than without probes. Without priorities, it drops
/// more than five times as much data.
#[test]
fn low_priority_keeps_drops_from_data() {
    for (nth, loss) in losses().enumerate() {
        let swift = row(Scheme::Swift, Router::Priority)[nth];
        let (plain, blind) = (row(Scheme::Sack, Router::Blind)[nth], row(Scheme::Swift, Router::Blind)[nth]);
        assert!(swift.data.1 < plain.data.1 && blind.data.1 > 5 * plain.data.1, "{loss}");
        assert!(swift.probes.1 * swift.data.0 > 10 * swift.data.1 * swift.probes.0, "{loss}");
        assert!(swift.jain() > 0.95, "{loss}");
    }
}

/// Between longhaul's peers, every answer refers to a probe that was sent, regardless of losses.
#[test]
fn no_answer_is_refused() {
    assert!(ROWS.iter().flat_map(|(scheme, router)| row(*scheme, *router)).all(|outcome| outcome.refused == 0));
}

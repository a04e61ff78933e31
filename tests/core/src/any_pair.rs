//! Connections between any two compositions of the registry, with data in both directions, over links that lose,
//! duplicate and reorder packets, and with a middlebox that rewrites headers.
//!
//! A case is determined by its number and the registered algorithms. `LONGHAUL_CASES` sets the number of cases,
//! `LONGHAUL_SEED` the first one.

mod case;
mod composition;
mod middle;
mod roaming;

use std::panic::catch_unwind;

pub use case::{Case, Hostility};
pub use composition::starts_and_recoveries;

use crate::cases;

/// Number of cases per test by default. `LONG_CASES` is the number with `LONGHAUL_LONG`.
const CASES: u32 = 200;
const LONG_CASES: u32 = 10_000;

/// Runs the cases that `case` creates with `hostility`, and reports each failure with its number. The cases `found`,
/// which revealed errors before, run first.
///
/// # Panics
/// Panics if a case fails.
pub fn try_all(case: fn(u64, Hostility) -> Case, hostility: Hostility, found: &[u64]) {
    let first = std::env::var("LONGHAUL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let cases = u64::from(cases(CASES, LONG_CASES));
    println!("{hostility:?}: LONGHAUL_SEED={first} LONGHAUL_CASES={cases}");
    let mut failed = Vec::new();
    for seed in found.iter().copied().chain(first..first + cases) {
        let case = case(seed, hostility);
        let outcome = catch_unwind(|| case.run());
        if let Err(why) = outcome.unwrap_or_else(|_| Err("a panic".into())) {
            println!("LONGHAUL_SEED={seed} LONGHAUL_CASES=1: {why}\n{case:?}\n");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "{hostility:?}: the cases {failed:?} fail, of {cases} from {first} on");
}

/// Transfers data in both directions with every start-up scheme and every recovery algorithm, with the same composition
/// at both ends.
///
/// # Panics
/// Panics if a transfer fails.
pub fn try_starts_and_recoveries() {
    let cases = [([30_000, 30_000], 0.0), ([1_000_000, 1_000_000], 0.0), ([300_000, 30_000], 0.003)];
    for (send, loss) in cases {
        for composition in starts_and_recoveries() {
            let outcome = Case::both_ways(&composition, send, loss).run();
            assert_eq!(outcome, Ok(()), "{composition} {send:?} {loss}");
        }
    }
}

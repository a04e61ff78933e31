//! Any two compositions at the two ends of one connection, data both ways, over links that lose, duplicate and reorder, with a hostile
//! middle that rewrites headers: every transfer ends within a bound of virtual time, nothing that was acknowledged is lost, and no
//! controller or extension stops a connection.
//!
//! A case is a number. `LONGHAUL_CASES` sets how many cases are tried, `LONGHAUL_SEED` the number of the first one.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod case;
mod composition;
mod middle;

use case::{Case, Hostility};

/// Cases per test unless `LONGHAUL_CASES` says otherwise.
const CASES: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs the cases of one kind and reports each one that fails, with its number. Those that `found` something once come first.
fn try_all(hostility: Hostility, found: &[u64]) {
    let first = number("LONGHAUL_SEED").unwrap_or(0);
    let cases = number("LONGHAUL_CASES").unwrap_or(CASES);
    println!("{hostility:?}: LONGHAUL_SEED={first} LONGHAUL_CASES={cases}");
    let mut failed = Vec::new();
    for seed in found.iter().copied().chain(first..first + cases) {
        let case = Case::new(seed, hostility);
        if let Err(why) = case.run() {
            println!("LONGHAUL_SEED={seed} LONGHAUL_CASES=1: {why}\n{case:?}\n");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "{hostility:?}: the cases {failed:?} fail, of {cases} from {first} on");
}

/// Without anybody in the middle all data arrives, whatever the two ends run.
#[test]
fn every_pair_delivers_over_a_rough_path() {
    // RC3 at both ends, data both ways: ACKs that were below the peer's window.
    try_all(Hostility::None, &[2339]);
}

/// Every start with every recovery, the same at both ends: from them, RC3's stall came.
#[test]
fn every_start_with_every_recovery_delivers_both_ways() {
    let all = composition::starts_and_recoveries();
    assert!(all.len() > 200, "{}", all.len());
    let cases = [([30_000, 30_000], 0.0), ([1_000_000, 1_000_000], 0.0), ([300_000, 30_000], 0.003)];
    for (send, loss) in cases {
        for composition in &all {
            let outcome = Case::both_ways(composition, send, loss).run();
            assert_eq!(outcome, Ok(()), "{composition} {send:?} {loss}");
        }
    }
}

/// Windows, old acknowledgment numbers, SACK blocks, congestion marks and reports that are untrue cost time, not data: whoever could
/// forge those cannot end the connection by them.
#[test]
fn every_pair_delivers_in_spite_of_lies_about_its_progress() {
    try_all(Hostility::Lies, &[2011]);
}

/// Any header field of any segment may be rewritten, so that the peers may come to disagree for good: both ends are told so.
#[test]
fn every_pair_ends_when_any_field_is_rewritten() {
    try_all(Hostility::Anything, &[]);
}

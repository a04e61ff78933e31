//! Any two compositions at the two ends of a connection, with data in both directions, over links that lose, duplicate
//! and reorder packets, and with a middlebox that rewrites headers. Every transfer ends within a bound of virtual time,
//! acknowledged data is never lost, and no controller or extension stalls a connection.
//!
//! A case is determined by its number. `LONGHAUL_CASES` sets the number of cases, `LONGHAUL_SEED` the first one.

mod case;
mod composition;
mod middle;

use std::panic::catch_unwind;

use case::{Case, Hostility};
use longhaul_tests::cases;

/// Number of cases per test by default. `LONG_CASES` is the number with `LONGHAUL_LONG`.
const CASES: u32 = 200;
const LONG_CASES: u32 = 10_000;

/// Runs the cases that `case` creates with `hostility`, and reports each failure with its number. The cases `found`,
/// which revealed errors before, run first.
fn try_all(case: fn(u64, Hostility) -> Case, hostility: Hostility, found: &[u64]) {
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

/// Without a middlebox, all data arrives with any compositions at both ends.
#[test]
fn every_pair_delivers_over_a_rough_path() {
    // RC3 at both ends sent ACKs below the peer's window when data was sent in both directions.
    try_all(Case::new, Hostility::None, &[2339]);
}

/// Every start-up scheme with every recovery algorithm delivers all data, with the same composition at both ends. Such
/// a case revealed a stall of RC3.
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

/// False windows, old acknowledgment numbers, false SACK blocks, CE marks and reports may delay data, but do not lose
/// data. An attacker who can forge them cannot end the connection.
#[test]
fn every_pair_delivers_in_spite_of_lies_about_its_progress() {
    try_all(Case::new, Hostility::Lies, &[2011]);
}

/// If any header field of any segment may be rewritten, the peers may become inconsistent for good. Both ends then
/// report an error.
#[test]
fn every_pair_ends_when_any_field_is_rewritten() {
    try_all(Case::new, Hostility::Anything, &[]);
}

/// All data of one end arrives if the other end reads late or slowly. If the other end does not read at all, windows
/// close, FINs wait for them, and data still flows in the other direction.
#[test]
fn every_pair_delivers_what_is_read() {
    try_all(Case::unread, Hostility::None, &[]);
}

/// The same holds with false reports of progress.
#[test]
fn every_pair_delivers_what_is_read_in_spite_of_lies() {
    try_all(Case::unread, Hostility::Lies, &[]);
}

/// The same holds with many false windows and SACK blocks, some of which report the octet of a window probe as
/// received.
#[test]
fn every_pair_delivers_what_is_read_in_spite_of_lies_about_windows() {
    // In these cases, both ends had sent more than the other end accepts, and neither processed the other's
    // acknowledgments.
    try_all(Case::unread, Hostility::WindowLies, &[1243, 2417]);
}

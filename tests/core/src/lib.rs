//! Helpers of the tests: a protocol checker for simulated connections, random connections over impaired paths, and an
//! endpoint driven segment by segment.
#![forbid(unsafe_code)]

pub mod any_pair;
pub mod bursts;
mod intervals;
mod side;
pub mod streams;
#[path = "../../../crates/core/tcp/tests/support/victim.rs"]
pub mod victim;
pub mod watch;

pub use intervals::Intervals;
pub use victim::Victim;
pub use watch::Watch;

use std::fs;
use std::path::Path;

use longhaul_cc::Congestion;

/// Returns the congestion control with this name. Names of `longhaul-zoo` must have been registered.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn congestion(name: &str) -> Congestion {
    name.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns whether `LONGHAUL_LONG` requests all runs of the experiments. Otherwise, tests make fewer runs, which reveal
/// the same faults unless they are rare.
#[must_use]
pub fn long() -> bool {
    std::env::var_os("LONGHAUL_LONG").is_some()
}

/// Returns the number of random cases: `LONGHAUL_CASES` if it is set, otherwise `all` with `LONGHAUL_LONG` and `few`
/// without it.
#[must_use]
pub fn cases(few: u32, all: u32) -> u32 {
    let set = std::env::var("LONGHAUL_CASES").ok().and_then(|text| text.parse().ok());
    set.unwrap_or(if long() { all } else { few })
}

/// Calls `check` with each input in the corpus of a fuzz target.
///
/// # Panics
/// Panics if `check` does, or if the corpus is empty.
pub fn replay(target: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let inputs = fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut replayed = 0;
    for input in inputs {
        let path = input.expect("an entry of the directory").path();
        println!("{}", path.display());
        check(&fs::read(&path).expect("a file"));
        replayed += 1;
    }
    assert!(replayed > 0, "no inputs in {}", directory.display());
}

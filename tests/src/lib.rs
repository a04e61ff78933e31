//! Helpers of the tests: a protocol checker for simulated connections, and an endpoint driven segment by segment.
#![forbid(unsafe_code)]

pub mod bursts;
mod intervals;
mod side;
#[path = "../../crates/core/tcp/tests/support/victim.rs"]
pub mod victim;
pub mod watch;

pub use intervals::Intervals;
pub use victim::Victim;
pub use watch::Watch;

use longhaul_cc::Congestion;
use longhaul_cc::registry::{Registry, known};

/// Returns the algorithms of longhaul-cc and longhaul-zoo, all of which text can name from now on.
///
/// # Panics
/// Panics if a test has registered an algorithm by a name of longhaul-zoo.
pub fn registry() -> Registry {
    longhaul_zoo::register().expect("the names are free");
    known()
}

/// Returns the congestion control with this name.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn congestion(name: &str) -> Congestion {
    registry();
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

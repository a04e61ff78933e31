//! Helpers of the tests: those of the core's tests, and the published algorithms.
#![forbid(unsafe_code)]

pub use longhaul_tests_core::{any_pair, bursts, cases, long, replay, streams};

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
    longhaul_tests_core::congestion(name)
}

//! Algorithms of the crate in complete controllers, and the conformance suite.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod bbr;
mod bottleneck;
mod compose;
mod conforms;
mod copa;
mod senders;
mod swift_start;

use longhaul_cc::compose::Stages;
use longhaul_cc::registry::Spec;

/// Returns the specification of this name.
fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the stages of this composition.
fn stages(text: &str) -> Stages {
    spec(text).stages().expect("a composition")
}

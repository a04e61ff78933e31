//! The algorithms of this crate together with those of longhaul-cc: names, pages, reactions to losses and marks in
//! complete controllers, and the conformance suite.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod bbr1;
#[path = "../../../core/cc/tests/algorithms/bottleneck.rs"]
mod bottleneck;
mod composed;
mod conforms;
mod names;
mod pages;
mod rows;

use longhaul_cc::registry::{Registry, Spec, known};
use longhaul_conformance::testing::Sender;

/// Returns the algorithms that text can name, with those of this crate.
fn registry() -> Registry {
    longhaul_zoo::register().expect("the names are free");
    known()
}

/// Returns the specification of this name.
fn spec(text: &str) -> Spec {
    registry().parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns a sender after its handshake.
fn sender(text: &str) -> Sender {
    registry();
    Sender::new(text)
}

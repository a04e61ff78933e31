//! Senders by name for tests, once the names are registered.

pub(crate) use longhaul_conformance::testing::*;

use longhaul_cc::registry::Spec;

/// Returns the specification of this name.
pub(crate) fn spec(text: &str) -> Spec {
    crate::register().expect("the names are free");
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns a sender after its handshake.
pub(crate) fn sender(text: &str) -> Sender {
    Sender::new(&spec(text).to_string())
}

/// Returns a sender in congestion avoidance after a first loss.
pub(crate) fn after_a_loss(text: &str) -> Sender {
    Sender::after_a_loss(&spec(text).to_string())
}

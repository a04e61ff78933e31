//! Schemes for satellite links (TCP-Peach, TCP-Peach+, TCP-Swift) in virtual time: the experiments of Leung and
//! Yeung, "TCP-Swift: An End-Host Enhancement Scheme for TCP over Satellite IP Networks" (ISCC 2004), its claims
//! packet by packet, and the safety of probes. `cargo test -p longhaul-tests --test satellite -- --nocapture` prints
//! the measurements.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod fairness;
mod goodput;
mod packets;
mod world;

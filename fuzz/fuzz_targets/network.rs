//! Runs the check `network::network` of crates/core/tcp/tests/support/network.rs.
#![no_main]

#[path = "../../crates/core/tcp/tests/support/network.rs"]
mod network;

libfuzzer_sys::fuzz_target!(|script: &[u8]| network::network(script));

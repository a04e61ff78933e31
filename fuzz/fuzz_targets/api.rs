//! Runs the check `order::api` of crates/core/tcp/tests/support/order.rs.
#![no_main]

#[path = "../../crates/core/tcp/tests/support/order.rs"]
mod order;

libfuzzer_sys::fuzz_target!(|script: &[u8]| order::api(script));

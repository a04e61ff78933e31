//! Runs the check `play::driver` of adapters/adapter/tests/driver/play.rs.
#![no_main]

#[path = "../../adapters/adapter/tests/driver/play.rs"]
#[allow(dead_code, reason = "the random tests use the rest")]
mod play;

libfuzzer_sys::fuzz_target!(|script: &[u8]| play::driver(script));

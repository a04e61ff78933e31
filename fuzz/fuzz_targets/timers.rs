//! Runs the check `timers::timers` of tests/core/tests/protocol/corpora/timers.rs.
#![no_main]

#[path = "../../tests/core/tests/protocol/corpora/timers.rs"]
mod timers;

libfuzzer_sys::fuzz_target!(|script: &[u8]| timers::timers(script));

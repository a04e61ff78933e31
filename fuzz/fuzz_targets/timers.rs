//! Runs the check `timers::timers` of tests/tests/corpora/timers.rs.
#![no_main]

#[path = "../../tests/tests/corpora/timers.rs"]
mod timers;

libfuzzer_sys::fuzz_target!(|script: &[u8]| timers::timers(script));

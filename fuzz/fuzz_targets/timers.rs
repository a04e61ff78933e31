//! `timers::timers` of the checks in tests/tests/corpora/timers.rs.
#![no_main]

#[path = "../../tests/tests/corpora/timers.rs"]
mod timers;

libfuzzer_sys::fuzz_target!(|script: &[u8]| timers::timers(script));

//! Runs the check `emitters::emitters` of tests/core/tests/protocol/corpora/emitters.rs.
#![no_main]

#[path = "../../tests/core/tests/protocol/corpora/emitters.rs"]
mod emitters;

libfuzzer_sys::fuzz_target!(|script: &[u8]| emitters::emitters(script));

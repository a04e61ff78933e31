//! Runs the check `tls::tls` of tests/papers/tests/simulations/corpora/tls.rs.
#![no_main]

#[path = "../../tests/papers/tests/simulations/corpora/tls.rs"]
mod tls;

libfuzzer_sys::fuzz_target!(|script: &[u8]| tls::tls(script));

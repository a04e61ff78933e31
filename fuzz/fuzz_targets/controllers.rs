//! Runs the check `controllers::controllers` of tests/papers/tests/simulations/corpora/controllers.rs.
#![no_main]

#[path = "../../tests/papers/tests/simulations/corpora/controllers.rs"]
mod controllers;

libfuzzer_sys::fuzz_target!(|script: &[u8]| controllers::controllers(script));

//! Runs the check `controllers::controllers` of tests/tests/corpora/controllers.rs.
#![no_main]

#[path = "../../tests/tests/corpora/controllers.rs"]
mod controllers;

libfuzzer_sys::fuzz_target!(|script: &[u8]| controllers::controllers(script));

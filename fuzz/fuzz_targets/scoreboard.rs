//! The scoreboard beside the naive model of crates/longhaul-tcp/src/scoreboard/model.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| longhaul_tcp::bench::scoreboard(script));

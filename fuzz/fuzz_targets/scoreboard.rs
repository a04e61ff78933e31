//! Compares the scoreboard with the naive model in crates/core/tcp/src/scoreboard/model.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| longhaul_tcp::bench::scoreboard(script));

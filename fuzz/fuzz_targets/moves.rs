//! Runs the check `moves` of crates/core/tcp/tests/support/hostile.rs.
#![no_main]

#[expect(dead_code, reason = "the other checks have targets of their own")]
#[path = "../../crates/core/tcp/tests/support/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|script: &[u8]| hostile::moves(script));

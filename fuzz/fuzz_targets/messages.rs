//! Runs the check `messages::messages` of crates/longhaul-cli/tests/support/messages.rs.
#![no_main]

#[path = "../../crates/longhaul-cli/tests/support/messages.rs"]
mod messages;

libfuzzer_sys::fuzz_target!(|script: &[u8]| messages::messages(script));

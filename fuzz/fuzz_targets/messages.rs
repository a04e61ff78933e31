//! Runs the check `messages::messages` of crates/programs/cli/tests/support/messages.rs.
#![no_main]

#[path = "../../crates/programs/cli/tests/support/messages.rs"]
mod messages;

libfuzzer_sys::fuzz_target!(|script: &[u8]| messages::messages(script));

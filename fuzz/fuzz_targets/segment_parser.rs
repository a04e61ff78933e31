//! Interprets arbitrary bytes as a datagram: parses it, emits the result, modifies it as a router does, and converts it
//! to TCP and back.
#![no_main]

#[path = "../../crates/core/wire/tests/support/any_datagram.rs"]
mod any_datagram;

libfuzzer_sys::fuzz_target!(|datagram: &[u8]| any_datagram::check(datagram));

//! Any bytes as a datagram: reading, writing what was read, a router's edit, the way to TCP and back.
#![no_main]

#[path = "../../crates/longhaul-wire/tests/support/any_datagram.rs"]
mod any_datagram;

libfuzzer_sys::fuzz_target!(|datagram: &[u8]| any_datagram::check(datagram));

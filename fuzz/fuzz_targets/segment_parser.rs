//! Arbitrary bytes as a datagram: parsing, emitting the result again, modification by a router, and conversion to TCP
//! and back.
#![no_main]

#[path = "../../crates/core/wire/tests/support/any_datagram.rs"]
mod any_datagram;

libfuzzer_sys::fuzz_target!(|datagram: &[u8]| any_datagram::check(datagram));

//! Checks the parser for the kernel's control messages of received datagrams (crates/core/sys/src/linux/tests/script.rs), and
//! that the endpoint treats coalesced datagrams like single ones (`merged` of
//! crates/core/tcp/tests/support/hostile.rs).
#![no_main]

#[expect(dead_code, reason = "the other checks have targets of their own")]
#[path = "../../crates/core/tcp/tests/support/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    longhaul_sys::linux::script::received(script);
    hostile::merged(script);
});

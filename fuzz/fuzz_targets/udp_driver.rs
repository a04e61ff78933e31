//! What the kernel may write about received datagrams: crates/longhaul-sys/src/linux/script.rs. The endpoint treats datagrams that receive
//! offload merged as it treats them one by one: `merged` of the checks in crates/longhaul-tcp/tests/support/hostile.rs.
#![no_main]

#[expect(dead_code, reason = "the other checks have targets of their own")]
#[path = "../../crates/longhaul-tcp/tests/support/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    longhaul_sys::linux::script::received(script);
    hostile::merged(script);
});

//! One stream as fast as it goes: longhaul against raw UDP, kernel TCP and quinn.
//!
//! **What is measured.** 2 GiB from a sender to a receiver, over loopback and over a veth pair with MTU 1500 whose
//! segmentation offloads are off (`longhaul_benches::veth`). Goodput is bytes over the sender's wall time, from both
//! sides' being ready to the receiver's word that it has everything. CPU seconds per GB (10^9 bytes) are the user and
//! kernel time of the process over the same period, for sender and receiver each. The kernel does a part of the
//! receiver's work on the sender's account (it passes packets on within `sendmsg`), so judge the sum.
//!
//! **How.** Sender and receiver are processes of their own, on a single-threaded tokio runtime each. The rivals take
//! turns, five times over, with the order rotated, so that a busy or throttled machine hits all alike. A run is
//! contended, and repeated, if the whole machine used over 1.2 times the CPU time of the two processes while it lasted.
//! Where clean runs are not to be had, those with the least foreign work are taken, and their number is printed.
//!
//! * longhaul: the defaults, but Nagle's algorithm and probing for a larger path MTU off: pacing, checks, timestamps
//!   and CUBIC on; 1448 bytes a segment.
//! * longhaul-quinn-udp: the same with `quinn-udp` in place of its own system calls;
//! * udp: the ceiling, see `longhaul_benches::udp`.
//! * tcp: the kernel's, CUBIC where the process may choose it (printed), MSS clamped so that segments have 1448 bytes.
//! * quinn: TLS 1.3, CUBIC, UDP payload 1472 bytes, windows of 32 MiB.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_MIB` (2048), `LONGHAUL_BENCH_RUNS` (9).
//! The code is in this package's library, `longhaul_benches::loopback`.
//! Results go to `bench/loopback.json` in the target directory.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::loopback::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

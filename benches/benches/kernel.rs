//! The kernel's TCP and longhaul's, both with CUBIC, over the same emulated links in real time.
//!
//! Each transfer has a `longhaul-linkem shell` of its own: the sender runs in the shell's network namespace, behind the
//! link, and the receiver outside. Both transports are driven by the same code, and a packet of both is 1500 bytes long
//! and carries 1448: the kernel's in a TCP segment with timestamps, longhaul's in a UDP datagram. So both have the same
//! share of the link for their data, 96.5 %.
//!
//! * **Clean links**, with drop-tail queues of 0.5, 1 and 2 BDP: **goodput** of a transfer of 60 s, and **completion
//!   time** of 1 MB. Both count from just before the sender's `connect`, and end at the receiving application. The
//!   medians of the two have to agree within 10 %.
//! * **Random loss** on the way of the data, uniform, at a queue of 1 BDP: goodput of 30 s, in ten runs with ten seeds,
//!   which are the same for both. The intervals between the quartiles have to overlap.
//!
//! A run is disturbed, and repeated twice at most, if the emulator's own lateness exceeded a millisecond at the 99th
//! percentile, or if the sender waited for a processor for a quarter of its time; a row that still has one is
//! marked. Both sides of both rivals go before other processes (`SCHED_RR`), as the emulator does: what is compared is
//! what the transports decide, not how they share a busy machine. The rivals' runs are made next to each other, as many
//! at a time as come to 160 Mb/s.
//!
//! Needs root and `/dev/net/tun`, and says so where it has not. Congestion control is set for each socket; what else
//! the kernel does (HyStart, PRR, RACK, TLP, delayed ACKs, auto-tuned buffers) is as the system has it. Longhaul has
//! its default settings, but for Nagle's algorithm and the search for a longer packet: off, as in the other benches.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_SECONDS` (60) of goodput on clean links, and half as much with loss;
//! `LONGHAUL_BENCH_RUNS` (1) of that on clean links, `LONGHAUL_BENCH_COMPLETIONS` (5), `LONGHAUL_BENCH_SEEDS` (10);
//! `LONGHAUL_BENCH_MBPS` (160) at a time; `LONGHAUL_BENCH_LOGS`, a directory for the link's log of each run, packet by
//! packet. The code is in this package's library, `longhaul_benches::kernel`.
//! Results go to `bench/kernel.json` in the target directory: a list of `{mbps, rtt_ms, queue_bdp, loss_percent,
//! metric, hystart_detect, kernel, longhaul, ratio, agrees}`, with the quartiles and all runs of both. What they say is
//! discussed in `docs/kernel.md`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<std::process::ExitCode> {
    longhaul_benches::kernel::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

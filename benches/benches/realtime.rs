//! Agreement of virtual and real time, and speed of the relay of `longhaul-linkem`.
//!
//! **Agreement.** Each transfer is made in virtual time by `longhaul-sim`, and in real time with longhaul's sockets over a
//! relay, with the same link, seed and settings. The completion time is from connect to the last byte at the receiving
//! application. Random events are assigned to packet numbers, so that the same packets are lost in both. Client and server
//! share a thread, and the relay has its own; with root privileges, both have real-time priority. If a transfer ends
//! during the recovery from several hundred losses, packets that are late by 0.1 ms may change the subsequent losses.
//! Therefore, the table also shows the durations in virtual time with packets that are late by up to 0.1 ms. If they
//! deviate by more than 3 %, real time is compared with their range.
//!
//! A run in real time is valid if the machine was fast enough: the relay's lateness was below 1 ms at the 99th percentile
//! and never more than a hundredth of the completion time, its sockets lost nothing, and the thread of client and server
//! waited for a processor for less than 0.1 ms on average. The table has the median of the valid runs.
//!
//! **Speed of the relay.** Packets of 1500 bytes fill the link at a constant rate for five seconds. The results are the
//! fraction that arrived, the processor time of the relay, and its lateness. A measurement is repeated if other processes
//! used a fifth of a processor.
//!
//! The bench ends with a line per requirement: agreement within 3 %, lateness below 1 ms at the 99th percentile at 155
//! Mb/s, and no loss at 1 Gb/s. It fails if a requirement is not met although the machine was fast enough.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_RUNS` (5), `LONGHAUL_BENCH_SECONDS` (5), `LONGHAUL_BENCH_CONTROLLER`
//! (longhaul's default), `LONGHAUL_BENCH_SCENARIOS` (all, or names separated by commas).
//! Results go to `bench/realtime.json` in the target directory: `{controller, agreement: [...], relay: [...]}`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::realtime::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

//! Whether virtual and real time agree, and how well the relay of `longhaul-linkem` keeps time.
//!
//! **Agreement.** The same transfer twice: in virtual time by `longhaul-sim`, and in real time with longhaul's own
//! sockets over a relay, on the same link with the same seed, with the same settings. Completion time is from
//! the connecting to the last byte at the receiving application. What is random falls on packets by their numbers, so the
//! same packets are lost in both. Client and server share a thread, the relay has its own; as root, both go before all
//! others. Where a transfer ends amid the repair of a few hundred losses, packets that are a tenth of a millisecond late
//! may change what is lost next, and so everything after it: the table shows for comparison what such delays do in virtual
//! time. Where that is more than 3 %, real time is compared with that range instead.
//!
//! A run in real time counts if the machine kept up: the relay's lateness stayed below 1 ms at the 99th percentile and
//! below a hundredth of the completion time at all, no socket of its own lost anything, and the thread of client and
//! server got a processor within 0.1 ms on average. The table has the median of the runs that count.
//!
//! **The relay's own speed.** A constant rate of packets of 1500 bytes that fills the link, for five seconds: the
//! share that came out, the processor time of the relay, and its lateness. A measurement is repeated if something
//! else on the machine used a fifth of a processor meanwhile.
//!
//! At the end stands a line for each thing required: agreement within 3 %; lateness below 1 ms at the 99th percentile at
//! 155 Mb/s; 1 Gb/s held. What the machine was too busy to show is not held against it; anything else makes
//! the bench fail.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_RUNS` (5), `LONGHAUL_BENCH_SECONDS` (5), `LONGHAUL_BENCH_CONTROLLER`
//! (longhaul's default), `LONGHAUL_BENCH_SCENARIOS` (all, or names with commas between them).
//! The code is in this package's library, `longhaul_benches::realtime`.
//! Results go to `bench/realtime.json` in the target directory: `{controller, agreement: [...], relay: [...]}`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::realtime::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

//! Every named congestion controller over emulated links, in virtual time.
//!
//! A sender and a receiver on the two ends of a link; the data goes where the link is wide. For each link, clean and with
//! 0.1 % of random loss on the way of the data:
//!
//! * **Completion time** of 15 kB, 100 kB, 1 MB and 10 MB on a fresh connection, from the SYN to the last byte at the
//!   receiving application.
//! * **Goodput** of a transfer of 60 s, the start included; the share of bytes that were **retransmitted** in it; and how
//!   long its packets **queued**: median and 95th percentile.
//!
//! What is random gets several seeds; the table has medians, the file quartiles too. What is not, a clean link, runs
//! once: another seed would be the same run. A transfer that takes longer than ten minutes is `inf` in the table and
//! `null` in the file. All of it takes two minutes on two cores. Beside it
//! stands the limit that physics sets: for a completion time the handshake, the way there, and the serialisation of the
//! packets; for goodput the payload's part of the rate.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_SEEDS` (3), `LONGHAUL_BENCH_SECONDS` (60), `LONGHAUL_BENCH_CONTROLLERS`
//! and `LONGHAUL_BENCH_SCENARIOS` (all, or names with commas between them).
//! The code is in this package's library, `longhaul_benches::emulated`.
//! Results go to `bench/emulated.json` in the target directory: a list of
//! `{scenario, loss, controller, metric, median, p25, p75, seeds, limit}`.

fn main() -> anyhow::Result<()> {
    longhaul_benches::emulated::main(env!("CARGO_TARGET_TMPDIR"))
}

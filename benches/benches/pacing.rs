//! Precision of pacing: how late a sender with a limited pacing rate transmits its segments, and how much of the rate
//! it loses if its thread does not run for a third of the time.
//!
//! A process writes one stream over loopback to a thread of the bench, which serves an endpoint and takes the kernel's
//! receive timestamp of each batch of segments. On loopback, this is the transmission time, because the kernel delivers
//! a datagram within the system call that sends it. A batch is due when the pacing rate has released its first quantum
//! since the previous batch was due. Lateness above 1 ms delays the due times of all later batches, because longhaul
//! makes up for more than that only if it is always late. For comparison, a process only waits for a timer and sends
//! batches of the same size, to a thread that does not answer: its lateness shows the precision of the machine.
//!
//! ```sh
//! cargo bench --bench pacing             # prints the table
//! cargo bench --bench pacing -- --write  # and writes it: docs/costs.md
//! ```
//!
//! The bench requires a quiet machine. **Settings** by environment: `LONGHAUL_BENCH_MS` (3000) for each of
//! `LONGHAUL_BENCH_RUNS` (5) measurements.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::pacing::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

//! Precision of pacing: how late segments leave a sender with a limited pacing rate, and what it loses if its thread does not
//! run for a third of the time.
//!
//! A process writes one stream over loopback to a thread of the bench, which serves an endpoint, and takes the kernel's receive
//! timestamp of each batch of segments. On loopback, the kernel delivers a datagram within the system call that sends it, so that this is the time at which it left. A batch is
//! due when the rate has released its first quantum since the last one was due. What is late by more than 1 ms moves the
//! following ones, because longhaul makes up for more only if it is always late. A process that does nothing but wait for a timer
//! and send batches of the same size, to a thread that does not answer, shows what the machine permits.
//!
//! ```sh
//! cargo bench --bench pacing             # prints the table
//! cargo bench --bench pacing -- --write  # and writes it: docs/costs.md
//! ```
//!
//! It requires a quiet machine. **Settings** by environment: `LONGHAUL_BENCH_MS` (3000) for each of `LONGHAUL_BENCH_RUNS` (5)
//! measurements.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::pacing::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

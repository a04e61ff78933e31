//! CPU time per ACK of each congestion controller in nanoseconds, compared with its maximum.
//!
//! The events are those of the bench `controllers`: successive ACKs in congestion avoidance with a loss every 100,000
//! ACKs, and in loss recovery. Each measurement covers 100,000 ACKs by the thread's CPU clock. The values are medians
//! of 21 measurements per controller. The controllers take turns, so that other work on the machine affects all of
//! them.
//!
//! ```sh
//! cargo bench --bench costs             # prints the table
//! cargo bench --bench costs -- --quick  # with 5 turns
//! cargo bench --bench costs -- --write  # and writes it: docs/costs.md; on a quiet machine
//! ```
//!
//! Results are also written to `bench/costs.json` in the target directory.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::costs::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

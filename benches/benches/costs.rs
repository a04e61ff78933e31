//! What one ACK costs each congestion controller, in nanoseconds of CPU time, against what it may cost.
//!
//! The events are those of the bench `controllers`: one ACK after another in congestion avoidance with a loss every
//! 100,000 of them, and in loss recovery. 100,000 ACKs are timed at once, by the clock of the thread's CPU time, 21 times
//! for each law, all laws taking turns, so that what else the machine does meets all of them: the medians stand.
//!
//! ```sh
//! cargo bench --bench costs             # prints the table
//! cargo bench --bench costs -- --quick  # with 5 turns
//! cargo bench --bench costs -- --write  # and writes it: docs/costs.md; on a quiet machine
//! ```
//!
//! Results go to `bench/costs.json` in the target directory, too. The code is in this package's library,
//! `longhaul_benches::costs`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::costs::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

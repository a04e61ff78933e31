//! Distribution of the CPU time per gigabyte: samples of both processes, classified by the functions that were running.
//!
//! `perf record -e cpu-clock -F 4999` samples sender and receiver of one stream as in the bench `loopback`, and the server
//! and one of two clients of 200 streams as in the bench `shards`. A sample counts for the function that was running, not
//! for its callers. The section that this bench writes explains the classes.
//!
//! ```sh
//! cargo bench --bench profile             # prints the table
//! cargo bench --bench profile -- --write  # and writes it: docs/costs.md
//! ```
//!
//! The bench needs `perf`, and permission to sample the kernel (root, or `kernel.perf_event_paranoid` at most 1).
//!
//! **Settings** by environment: `LONGHAUL_BENCH_MIB` (4096) of the stream, `LONGHAUL_BENCH_MS` (4000) for the 200 streams.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::profile::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

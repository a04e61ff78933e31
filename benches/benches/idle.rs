//! Listener with 100,000 idle connections: its memory, its timers, and its effect on other connections, compared with
//! kernel TCP.
//!
//! One process has the listener, with a single-threaded runtime, and a task per connection that waits for a byte.
//! Another process opens the idle connections, over 400 loopback addresses. A third process downloads over 1000 streams
//! as fast as it can, and a fourth one connects, exchanges a byte and disconnects every 10 ms. The latter two are
//! measured both without idle connections and, with another server, next to them; the fourth is also measured without
//! the third.
//!
//! ```sh
//! cargo bench --bench idle             # prints the table
//! cargo bench --bench idle -- --write  # and writes it: docs/costs.md
//! ```
//!
//! The bench needs 3 GB of memory. Kernel TCP has at most as many idle connections as the limit of open files permits.
//! **Settings** by environment: `LONGHAUL_BENCH_IDLE` (100000), `LONGHAUL_BENCH_ACTIVE` (1000) and `LONGHAUL_BENCH_MS`
//! (5000) for each measurement.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::idle::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

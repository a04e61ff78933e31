//! What each estimator of capacity or available bandwidth finds on the standard paths, in virtual time.
//!
//! **Active methods** (CapProbe, Pathrate, Pathload, pathChirp) send trains over a narrow link of 80 Mb/s between two faster
//! ones, 133 ms there and back, alone and beside traffic at random times; once over 20 Mb/s and 500 ms; once with a receiver
//! whose clock ticks every 100 us and runs 50 ppm fast. Estimate, range, time, bytes and confidence are those of the method.
//!
//! **Estimates within a transfer** (packet pair, TCPProbe, BE fused with TCPProbe) come from flipped pairs of a transfer's own
//! segments after 30 s over 80 Mb/s and 40 ms, with arrival times and without: over a way back that is idle, one that hands
//! ACKs over every 20 ms, one of 500 kb/s, and beside traffic that takes half of the link.
//!
//! ```sh
//! cargo bench --bench estimates             # prints the tables
//! cargo bench --bench estimates -- --write  # and writes them: docs/estimates.md, and a section in docs/algorithms/*.md
//! cargo bench --bench estimates -- --check  # measures, and fails if the pages say anything else
//! ```
//!
//! Results go to `bench/estimates.json` in the target directory, too. The code is in this package's library,
//! `longhaul_benches::estimates`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::estimates::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

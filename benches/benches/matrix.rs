//! Every start with every recovery, in virtual time: how long 1 MB takes and what is lost of it.
//!
//! One flow, alone, over four links: each launch and growth of the registry with each of its recoveries, CUBIC between them.
//! Where nothing is left to chance the queue's length is, by some packets, and the median of several is taken: a drop-tail queue that
//! is one packet longer drops another one. What a whole controller does stands beside it. Then what recoveries do in flows that do not end:
//! four of them together, and one beside an unmodified CUBIC, with queues that know of low priority and with queues that do not. And
//! Jump-Start with several limits, in short flows beside cross traffic, as in Scharf's study of fast starts.
//!
//! ```sh
//! cargo bench --bench matrix                      # prints the page
//! cargo bench --bench matrix -- --write           # and writes it: docs/matrix.md
//! cargo bench --bench matrix -- --check           # measures, and fails if the page says anything else
//! cargo bench --bench matrix -- --check --quick   # the same with one link of the matrix
//! ```
//!
//! Results go to `bench/matrix.json` in the target directory, too. The code is in this package's library, `longhaul_benches::matrix`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::matrix::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

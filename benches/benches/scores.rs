//! What each congestion controller scores on the standard scenarios, in virtual time.
//!
//! One flow, alone. Each of the registry's names is measured: a profile as it is, a law without a profile with the start
//! that suits it, any other stage in place of NewReno's. The columns are in `docs/scores.md`: goodput over 60 s with the
//! start included, the time that 1 MB takes, the 95th percentile of the time in a deep queue. Where there is random loss
//! or jitter it is the median of three seeds; the rest has no chance in it, so that each number repeats itself on every machine.
//!
//! ```sh
//! cargo bench --bench scores                      # prints the table
//! cargo bench --bench scores -- --write           # and writes it: docs/scores.md, and a section in docs/algorithms/*.md
//! cargo bench --bench scores -- --check           # measures, and fails if the pages say anything else
//! cargo bench --bench scores -- --check --quick   # the same with the columns that take less than a minute in all
//! ```
//!
//! **Settings** by environment: `LONGHAUL_BENCH_CONTROLLERS`, names with commas between them, to print only these. Results
//! go to `bench/scores.json` in the target directory, too. The code is in this package's library, `longhaul_benches::scores`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::scores::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

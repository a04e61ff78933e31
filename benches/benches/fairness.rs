//! Who gets what of a shared bottleneck: every named congestion controller, in virtual time.
//!
//! A link of 50 Mb/s and 40 ms, whose queue holds 0.25, 0.5, 1, 2 and 4 bandwidth-delay products; all flows have the same round
//! trip, begin 0.7 s apart, and are measured for 60 s once they had 30 s to find their shares. For each controller:
//!
//! * **one flow alone**: goodput in Mb/s, and how long its packets queue at the median, in ms;
//! * **two and ten flows of its own**: Jain's index, and what ten of them get together;
//! * **one flow beside one of CUBIC's, and beside one of NewReno's**, begun before and after it: its share of what both get (0.5 is even), and the
//!   **harm** to the other: what that has less than alone, as a part of it. Two flows of one kind do each other a harm of
//!   about 0.5; more than that is what a controller should not do on a shared network (Ware, Mukerjee, Seshan and Sherry,
//!   "Beyond Jain's Fairness Index", HotNets 2019).
//!
//! A rule, in `docs/fairness.md`, judges each by these numbers.
//!
//! ```sh
//! cargo bench --bench fairness             # prints the tables
//! cargo bench --bench fairness -- --write  # and writes docs/fairness.md
//! cargo bench --bench fairness -- --check  # measures, and fails if the page says anything else
//! ```
//!
//! There is no chance in it: the link is clean, and a run repeats itself. **Settings** by environment, to print only:
//! `LONGHAUL_BENCH_SECONDS` (60), `LONGHAUL_BENCH_CONTROLLERS` (all, or names with commas between them). Results go to
//! `bench/fairness.json` in the target directory. The code is in this package's library, `longhaul_benches::fairness`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::fairness::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}

//! Transfers with every profile over the named links, in virtual time: the experiment `emulated` of the laboratory.
//!
//! The experiment runs over each link, without and with 0.1 % of random loss in the direction of the data. It measures
//! the completion times of 15 kB, 100 kB, 1 MB and 10 MB from the SYN to the last byte at the receiving application;
//! the goodput over 60 s, start included; the fraction of retransmitted bytes; and the median and 95th percentile of
//! the queueing delay. Values are medians over the seeds. A transfer that takes longer than ten minutes is `inf`.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_SEEDS` (3), `LONGHAUL_BENCH_CONTROLLERS` and `LONGHAUL_BENCH_SCENARIOS`
//! (all, or names separated by commas). `longhaul-lab run emulated --out DIR` stores the results.

use std::thread;

use anyhow::{Context, Result};
use longhaul_lab::documents::Source;
use longhaul_lab::experiment::Experiment;
use longhaul_lab::library;
use longhaul_lab::runner;

fn main() -> Result<()> {
    let (file, text) = library::find("emulated").context("the laboratory has no experiment emulated")?;
    let experiment = Experiment::read(file, text)?;
    let runs = std::env::var("LONGHAUL_BENCH_SEEDS").map_or(Ok(3), |seeds| seeds.parse())?;
    let (links, controllers) =
        (chosen("link", "LONGHAUL_BENCH_SCENARIOS"), chosen("controller", "LONGHAUL_BENCH_CONTROLLERS"));
    let cells = experiment.cells_at(&[links, controllers].concat()).map_err(anyhow::Error::msg)?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    println!("{} cells, {runs} seeds", cells.len());
    let records = runner::run_cells(&experiment, &cells, runs, jobs)?;
    let source = Source::new(&experiment, &records, runs);
    for link in experiment.choices("link") {
        for loss in experiment.choices("loss") {
            let table = source.table("link", &[("link", link), ("loss", loss)])?;
            if table.is_measured() {
                println!("\n{link}, loss {loss}\n\n{}", table.markdown(""));
            }
        }
    }
    Ok(())
}

/// Returns the choices that an environment variable makes on an axis of the experiment, as pairs of axis and choice.
fn chosen(axis: &str, variable: &str) -> Vec<(String, String)> {
    let names = std::env::var(variable).unwrap_or_default();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| (axis.to_owned(), name.to_owned())).collect()
}

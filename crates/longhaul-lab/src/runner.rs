//! All runs of an experiment, on some processors.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use longhaul_sim::SetupError;

use crate::experiment::{CellSetup, Experiment};
use crate::record::Record;
use crate::world;

/// How much is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs of each cell, with seeds from 1 on.
    pub runs: u32,
    /// Runs at a time.
    pub jobs: usize,
}

/// Runs an experiment and returns all records by cell and seed. `tell` hears of each run that ended how many have and how many there are.
///
/// # Errors
/// If there can be no such network.
pub fn run(
    experiment: &Experiment,
    effort: Effort,
    tell: impl Fn(usize, usize) + Sync,
) -> Result<Vec<Record>, SetupError> {
    let Effort { runs, jobs } = effort;
    let each: Vec<(usize, u32)> =
        (0..experiment.cells.len()).flat_map(|cell| (0..runs).map(move |run| (cell, run))).collect();
    let (next, ended, done) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(run @ (cell, number)) = each.get(next.fetch_add(1, Ordering::Relaxed)) {
            let values = timed(&experiment.setups[*cell], *cell, u64::from(*number) + 1);
            if let Ok(mut done) = done.lock() {
                done.insert(*run, values);
            }
            tell(ended.fetch_add(1, Ordering::Relaxed) + 1, each.len());
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap_or_default().into_values().collect()
}

#[expect(clippy::disallowed_methods, reason = "how long a run takes is the computer's time, and no part of the run")]
fn timed(setup: &CellSetup, cell: usize, seed: u64) -> Result<Record, SetupError> {
    let begun = Instant::now();
    let record = world::run(setup, cell, seed)?;
    Ok(Record { took: begun.elapsed().as_secs_f64(), ..record })
}

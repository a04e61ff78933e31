//! All runs of an experiment, on some processors.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use longhaul_sim::SetupError;

use crate::experiment::Experiment;
use crate::world;

/// How much is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs of each cell, with seeds from 1 on.
    pub runs: u32,
    /// Runs at a time.
    pub jobs: usize,
}

/// The values of each metric, by cell and by run.
pub type Results = Vec<Vec<Vec<Option<f64>>>>;

/// Runs an experiment. `tell` hears of each run that ended how many have and how many there are.
///
/// # Errors
/// If there can be no such network.
pub fn run(experiment: &Experiment, effort: Effort, tell: impl Fn(usize, usize) + Sync) -> Result<Results, SetupError> {
    let Effort { runs, jobs } = effort;
    let each: Vec<(usize, u32)> =
        (0..experiment.cells.len()).flat_map(|cell| (0..runs).map(move |run| (cell, run))).collect();
    let (next, ended, done) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(run @ (cell, number)) = each.get(next.fetch_add(1, Ordering::Relaxed)) {
            let values = world::run(&experiment.setups[*cell], u64::from(*number) + 1);
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
    let mut results = vec![Vec::new(); experiment.cells.len()];
    for ((cell, _), values) in done.into_inner().unwrap_or_default() {
        results[cell].push(values?);
    }
    Ok(results)
}

//! Runs of all requested experiments on several processors. They form one queue, so that no processor is idle while
//! there is work.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Result, anyhow};
use tokio::runtime::Builder;

use crate::cost;
use crate::experiment::{CellSetup, Experiment};
use crate::real;
use crate::record::Record;
use crate::stopwatch::Stopwatch;
use crate::world;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub(crate) experiment: usize,
    pub(crate) cell: usize,
    /// The seed, at least 1.
    pub(crate) seed: u64,
}

/// The program got SIGINT (Ctrl-C) or SIGTERM.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Returns all runs of the experiments, with seeds from the first one on, and their number in `runs` for each.
pub(crate) fn jobs(experiments: &[Experiment], first: u64, runs: &[u32]) -> Vec<Job> {
    let of = |(experiment, (definition, runs)): (usize, (&Experiment, &u32))| {
        let seeds = first..first + u64::from(*runs);
        (0..definition.cells.len()).flat_map(move |cell| seeds.clone().map(move |seed| Job { experiment, cell, seed }))
    };
    experiments.iter().zip(runs).enumerate().flat_map(of).collect()
}

/// Runs an experiment with seeds from 1 on, `at_a_time` of its runs concurrently, and returns all records, sorted by cell
/// and seed.
///
/// # Errors
/// Returns an error if the network cannot be set up or the program panics.
pub fn run(one: &Experiment, runs: u32, at_a_time: usize) -> Result<Vec<Record>> {
    run_cells(one, &(0..one.cells.len()).collect(), runs, at_a_time)
}

/// Runs these cells of an experiment, as [`run`] does.
///
/// # Errors
/// Returns an error if the network cannot be set up or the program panics.
pub fn run_cells(one: &Experiment, cells: &BTreeSet<usize>, runs: u32, at_a_time: usize) -> Result<Vec<Record>> {
    let experiments: Arc<[Experiment]> = [one.clone()].into();
    let mut jobs = jobs(&experiments, 1, &[runs]);
    jobs.retain(|job| cells.contains(&job.cell));
    let mut done = BTreeMap::new();
    drive(&experiments, jobs, at_a_time, mpsc::channel(), |job, record| {
        done.insert(job, record);
        Ok(())
    })?;
    Ok(done.into_values().collect())
}

/// Runs the jobs, `at_a_time` of them concurrently, in the order of decreasing expected cost. `hear` receives each
/// record as soon as its run ends. An error returned by `hear`, or an interruption, stops all runs. After this call,
/// SIGINT and SIGTERM are handled here only.
pub(crate) fn run_all(
    experiments: &Arc<[Experiment]>,
    jobs: Vec<Job>,
    at_a_time: usize,
    hear: impl FnMut(Job, Record) -> Result<()>,
) -> Result<()> {
    let channel = mpsc::channel();
    watch_for_signals(channel.0.clone());
    drive(experiments, jobs, at_a_time, channel, hear)
}

fn drive(
    experiments: &Arc<[Experiment]>,
    mut jobs: Vec<Job>,
    at_a_time: usize,
    (sender, events): (Sender<Event>, Receiver<Event>),
    mut hear: impl FnMut(Job, Record) -> Result<()>,
) -> Result<()> {
    cost::longest_first(&mut jobs, experiments);
    let (all, jobs, next) = (jobs.len(), Arc::new(jobs), Arc::new(AtomicUsize::new(0)));
    for _ in 0..at_a_time.clamp(1, all.max(1)) {
        let (experiments, jobs, next) = (Arc::clone(experiments), Arc::clone(&jobs), Arc::clone(&next));
        let sender = sender.clone();
        thread::spawn(move || work(&experiments, &jobs, &next, &sender));
    }
    for event in events.iter().take(all) {
        let (job, record) = event?;
        hear(job, record)?;
    }
    Ok(())
}

/// A run that has ended, or the reason to stop.
type Event = Result<(Job, Record)>;

fn work(experiments: &[Experiment], jobs: &[Job], next: &AtomicUsize, sender: &Sender<Event>) {
    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
        let Job { cell, seed, .. } = *job;
        let of = &experiments[job.experiment];
        let failed = |what: String| anyhow!("{}, cell {cell}, seed {seed}: {what}", of.id());
        let event = match catch_unwind(AssertUnwindSafe(|| one(&of.setups[cell], cell, seed))) {
            Ok(Ok(record)) => Ok((*job, record)),
            Ok(Err(error)) => Err(failed(format!("{error:#}"))),
            // The panic has printed its reason.
            Err(_) => Err(failed("the program panicked in this run".into())),
        };
        if sender.send(event).is_err() {
            return;
        }
    }
}

/// Makes a run, in virtual or in real time.
fn one(setup: &CellSetup, cell: usize, seed: u64) -> Result<Record> {
    if setup.real_time {
        return real::record(setup, cell, seed);
    }
    let begun = Stopwatch::start();
    let record = world::run(setup, cell, seed)?;
    Ok(Record { took: begun.seconds(), ..record }.finite())
}

/// Reports the first interruption. If no signal handler can be installed, the signals terminate the program as usual.
fn watch_for_signals(sender: Sender<Event>) {
    thread::spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_io().build() else { return };
        if runtime.block_on(interrupted()) {
            let _ = sender.send(Err(Interrupted.into()));
        }
    });
}

#[cfg(unix)]
async fn interrupted() -> bool {
    use tokio::signal::unix::{SignalKind, signal};

    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return false };
    tokio::select! {
        heard = tokio::signal::ctrl_c() => heard.is_ok(),
        heard = terminate.recv() => heard.is_some(),
    }
}

#[cfg(not(unix))]
async fn interrupted() -> bool {
    tokio::signal::ctrl_c().await.is_ok()
}

//! Runs of all experiments that are asked for, on some processors: one queue, so that none is idle while another experiment could begin.

mod interrupt;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use longhaul_sim::SetupError;

use crate::cost;
use crate::experiment::Experiment;
use crate::record::Record;
use crate::stopwatch::Stopwatch;
use crate::world;

/// How often one hears something while no run ends.
const PATIENCE: Duration = Duration::from_millis(500);

/// How much is to be done of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs of each cell, with seeds from 1 on.
    pub runs: u32,
    /// Runs at a time.
    pub jobs: usize,
}

/// A run: a cell of an experiment, and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// The experiment's place among those that are run.
    pub experiment: usize,
    /// The cell's place among the experiment's.
    pub cell: usize,
    /// From 1 on.
    pub seed: u64,
}

/// What one hears while they run.
#[derive(Clone, Debug)]
pub enum News {
    /// A run ended.
    Ended(Job, Record),
    /// None did for a while.
    Waiting,
}

/// Why not all ran. Those that one has heard of are good.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There can be no such network.
    #[error("{experiment}, cell {cell}, seed {seed}: {error}")]
    Setup {
        /// The experiment.
        experiment: String,
        /// The cell's place.
        cell: usize,
        /// The seed.
        seed: u64,
        /// What is wrong.
        error: SetupError,
    },
    /// A fault of the program, which it told before.
    #[error("{experiment}, cell {cell}, seed {seed}: the program panicked in this run")]
    Panicked {
        /// The experiment.
        experiment: String,
        /// The cell's place.
        cell: usize,
        /// The seed.
        seed: u64,
    },
    /// Somebody pressed Ctrl-C, or told the program to end.
    #[error("interrupted")]
    Interrupted,
    /// Who heard of a run could not go on.
    #[error(transparent)]
    Told(anyhow::Error),
}

/// All runs of some experiments, with seeds from 1 to each one's number of `runs`.
#[must_use]
pub fn jobs(experiments: &[Experiment], runs: &[u32]) -> Vec<Job> {
    let of = |(experiment, (definition, runs)): (usize, (&Experiment, &u32))| {
        let seeds = 1..=u64::from(*runs);
        (0..definition.cells.len()).flat_map(move |cell| seeds.clone().map(move |seed| Job { experiment, cell, seed }))
    };
    experiments.iter().zip(runs).enumerate().flat_map(of).collect()
}

/// Runs an experiment and returns all records by cell and seed. `tell` hears of each run that ended how many have and how many there are.
///
/// # Errors
/// If there can be no such network, or the program has a fault.
pub fn run(
    experiment: &Experiment,
    effort: Effort,
    mut tell: impl FnMut(usize, usize),
) -> Result<Vec<Record>, RunError> {
    let experiments: Arc<[Experiment]> = [experiment.clone()].into();
    let jobs = jobs(&experiments, &[effort.runs]);
    let (all, mut done) = (jobs.len(), BTreeMap::new());
    drive(&experiments, jobs, effort.jobs, mpsc::channel(), |news| {
        if let News::Ended(job, record) = news {
            done.insert(job, record);
            tell(done.len(), all);
        }
        Ok(())
    })?;
    Ok(done.into_values().collect())
}

/// Does the jobs, so many at a time, what is expected to take longest first. `hear` gets each record as soon as it is there; an error of its
/// stops everything, and so does an interruption: from then on the program hears of them only here.
///
/// # Errors
/// What stopped it. Runs that have begun are left behind, and end unheard of.
pub fn run_all(
    experiments: &Arc<[Experiment]>,
    jobs: Vec<Job>,
    at_a_time: usize,
    hear: impl FnMut(News) -> anyhow::Result<()>,
) -> Result<(), RunError> {
    let channel = mpsc::channel();
    interrupt::watch(channel.0.clone());
    drive(experiments, jobs, at_a_time, channel, hear)
}

fn drive(
    experiments: &Arc<[Experiment]>,
    mut jobs: Vec<Job>,
    at_a_time: usize,
    (sender, events): (Sender<Event>, Receiver<Event>),
    mut hear: impl FnMut(News) -> anyhow::Result<()>,
) -> Result<(), RunError> {
    cost::longest_first(&mut jobs, experiments);
    let (all, jobs, next) = (jobs.len(), Arc::new(jobs), Arc::new(AtomicUsize::new(0)));
    for _ in 0..at_a_time.clamp(1, all.max(1)) {
        let (experiments, jobs, next) = (Arc::clone(experiments), Arc::clone(&jobs), Arc::clone(&next));
        let sender = sender.clone();
        thread::spawn(move || work(&experiments, &jobs, &next, &sender));
    }
    let mut ended = 0;
    while ended < all {
        match events.recv_timeout(PATIENCE) {
            Ok(Event::Ended(job, record)) => {
                ended += 1;
                hear(News::Ended(job, *record)).map_err(RunError::Told)?;
            }
            Ok(Event::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => hear(News::Waiting).map_err(RunError::Told)?,
            // This end has a sender of its own.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

/// What a thread tells.
enum Event {
    Ended(Job, Box<Record>),
    Failed(RunError),
}

fn work(experiments: &[Experiment], jobs: &[Job], next: &AtomicUsize, sender: &Sender<Event>) {
    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
        let Job { cell, seed, .. } = *job;
        let of = &experiments[job.experiment];
        let experiment = || of.definition.id.get_ref().clone();
        let event = match catch_unwind(AssertUnwindSafe(|| timed(of, cell, seed))) {
            Ok(Ok(record)) => Event::Ended(*job, Box::new(record)),
            Ok(Err(error)) => Event::Failed(RunError::Setup { experiment: experiment(), cell, seed, error }),
            Err(_) => Event::Failed(RunError::Panicked { experiment: experiment(), cell, seed }),
        };
        if sender.send(event).is_err() {
            return;
        }
    }
}

fn timed(experiment: &Experiment, cell: usize, seed: u64) -> Result<Record, SetupError> {
    let begun = Stopwatch::start();
    let record = world::run(&experiment.setups[cell], cell, seed)?;
    Ok(Record { took: begun.seconds(), ..record }.finite())
}

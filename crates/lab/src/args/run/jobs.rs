//! The `jobs` command, and the choice of single runs.

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;

use super::super::print;
use super::{check_runs, numbers, read};
use crate::cost;
use crate::experiment::Experiment;
use crate::runner::{self, Job};

#[derive(Debug, Args)]
pub(in crate::args) struct Jobs {
    /// Names of experiments, or files.
    #[arg(required_unless_present = "all")]
    ids: Vec<String>,
    /// Select all included experiments that have rows and run in virtual time.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Runs per cell, or their seeds: A..B, both included.
    #[arg(long, value_name = "N|A..B")]
    seeds: Option<String>,
    /// Select fewer runs: `quick-runs` of the experiment.
    #[arg(long, conflicts_with = "seeds")]
    quick: bool,
    /// Print one JSON object per run.
    #[arg(long)]
    json: bool,
}

impl Jobs {
    /// Prints a line per run, most expensive first: the argument of `run --run`, and the expected cost.
    pub(in crate::args) fn execute(&self) -> Result<()> {
        let experiments = read(self.ids.clone(), self.all, &[])?;
        let seeds = self.seeds.as_deref().map(numbers).transpose()?;
        let usual = |one: &Experiment| if self.quick { one.definition.quick_runs } else { one.definition.runs };
        let runs: Vec<u32> = experiments.iter().map(|one| seeds.map_or_else(|| usual(one), |(_, runs)| runs)).collect();
        experiments.iter().zip(&runs).try_for_each(|(one, runs)| check_runs(one, *runs))?;
        let mut jobs = runner::jobs(&experiments, seeds.map_or(1, |(first, _)| first), &runs);
        cost::longest_first(&mut jobs, &experiments);
        for job in jobs {
            let (experiment, cost) = (&experiments[job.experiment], cost::of(job, &experiments));
            let name = format!("{}:{}:{}", experiment.id(), job.cell, job.seed);
            let choices = || experiment.choices_of(job.cell).collect::<std::collections::BTreeMap<_, _>>();
            print::out(&if self.json {
                let Job { cell, seed, .. } = job;
                let told = json!({
                    "run": name, "experiment": experiment.id(), "cell": cell, "seed": seed, "choices": choices(), "cost": cost,
                });
                told.to_string()
            } else {
                format!("{name}\t{cost}")
            })?;
        }
        Ok(())
    }
}

/// A run, as on the command line: `EXPERIMENT:CELL:SEED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The name of the experiment, or a file.
    pub(super) experiment: String,
    cell: usize,
    seed: u64,
}

/// Parses a run.
pub(super) fn chosen(text: &str) -> Result<Chosen, String> {
    let mut parts = text.rsplitn(3, ':');
    let seed = parts.next().and_then(|seed| seed.parse().ok());
    let cell = parts.next().and_then(|cell| cell.parse().ok());
    match (parts.next(), cell, seed) {
        (Some(experiment), Some(cell), Some(seed)) if !experiment.is_empty() => {
            Ok(Chosen { experiment: experiment.into(), cell, seed })
        }
        _ => Err(format!("{text:?} is not a run; write EXPERIMENT:CELL:SEED, as `longhaul-lab jobs` prints it")),
    }
}

/// Returns the chosen runs, which must be among those with these seeds.
pub(super) fn of(chosen: &[Chosen], experiments: &[Experiment], first: u64, runs: &[u32]) -> Result<Vec<Job>> {
    let job = |run: &Chosen| {
        // A file is named by its path, and the experiment in it by its id.
        let file = std::path::Path::new(&run.experiment).file_stem().and_then(|stem| stem.to_str());
        let place = experiments.iter().position(|one| one.id() == run.experiment || Some(one.id()) == file);
        let Chosen { experiment, cell, seed } = run;
        let job = place.filter(|place| {
            let last = first + u64::from(runs[*place]) - 1;
            *cell < experiments[*place].cells.len() && (first..=last).contains(seed)
        });
        let job = job.map(|experiment| Job { experiment, cell: *cell, seed: *seed });
        job.ok_or_else(|| anyhow!("--run {experiment}:{cell}:{seed} is none of the runs that are requested"))
    };
    chosen.iter().map(job).collect()
}

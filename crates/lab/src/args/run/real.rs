//! The `run --real` command: each run in virtual time, then over real sockets, and the differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::{Run, chosen_cells, suffice, tell_left_out};
use crate::args::print;
use crate::experiment::{Experiment, Row};
use crate::judge::{self, Judged, Numbers};
use crate::real::{self, Effort};
use crate::record::Record;
use crate::results::{self, LAB, write};
use crate::rule::Verdict;
use crate::world;

const REAL_TIME: &str = "it has `real-time = true`, and `run` without --real runs it over real sockets";

/// The requested runs.
pub(super) struct Real<'a> {
    pub(super) asked: &'a Run,
    pub(super) experiments: &'a [Experiment],
    /// Number of runs per cell.
    pub(super) seeds: u32,
}

/// A row with its values in virtual time, and the resource usage of its runs in real time.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    real: Judged,
    #[serde(rename = "virtual")]
    simulated: Numbers,
    runs: Vec<Took>,
}

impl Real<'_> {
    /// Executes the command. Returns whether all rows that can be judged are reproduced.
    pub(super) fn execute(&self) -> Result<bool> {
        let chosen: Vec<BTreeSet<usize>> =
            self.experiments.iter().map(|experiment| self.chosen(experiment)).collect::<Result<_>>()?;
        if let Some(folder) = &self.asked.out {
            check_folder(folder, self.experiments, self.asked.overwrite)?;
        }
        let seconds = |(experiment, cells): (&Experiment, &BTreeSet<usize>)| -> f64 {
            cells.iter().map(|cell| experiment.setups[*cell].duration.as_secs_f64()).sum()
        };
        let runs = chosen.iter().map(BTreeSet::len).sum::<usize>() * self.seeds as usize;
        let seconds: f64 = self.experiments.iter().zip(&chosen).map(seconds).sum::<f64>() * f64::from(self.seeds);
        print::note(&format!(
            "runs in real time, one at a time: {runs}, which take at most {}",
            print::duration(seconds)
        ));
        let each = self.experiments.iter().zip(&chosen).map(|(experiment, cells)| self.run(experiment, cells));
        Ok(each.collect::<Result<Vec<bool>>>()?.into_iter().all(|well| well))
    }

    /// Returns the requested cells, if all of them can run in real time.
    fn chosen(&self, experiment: &Experiment) -> Result<BTreeSet<usize>> {
        let cells = chosen_cells(experiment, &self.asked.at)?;
        for cell in &cells {
            let setup = &experiment.setups[*cell];
            let misfit = if setup.real_time { Err(REAL_TIME.into()) } else { real::check(setup) };
            if let Err(misfit) = misfit {
                bail!("{} cannot be run in real time: {misfit}; --at chooses other cells", name(experiment, *cell));
            }
        }
        Ok(cells)
    }

    /// Makes all runs of an experiment and prints its rows. Returns whether these are reproduced.
    fn run(&self, experiment: &Experiment, cells: &BTreeSet<usize>) -> Result<bool> {
        // All runs in virtual time come first, for the comparison.
        let runs = || cells.iter().flat_map(|cell| (1..=u64::from(self.seeds)).map(move |seed| (*cell, seed)));
        let in_virtual_time = |(cell, seed)| -> Result<Record> {
            let record = world::run(&experiment.setups[cell], cell, seed);
            Ok(record.with_context(|| name(experiment, cell))?.finite())
        };
        let simulated: Vec<Record> = runs().map(in_virtual_time).collect::<Result<_>>()?;
        // The same runs over real sockets, one at a time.
        let (mut records, mut all_took) = (Vec::new(), Vec::new());
        for (cell, seed) in runs() {
            let run = real::run(&experiment.setups[cell], cell, seed).with_context(|| name(experiment, cell))?;
            let took = Took::new(experiment, cell, seed, run.effort);
            took.tell();
            records.push(run.record);
            all_took.push(took);
        }
        // Rows are judged by the values in real time. Rows that need other cells are omitted.
        let judged = judge::judge(experiment, &records, self.seeds);
        let simulated_rows = judge::judge(experiment, &simulated, self.seeds);
        let (mut well, mut left_out, mut lines) = (true, 0, Vec::new());
        for ((row, real), simulated) in experiment.rows.iter().zip(judged).zip(simulated_rows) {
            if !suffice(cells, row, experiment) {
                left_out += 1;
                continue;
            }
            let needs = |took: &&Took| row.judged.as_ref().is_some_and(|judged| judged.cells.contains(&took.place));
            let runs = all_took.iter().filter(needs).cloned().collect();
            let line = Line { real: told(experiment, row, real), simulated: simulated.ours, runs };
            well &= line.real.is_well();
            print::out(&if self.asked.json { serde_json::to_string(&line)? } else { line.text() })?;
            lines.push(line);
        }
        // The folder receives the printed rows, and all runs with their resource usage.
        if let Some(folder) = &self.asked.out {
            let id = experiment.id();
            let kept = Kept { experiment: id, version: &results::program(), rows: &lines, runs: &all_took };
            write::json(&file(folder, id), &kept)?;
        }
        tell_left_out(experiment, left_out);
        Ok(well)
    }
}

/// Returns the identifier of an experiment with the choices of a cell.
fn name(experiment: &Experiment, cell: usize) -> String {
    let mut name = experiment.id().to_owned();
    for (axis, choice) in experiment.choices_of(cell) {
        name += &format!(", {axis} {choice:?}");
    }
    name
}

/// Removes the verdict of a row that real sockets cannot measure.
fn told(experiment: &Experiment, row: &Row, real: Judged) -> Judged {
    let untold = row.judged.as_ref().and_then(|judged| {
        let setup = experiment.setups.get(*judged.cells.first()?)?;
        real::untold(setup, setup.metrics.get(judged.metric)?)
    });
    match untold {
        Some(reason) => Judged { verdict: Verdict::NotReproducible, reason, ..real },
        None => real,
    }
}

impl Line {
    fn text(&self) -> String {
        let Judged { row, verdict, ours, unit, paper_value, rule, reason, .. } = &self.real;
        let mut line = format!("{row:<14} {:<16}", print::verdict(*verdict));
        if *verdict != Verdict::NotReproducible {
            let percent = |(real, simulated): (&Option<f64>, &Option<f64>)| {
                let percent = real.zip(*simulated).and_then(|(real, simulated)| difference(real, simulated));
                percent.map_or("-".into(), |percent| format!("{percent:+.1} %"))
            };
            let differences: Vec<String> = ours.list().iter().zip(self.simulated.list()).map(percent).collect();
            line += &format!(
                " {} {unit} (in virtual time {}, difference {}; paper {}), {rule}",
                print::words(ours),
                print::words(&self.simulated),
                differences.join(", "),
                print::words(paper_value)
            );
        }
        if reason.is_empty() { line } else { format!("{line}: {reason}") }
    }
}

/// Returns the difference between real and virtual time, in percent of the latter.
fn difference(real: f64, simulated: f64) -> Option<f64> {
    (simulated != 0.0).then(|| 100.0 * (real - simulated) / simulated.abs())
}

/// Stored results of an experiment.
#[derive(Serialize)]
struct Kept<'a> {
    experiment: &'a str,
    version: &'a str,
    /// The rows as printed by `--json`.
    rows: &'a [Line],
    /// All runs, including those in cells without a row.
    runs: &'a [Took],
}

/// Checks whether the experiments can be stored in a folder. It creates the folder, but changes nothing else.
fn check_folder(folder: &Path, experiments: &[Experiment], overwrite: bool) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    if folder.join(LAB).exists() {
        bail!("{} contains runs in virtual time; those over real sockets need another folder", folder.display());
    }
    for experiment in experiments {
        let path = file(folder, experiment.id());
        if !overwrite && path.exists() {
            bail!("{} exists; --overwrite replaces it", path.display());
        }
    }
    Ok(())
}

fn file(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.real.json"))
}

/// A run and its resource usage.
#[derive(Clone, Debug, Serialize)]
struct Took {
    /// The choice on each axis.
    cell: BTreeMap<String, String>,
    seed: u64,
    #[serde(flatten)]
    effort: Effort,
    ends_processor_seconds_per_gb: Option<f64>,
    kept_up: bool,
    /// Index of the cell in the experiment.
    #[serde(skip)]
    place: usize,
    #[serde(skip)]
    name: String,
}

impl Took {
    fn new(experiment: &Experiment, cell: usize, seed: u64, effort: Effort) -> Self {
        let choices = experiment.choices_of(cell);
        Self {
            cell: choices.map(|(axis, choice)| (axis.to_owned(), choice.to_owned())).collect(),
            seed,
            ends_processor_seconds_per_gb: effort.ends_per_gigabyte(),
            kept_up: effort.kept_up(),
            effort,
            place: cell,
            name: format!("{}, seed {seed}", name(experiment, cell)),
        }
    }

    /// Prints the resource usage, and whether the machine was fast enough for the run to be valid.
    fn tell(&self) {
        let Self { name, effort, .. } = self;
        let Effort { seconds, processor_seconds, ends_processor_seconds, lateness_seconds, failures, .. } = effort;
        let each = self.ends_processor_seconds_per_gb.map_or_else(String::new, |each| format!(" ({each:.1} s/GB)"));
        let memory = effort
            .memory_bytes
            .map_or_else(String::new, |bytes| format!("; peak memory {:.0} MB", bytes as f64 * 1e-6));
        let late = lateness_seconds * 1e3;
        print::note(&format!(
            "{name}: {seconds:.1} s; processor time {processor_seconds:.2} s for both ends and the relay, \
             {ends_processor_seconds:.2} s{each} for both ends; p99 lateness of the relay {late:.2} ms{memory}"
        ));
        if !self.kept_up {
            let Effort { lost_datagrams, starved_seconds, .. } = effort;
            print::note(&format!(
                "{name}: the machine was too slow for valid results: {late:.2} ms late, {lost_datagrams} datagrams lost \
                 outside the link, a sender without a processor for {starved_seconds:.2} s"
            ));
        }
        for failure in failures {
            print::note(&format!("{name}: a connection failed: {failure}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_by_hand() {
        assert_eq!(difference(11.0, 10.0), Some(10.0));
        assert_eq!(difference(-11.0, -10.0), Some(-10.0));
        assert_eq!(difference(1.0, 0.0), None);
    }
}

//! The `run` command.

pub(super) mod jobs;
mod real;
pub(super) mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::Args;

use super::{concurrent, open, print};
use crate::cost::Shard;
use crate::experiment::{self, Experiment, Row};
use crate::library;
use crate::random::{self, Request, Set};
use crate::results::Given;
use jobs::Chosen;
use real::Real;
use session::{Order, Session};

#[derive(Debug, Args)]
pub(super) struct Run {
    /// Names of experiments, or files.
    #[arg(required_unless_present_any = ["all", "random", "chosen"])]
    ids: Vec<String>,
    /// Run all included experiments that have rows and run in virtual time.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Run random scenarios: the sets `training` (seeds 1 to 300) and `test` (seeds 1001 to 1300), or `any` with the
    /// seeds given by --seeds.
    #[arg(long, value_name = "SET", requires = "controllers")]
    #[arg(conflicts_with_all = ["ids", "all", "add", "quick", "real"])]
    random: Option<Set>,
    /// Congestion controllers in random scenarios, separated by commas; can be repeated.
    #[arg(short = 'C', long = "controller", value_name = "NAME,...")]
    controllers: Vec<String>,
    /// Add a choice to an axis of plain choices, such as `controller=vegas`; can be repeated.
    #[arg(long, value_name = "AXIS=CHOICE", value_parser = addition)]
    add: Vec<(String, String)>,
    /// Runs per cell, instead of the number in the experiment, or their seeds: A..B, both included. With --random, the
    /// seeds of the scenarios, each of which has one run; the default is the whole set.
    #[arg(long, value_name = "N|A..B")]
    seeds: Option<String>,
    /// Number of concurrent runs; the default is the number of processors, or 1 if an experiment runs in real time.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Make fewer runs: `quick-runs` of the experiment.
    #[arg(long, conflicts_with = "seeds")]
    quick: bool,
    /// Print one JSON object per row.
    #[arg(long)]
    json: bool,
    /// Exit with code 1 if a claim is not reproduced. Undecided claims and other rows do not count.
    #[arg(long)]
    strict: bool,
    /// Folder for results. Existing runs are not repeated.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a packet capture and a qlog of each flow's sender to this folder. Runs that exist are not repeated.
    #[arg(long, value_name = "DIR", conflicts_with = "real")]
    captures: Option<PathBuf>,
    /// Remove existing results of these experiments from the folder first.
    #[arg(long, requires = "out")]
    overwrite: bool,
    /// Make only this part of all runs, for `merge`: 2/5 is the second of five.
    #[arg(long, value_name = "I/N", requires = "out")]
    shard: Option<Shard>,
    /// Like --shard, but counted from 0 as in array jobs: 1/5 is the second of five.
    #[arg(long, value_name = "I/N", requires = "out", conflicts_with = "shard", value_parser = Shard::from_index)]
    shard_index: Option<Shard>,
    /// Make only this run, in the format of `longhaul-lab jobs`, for `merge`; can be repeated.
    #[arg(long = "run", value_name = "EXPERIMENT:CELL:SEED", requires = "out", value_parser = jobs::chosen)]
    #[arg(conflicts_with_all = ["all", "random", "shard", "shard_index", "at", "real"])]
    chosen: Vec<Chosen>,
    /// Continue in a folder with results of another program, which is otherwise refused.
    #[arg(long, requires = "out")]
    any_program: bool,
    /// Run over real sockets through the emulated link, one run at a time (Linux), and print the differences from
    /// virtual time. The default is one run per cell. Experiments with `real-time = true` run over real sockets
    /// without this option.
    #[arg(long, conflicts_with_all = ["all", "quick", "jobs", "shard", "shard_index"])]
    real: bool,
    /// Run only cells with this choice; can be repeated. Rows that need other cells are skipped.
    #[arg(long, value_name = "AXIS=CHOICE", value_parser = addition, conflicts_with_all = ["all", "shard", "shard_index"])]
    at: Vec<(String, String)>,
}

impl Run {
    pub(super) fn execute(&self) -> Result<bool> {
        Ok(self.all_well()? || !self.strict)
    }

    /// Runs the experiments. Returns false if a claim is not reproduced.
    fn all_well(&self) -> Result<bool> {
        // clap does not enforce `requires` for an option that conflicts with the given arguments.
        if self.random.is_none() && !self.controllers.is_empty() {
            bail!("-C is only for --random; `--add controller=NAME` adds a controller to an experiment");
        }
        let seeds = self.seeds.as_deref().filter(|_| self.random.is_none()).map(numbers).transpose()?;
        let runs = seeds.map(|(_, runs)| runs);
        // All files are read before the first run.
        let mut experiments = self.read()?;
        if let Some(dir) = &self.captures {
            for one in Arc::make_mut(&mut experiments) {
                let dir = dir.join(one.id());
                one.setups.iter_mut().for_each(|setup| setup.captures = Some(dir.clone()));
            }
        }
        experiments.iter().try_for_each(|one| runs.map_or(Ok(()), |runs| check_runs(one, runs)))?;
        if self.real {
            if seeds.is_some_and(|(first, _)| first != 1) {
                bail!("--seeds with --real is a number of runs");
            }
            return Real { asked: self, experiments: &experiments, seeds: runs.unwrap_or(1) }.execute();
        }
        let in_real_time = experiments.iter().any(|experiment| experiment.definition.real_time);
        let at_a_time = concurrent(self.jobs.or(in_real_time.then_some(1)))?;
        // All runs are executed here; the session judges and prints each experiment when its runs are complete.
        let usual = |one: &Experiment| if self.quick { one.definition.quick_runs } else { one.definition.runs };
        let first = seeds.map_or(1, |(first, _)| first);
        let numbers: Vec<u32> = experiments.iter().map(|one| runs.unwrap_or_else(|| usual(one))).collect();
        let order = Order {
            chosen: jobs::of(&self.chosen, &experiments, first, &numbers)?,
            first,
            given: if self.any_program { Given::AnyProgram } else { Given::OneProgram },
            cells: experiments.iter().map(|one| chosen_cells(one, &self.at)).collect::<Result<_>>()?,
            runs: numbers,
            out: self.out.as_deref(),
            overwrite: self.overwrite,
            shard: self.shard.or(self.shard_index),
            prints: true,
            json: self.json,
        };
        Session::new(order, experiments)?.run(at_a_time)
    }

    /// Returns the experiment on random scenarios.
    fn scenarios(&self, set: Set) -> Result<Experiment> {
        let seeds = self.seeds.as_deref().map(str::parse).transpose()?;
        let controllers = self.controllers.iter().flat_map(|names| random::names(names)).collect();
        let request = Request::new(set, seeds, controllers)?;
        Ok(Experiment::read(&request.id(), &random::text(&request))?)
    }

    /// Returns the experiments without duplicates.
    fn read(&self) -> Result<Arc<[Experiment]>> {
        if let Some(set) = self.random {
            return Ok([self.scenarios(set)?].into());
        }
        let ids = self.ids.iter().cloned().chain(self.chosen.iter().map(|run| run.experiment.clone())).collect();
        read(ids, self.all, &self.add)
    }
}

/// Reads a number of runs, or the first and the last seed: returns the first seed and the number of runs.
fn numbers(seeds: &str) -> Result<(u64, u32)> {
    if let Ok(runs) = seeds.parse::<u32>() {
        if runs == 0 {
            bail!("--seeds 0 measures nothing");
        }
        return Ok((1, runs));
    }
    let both = seeds.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let wrong = || anyhow!("--seeds {seeds}: neither a number of runs nor a range of seeds, such as 101..115");
    let (first, last): (u64, u64) = both.ok_or_else(wrong)?;
    // A seed is stored in JSON, whose readers support 53 bits.
    if first == 0 || last < first || last > 1 << 53 {
        bail!("--seeds {seeds}: a range begins with 1 at least, and does not end before it begins");
    }
    let runs = u32::try_from(last - first).ok().and_then(|more| more.checked_add(1));
    Ok((first, runs.ok_or_else(wrong)?))
}

/// Reads experiments, without duplicates: those with these names, or all that have rows and run in virtual time.
pub(super) fn read(mut ids: Vec<String>, all: bool, add: &[(String, String)]) -> Result<Arc<[Experiment]>> {
    if all {
        ids = library::FILES.iter().map(|(file, _)| file.trim_end_matches(".toml").to_owned()).collect();
    }
    let mut experiments: Vec<Experiment> = Vec::new();
    for id in &ids {
        let (file, text) = open(id)?;
        let mut experiment = Experiment::with_choices(&file, &text, add)?;
        if all && (experiment.rows.is_empty() || experiment.definition.real_time) {
            continue;
        }
        experiment.text = with_additions(add, text)?;
        match experiments.iter().find(|known| known.id() == experiment.id()) {
            None => experiments.push(experiment),
            Some(other) if other.text == experiment.text => {}
            Some(other) => bail!("{file}: another requested experiment also has the id {:?}", other.id()),
        }
    }
    Ok(experiments.into())
}

/// Checks that an experiment can have the number of runs given by `--seeds`.
pub(super) fn check_runs(experiment: &Experiment, runs: u32) -> Result<()> {
    let can_run = experiment::can_run(&experiment.definition, runs);
    can_run.map_err(|what| anyhow!("--seeds of {}: {what}", experiment.id()))
}

fn addition(text: &str) -> Result<(String, String), String> {
    let (axis, choice) = text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form AXIS=CHOICE"))?;
    Ok((axis.into(), choice.into()))
}

/// Adds choices to the text of an experiment, because they are part of the experiment and are stored with its
/// results. A text that already has `add` loses its comments.
fn with_additions(additions: &[(String, String)], text: String) -> Result<String> {
    let mut axes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (axis, choice) in additions {
        axes.entry(axis).or_default().push(choice);
    }
    if axes.is_empty() {
        return Ok(text);
    }
    let mut table: toml::Table = text.parse()?;
    let Some(own) = table.get_mut("add").and_then(toml::Value::as_table_mut) else {
        let added: Vec<String> = axes.iter().map(|(axis, choices)| format!("{axis:?} = {choices:?}")).collect();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        return Ok(format!("add = {{ {} }}\n{text}", added.join(", ")));
    };
    for (axis, choices) in axes {
        let known = own.entry(axis).or_insert_with(|| toml::Value::Array(Vec::new()));
        let Some(known) = known.as_array_mut() else { continue };
        known.extend(choices.into_iter().map(|choice| toml::Value::String(choice.into())));
    }
    Ok(toml::to_string(&table)?)
}

/// Returns the cells that `--at` selects.
pub(super) fn chosen_cells(experiment: &Experiment, at: &[(String, String)]) -> Result<BTreeSet<usize>> {
    experiment.cells_at(at).map_err(|what| anyhow!("--at {what}"))
}

/// Returns whether a row needs only these cells.
pub(super) fn suffice(cells: &BTreeSet<usize>, row: &Row, experiment: &Experiment) -> bool {
    let Some(judged) = &row.judged else { return true };
    let bases = experiment.relatives.get(judged.metric).and_then(Option::as_ref).map(|relative| &relative.bases);
    let has = |cell: &usize| cells.contains(cell) && bases.is_none_or(|bases| cells.contains(&bases[*cell]));
    judged.cells.iter().all(has)
}

/// Prints how many rows were skipped.
pub(super) fn tell_left_out(experiment: &Experiment, rows: usize) {
    if rows > 0 {
        print::note(&format!("{}: rows skipped because they need other cells: {rows}", experiment.id()));
    }
}

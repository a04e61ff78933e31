//! The `scorecard` command.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use super::run::check_runs;
use super::run::session::{Order, Session};
use super::{concurrent, open, print};
use crate::card::{self, CONTROLLER, ORDER, Part};
use crate::experiment::Experiment;
use crate::library;
use crate::random::{self, Request, Seeds, Set};
use crate::record::Record;
use crate::results::Given;
use crate::results::{Results, differ_in_axes_only, write};
use crate::table::Measured;

/// Name of the part with random scenarios, its default scenarios, and its default number of runs per cell.
const RANDOM: &str = "random";
const SCENARIOS: [&str; 2] = ["test:1001..1150", "changing-test:3001..3040"];
const RANDOM_RUNS: u32 = 3;
/// Approximate number of packets that a processor simulates per second in an optimised build.
const SPEED: f64 = 600_000.0;

#[derive(Debug, Args)]
pub(super) struct Scorecard {
    /// Congestion controllers, separated by commas; can be repeated. The others are compared with the first one.
    #[arg(short = 'C', long = "controller", value_name = "NAME,...", required = true)]
    controllers: Vec<String>,
    /// Run only this part: `random`, or an experiment or file with `[[card]]` sections; can be repeated.
    #[arg(long = "part", value_name = "NAME")]
    parts: Vec<String>,
    /// Random scenarios: a set of `run --random` and its seeds; can be repeated.
    #[arg(long, value_name = "SET[:A..B]", default_values = SCENARIOS)]
    scenarios: Vec<String>,
    /// Runs per cell, instead of the number of each part.
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// Make one run per cell, so that only random scenarios have intervals.
    #[arg(long, conflicts_with = "seeds")]
    quick: bool,
    /// Number of concurrent runs; the default is the number of processors.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print one JSON object per part.
    #[arg(long)]
    json: bool,
    /// Folder for the results and the page, `scorecard.md`. Existing runs are not repeated.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Take the runs of all controllers but the first from this folder of an earlier scorecard, if it contains them.
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Remove existing results of these experiments from the folder first.
    #[arg(long, requires = "out")]
    overwrite: bool,
}

impl Scorecard {
    pub(super) fn execute(&self) -> Result<()> {
        let names: Vec<String> = self.controllers.iter().flat_map(|names| random::names(names)).collect();
        let requests = self.scenarios.iter().map(|scenarios| self.request(scenarios, &names));
        let requests = requests.collect::<Result<Vec<Request>>>()?;
        let experiments: Arc<[Experiment]> = self.experiments(&names, &requests)?.into();
        let runs: Vec<u32> = experiments.iter().map(|experiment| self.runs(experiment)).collect();
        for (experiment, runs) in experiments.iter().zip(&runs) {
            check_runs(experiment, *runs)?;
        }
        let at_a_time = concurrent(self.jobs)?;
        let order = Order {
            cells: experiments.iter().map(|experiment| card::cells(experiment, &names)).collect(),
            first: 1,
            runs: runs.clone(),
            chosen: Vec::new(),
            given: Given::OneProgram,
            out: self.out.as_deref(),
            overwrite: self.overwrite,
            shard: None,
            prints: false,
            json: self.json,
        };
        let mut session = Session::new(order, Arc::clone(&experiments))?;
        if let Some(base) = &self.base {
            take(&mut session, &experiments, &Results::read(base)?, &names[0])?;
        }
        let (left, cost) = session.left();
        if left > 0 {
            let seconds = cost as f64 / SPEED / at_a_time.min(left) as f64;
            print::note(&format!("{left} runs, about {}", print::duration(seconds)));
        }
        let records = session.records(at_a_time)?;
        let mut parts = Vec::new();
        for ((experiment, records), runs) in experiments.iter().zip(&records).zip(&runs) {
            let measured = Measured::new(experiment, records, *runs);
            let lines = experiment.cards.iter().map(|card| card.lines(&measured, &names));
            let lines =
                lines.collect::<Result<Vec<_>, String>>().map_err(|what| anyhow!("{}: {what}", experiment.id()))?;
            let [part, title] = [experiment.id(), &experiment.definition.title].map(str::to_owned);
            parts.push(Part { part, title, runs: *runs, lines: lines.concat() });
        }
        self.tell(&names, &parts)
    }

    /// Prints the card, and writes the page.
    fn tell(&self, names: &[String], parts: &[Part]) -> Result<()> {
        let counts = card::counts(parts);
        for part in parts {
            print::out(&if self.json {
                serde_json::to_string(part)?
            } else {
                format!("{}\n{}", part.heading(), part.grid().columns())
            })?;
        }
        if !self.json {
            print::out(&counts.join("\n"))?;
        }
        let Some(folder) = &self.out else { return Ok(()) };
        let mut text = format!("# Scorecard: {}\n\n", names.join(", "));
        text += &counts.iter().map(|line| format!("* {line}\n")).collect::<String>();
        text += &parts
            .iter()
            .map(|part| format!("\n## {}\n\n{}", part.heading(), part.grid().markdown("")))
            .collect::<String>();
        let page = folder.join("scorecard.md");
        write::whole(&page, text.as_bytes())?;
        print::note(&format!("the page: {}", page.display()));
        Ok(())
    }

    fn request(&self, scenarios: &str, names: &[String]) -> Result<Request> {
        let (set, seeds) = match scenarios.split_once(':') {
            Some((set, seeds)) => (set, Some(seeds.parse::<Seeds>()?)),
            None => (scenarios, None),
        };
        let runs = if self.quick { 1 } else { self.seeds.unwrap_or(RANDOM_RUNS) };
        Ok(Request::new(set.parse::<Set>()?, seeds, names.to_vec())?.repeated(runs))
    }

    fn runs(&self, experiment: &Experiment) -> u32 {
        if self.quick { 1 } else { self.seeds.unwrap_or_else(|| card::runs(experiment)) }
    }

    /// Returns the requested parts, or all.
    fn experiments(&self, names: &[String], requests: &[Request]) -> Result<Vec<Experiment>> {
        let mut ids = self.parts.clone();
        if ids.is_empty() {
            let others = library::FILES.iter().filter(|(_, text)| text.contains("[[card]]"));
            let others = others.map(|(file, _)| file.trim_end_matches(".toml"));
            ids.extend([RANDOM].into_iter().chain(others).map(str::to_owned));
            ids.sort_by_key(|id| ORDER.iter().position(|known| known == id).unwrap_or(ORDER.len()));
        }
        let mut texts = Vec::new();
        for id in &ids {
            match id.as_str() {
                RANDOM => texts.extend(requests.iter().map(|request| (request.id(), random::text(request)))),
                _ => texts.push(open(id)?),
            }
        }
        let mut known = BTreeSet::new();
        let mut experiments = Vec::new();
        for (file, text) in texts {
            let experiment = Experiment::read(&file, &card::choose(&text, names).with_context(|| file.clone())?)?;
            if !known.insert(experiment.id().to_owned()) {
                bail!("{file}: another part also has the id {:?}", experiment.id());
            }
            experiments.push(experiment);
        }
        Ok(experiments)
    }
}

/// Takes the runs of equal cells from a folder, except those of the controller `first`.
fn take(session: &mut Session<'_>, experiments: &[Experiment], base: &Results, first: &str) -> Result<()> {
    for (nth, experiment) in experiments.iter().enumerate() {
        let held = base.find(experiment.id());
        let Some(held) = held.filter(|held| differ_in_axes_only(&held.experiment.text, &experiment.text)) else {
            continue;
        };
        for (cell, at) in experiment.cells.iter().enumerate() {
            if experiment.choices_of(cell).any(|(axis, choice)| axis == CONTROLLER && choice == first) {
                continue;
            }
            let like = held.experiment.cells.iter().position(|other| other.is_like(at));
            for record in held.records.iter().filter(|record| Some(record.cell) == like) {
                session.take(nth, Record { cell, ..record.clone() })?;
            }
        }
    }
    Ok(())
}

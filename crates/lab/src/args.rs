//! The command line.

mod adversary;
mod compare;
mod print;
mod report;
mod run;
mod scorecard;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, thread};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Parser, Subcommand};

use crate::experiment::Experiment;
use crate::library;
use crate::plot::Chart;
use crate::results::{self, Given, Results};
use crate::runner::Interrupted;
use crate::speed::{self, Point};
use crate::stack::{self, Stack};

/// Runs experiments on transport protocols in virtual time and judges the results, row by row, by the rules for each
/// claim of a paper.
#[derive(Debug, Parser)]
#[command(name = "longhaul-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the included experiments.
    List,
    /// Prints the file of an experiment.
    Show {
        /// Name of an experiment, or a file.
        id: String,
    },
    /// Runs experiments.
    Run(run::Run),
    /// Lists the runs of experiments with their expected costs, for `run --run`.
    Jobs(run::jobs::Jobs),
    /// Merges the folders of the parts of a sweep and judges it. The exit code is 1 if runs are missing.
    Merge(Merge),
    /// Summarizes a folder of results.
    Report(report::Report),
    /// Packs a folder of results for a repository of research data.
    Pack {
        /// Folder of results with all of their runs.
        dir: PathBuf,
        /// Tar archive to write.
        archive: PathBuf,
    },
    /// Compares two folders of results. The exit code is 1 if a row is reproduced in the first folder, but not in the
    /// second.
    Compare(compare::Compare),
    /// Compares congestion controllers over random scenarios and other experiments, with intervals, on one page.
    Scorecard(scorecard::Scorecard),
    /// Draws a file of measurements against time, and prints the SVG file.
    Chart(Draw),
    /// Searches delays, losses and bunched ACKs that starve a flow or fill its queue.
    Adversary(adversary::Adversary),
    /// Measures the simulation speed of this machine: CUBIC over a dumbbell, by number of flows, rate and number of
    /// processors.
    Speed(Speed),
}

/// Executes the command line.
#[must_use]
pub fn main() -> ExitCode {
    main_with(Vec::new())
}

/// Executes the command line of a program that adds these transport stacks.
#[must_use]
pub fn main_with(stacks: Vec<Box<dyn Stack>>) -> ExitCode {
    stack::register(stacks);
    let registered = longhaul_zoo::register().map_err(anyhow::Error::from);
    match registered.and_then(|()| Cli::parse().command.execute()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            print::note(&format!("longhaul-lab: {error:#}"));
            // The exit code of a program interrupted by SIGINT, in shells: 128 + 2.
            ExitCode::from(if error.is::<Interrupted>() { 130 } else { 2 })
        }
    }
}

impl Command {
    /// Executes the command. Returns false for the exit code 1.
    fn execute(self) -> Result<bool> {
        match self {
            Self::List => list().map(|()| true),
            Self::Show { id } => {
                let (_, text) = open(&id)?;
                print::text(&text)?;
                Ok(true)
            }
            Self::Run(run) => run.execute(),
            Self::Jobs(jobs) => jobs.execute().map(|()| true),
            Self::Merge(merge) => merge.execute(),
            Self::Report(report) => report.execute(),
            Self::Pack { dir, archive } => {
                let files = results::pack(&Results::read(&dir)?, &archive)?;
                print::out(&format!("{}: {files} files", archive.display()))?;
                Ok(true)
            }
            Self::Compare(compare) => compare.execute(),
            Self::Scorecard(scorecard) => scorecard.execute().map(|()| true),
            Self::Chart(chart) => chart.execute().map(|()| true),
            Self::Adversary(adversary) => adversary.execute().map(|()| true),
            Self::Speed(speed) => speed.execute().map(|()| true),
        }
    }
}

fn list() -> Result<()> {
    let width = print::width();
    for (file, text) in library::FILES {
        let Experiment { definition, cells, .. } = Experiment::read(file, text)?;
        let runs = cells.len() * definition.runs as usize;
        let (id, title, source) = (definition.id.get_ref(), &definition.title, &definition.source);
        print::out(&print::entry(id, &format!("{title} ({runs} runs; {source})"), width))?;
    }
    Ok(())
}

/// Returns the file name and text of an included experiment or of the user's file.
fn open(id: &str) -> Result<(String, String)> {
    if let Some((file, text)) = library::find(id) {
        return Ok((file.into(), text.into()));
    }
    if !id.contains(['/', '.']) {
        bail!("there is no experiment {id:?}; `longhaul-lab list` shows them, and a file needs a path");
    }
    let bytes = fs::read(PathBuf::from(id)).with_context(|| id.to_owned())?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let sound = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..sound].iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow!("{id}:{line}: the text is not UTF-8")
    })?;
    Ok((id.into(), text))
}

#[derive(Debug, Args)]
struct Draw {
    /// JSON file of the measurements.
    file: PathBuf,
}

impl Draw {
    fn execute(&self) -> Result<()> {
        let name = || self.file.display().to_string();
        let text = fs::read_to_string(&self.file).with_context(name)?;
        let chart: Chart = serde_json::from_str(&text).with_context(name)?;
        print::text(&chart.draw())
    }
}

#[derive(Debug, Args)]
struct Merge {
    /// Folder for the whole sweep: a new one, or the result of an earlier merge.
    out: PathBuf,
    /// Folders of the parts.
    #[arg(required = true, value_name = "DIR")]
    parts: Vec<PathBuf>,
    /// Print one JSON object per row.
    #[arg(long)]
    json: bool,
    /// Merge results of different programs, which are otherwise refused.
    #[arg(long)]
    any_program: bool,
    /// Also exit with code 1 if a claim is not reproduced.
    #[arg(long)]
    strict: bool,
}

impl Merge {
    fn execute(&self) -> Result<bool> {
        let given = if self.any_program { Given::AnyProgram } else { Given::OneProgram };
        results::merge(&self.out, &self.parts, given)?;
        let (results, mut all_well) = (Results::read(&self.out)?, true);
        for held in &results.experiments {
            if let Some(rows) = held.rows() {
                all_well &= print::rows(&rows, self.json)? || !self.strict;
            } else {
                all_well = false;
                let (id, ended, all) = (held.id(), held.records.len(), held.all());
                print::note(&format!("{id}: {ended} of {all} runs exist, so that no row is judged"));
            }
        }
        let page = results::illustrate(&results)?;
        print::note(&format!("pictures and rows: {}", page.display()));
        Ok(all_well)
    }
}

#[derive(Debug, Args)]
struct Speed {
    /// Approximate processor seconds per run.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Maximum number of processors; the default is all.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print one JSON object per measurement instead of a table.
    #[arg(long)]
    json: bool,
}

impl Speed {
    fn execute(&self) -> Result<()> {
        if !(self.seconds > 0.0 && self.seconds <= 3600.0) {
            bail!("--seconds {} is not within 0 to 3600", self.seconds);
        }
        let most = concurrent(self.jobs)?;
        let points = speed::measure(self.seconds, most)?;
        if self.json {
            return points.iter().try_for_each(|point| print::out(&serde_json::to_string(point)?));
        }
        let cores: Vec<String> = (1..=most).map(|cores| format!("{cores} at a time |")).collect();
        print::out(&format!("| flows | Mb/s | {}", cores.join(" ")))?;
        print::out(&format!("|---:|---:|{}", "---:|".repeat(most)))?;
        for line in points.chunks(most) {
            let Some(Point { flows, mbps, .. }) = line.first() else { continue };
            let speeds: Vec<String> = line.iter().map(|point| format!("{} |", short(point.speed))).collect();
            print::out(&format!("| {flows} | {mbps} | {}", speeds.join(" ")))?;
        }
        Ok(())
    }
}

/// Returns the number of concurrent runs, which is that of processors by default.
fn concurrent(jobs: Option<usize>) -> Result<usize> {
    match jobs {
        Some(0) => bail!("--jobs 0 runs nothing"),
        Some(jobs) => Ok(jobs),
        None => Ok(thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// Formats a number with three significant digits.
fn short(speed: f64) -> String {
    match speed {
        speed if speed >= 100.0 => {
            let digits = 10_f64.powi(speed.log10().floor() as i32 - 2);
            format!("{:.0}", (speed / digits).round() * digits)
        }
        speed if speed >= 10.0 => format!("{speed:.1}"),
        speed => format!("{speed:.2}"),
    }
}

//! The command line.

mod chart;
mod compare;
mod merge;
mod print;
mod progress;
mod report;
mod run;
mod speed;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, Subcommand};

use crate::experiment::Experiment;
use crate::library;
use crate::runner::RunError;

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
    /// Runs experiments. The exit code is 1 if a row is not reproduced.
    Run(run::Run),
    /// Merges the folders of the parts of a sweep and judges it. The exit code is 1 if a row is not reproduced or
    /// runs are missing.
    Merge(merge::Merge),
    /// Summarizes a folder of results. The exit code is 1 if a row is not reproduced.
    Report(report::Report),
    /// Compares two folders of results. The exit code is 1 if a row is reproduced in the first folder, but not in the
    /// second.
    Compare(compare::Compare),
    /// Draws a file of measurements against time, and prints the SVG file.
    Chart(chart::Draw),
    /// Measures the simulation speed of this machine: CUBIC over a dumbbell, by number of flows, rate and number of
    /// processors.
    Speed(speed::Speed),
}

/// Executes the command line.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command.execute() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            print::note(&format!("longhaul-lab: {error:#}"));
            // The exit code of a program interrupted by SIGINT, in shells: 128 + 2.
            let is_interrupted = matches!(error.downcast_ref(), Some(RunError::Interrupted));
            ExitCode::from(if is_interrupted { 130 } else { 2 })
        }
    }
}

impl Command {
    /// Executes the command. Returns false if a row is not reproduced or cannot be judged.
    fn execute(self) -> Result<bool> {
        match self {
            Self::List => list().map(|()| true),
            Self::Show { id } => {
                let (_, text) = open(&id)?;
                print::text(&text)?;
                Ok(true)
            }
            Self::Run(run) => run.execute(),
            Self::Merge(merge) => merge.execute(),
            Self::Report(report) => report.execute(),
            Self::Compare(compare) => compare.execute(),
            Self::Chart(chart) => chart.execute().map(|()| true),
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

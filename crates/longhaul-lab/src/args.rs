//! The command line.

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

/// Runs experiments on transport protocols in virtual time, and judges them row by row by what a paper says.
#[derive(Debug, Parser)]
#[command(name = "longhaul-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The experiments there are.
    List,
    /// An experiment's file.
    Show {
        /// Its name, or a file.
        id: String,
    },
    /// Runs experiments. Exit code 1 if a row is not reproduced.
    Run(run::Run),
    /// Joins folders of the parts of a sweep, and judges it. Exit code 1 if a row is not reproduced, or runs are missing.
    Merge(merge::Merge),
    /// What a folder of results comes to. Exit code 1 if a row is not reproduced.
    Report(report::Report),
    /// What got better or worse from one folder to another. Exit code 1 if a row that was reproduced no longer is.
    Compare(compare::Compare),
    /// How fast this machine simulates: CUBIC over a dumbbell, by flows, rates and processors.
    Speed(speed::Speed),
}

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command.execute() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("longhaul-lab: {error:#}");
            // Of programs that a signal interrupts a shell says 128 and the signal.
            let is_interrupted = matches!(error.downcast_ref(), Some(RunError::Interrupted));
            ExitCode::from(if is_interrupted { 130 } else { 2 })
        }
    }
}

impl Command {
    /// Whether all went as the papers say.
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
            Self::Speed(speed) => speed.execute().map(|()| true),
        }
    }
}

fn list() -> Result<()> {
    for (file, text) in library::FILES {
        let Experiment { definition, cells, .. } = Experiment::read(file, text)?;
        let runs = cells.len() * definition.runs as usize;
        let (id, title, source) = (definition.id.get_ref(), &definition.title, &definition.source);
        print::out(&format!("{id:<24} {title} ({runs} runs; {source})"))?;
    }
    Ok(())
}

/// The file of an experiment that comes with the program, or of the user's.
fn open(id: &str) -> Result<(String, String)> {
    let own = library::FILES.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(id));
    if let Some((file, text)) = own {
        return Ok(((*file).into(), (*text).into()));
    }
    if !id.contains(['/', '.']) {
        bail!("there is no experiment {id:?}; `longhaul-lab list` names them, and a file is named by a path");
    }
    let bytes = fs::read(PathBuf::from(id)).with_context(|| id.to_owned())?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let sound = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..sound].iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow!("{id}:{line}: the text is no UTF-8")
    })?;
    Ok((id.into(), text))
}

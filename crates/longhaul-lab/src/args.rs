//! The command line.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::experiment::Experiment;
use crate::judge::{self, Judged, Numbers};
use crate::library;
use crate::rule::Verdict;
use crate::runner::{self, Effort};

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
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// Their names, or files.
    #[arg(required_unless_present = "all")]
    ids: Vec<String>,
    /// All there are.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Runs of each cell, instead of the experiment's own number.
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// Runs at a time; all processors by default.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Fewer runs.
    #[arg(long, conflicts_with = "seeds")]
    quick: bool,
    /// One object a row on standard output.
    #[arg(long)]
    json: bool,
}

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command.execute() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("longhaul-lab: {error:#}");
            ExitCode::from(2)
        }
    }
}

impl Command {
    /// Whether all went as the papers say.
    fn execute(self) -> Result<bool> {
        match self {
            Self::List => {
                for (file, text) in library::FILES {
                    let Experiment { definition, cells, .. } = Experiment::read(file, text)?;
                    let runs = cells.len() * definition.runs as usize;
                    println!(
                        "{:<24} {} ({runs} runs; {})",
                        definition.id.get_ref(),
                        definition.title,
                        definition.source
                    );
                }
                Ok(true)
            }
            Self::Show { id } => {
                let (_, text) = open(&id)?;
                print!("{text}");
                Ok(true)
            }
            Self::Run(run) => run.execute(),
        }
    }
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
    let text = fs::read_to_string(PathBuf::from(id)).with_context(|| id.to_owned())?;
    Ok((id.into(), text))
}

impl Run {
    fn execute(&self) -> Result<bool> {
        let ids: Vec<String> = if self.all {
            library::FILES.iter().map(|(file, _)| file.trim_end_matches(".toml").to_owned()).collect()
        } else {
            self.ids.clone()
        };
        // All are read before the first runs.
        let experiments: Vec<Experiment> = ids
            .iter()
            .map(|id| {
                let (file, text) = open(id)?;
                Ok(Experiment::read(&file, &text)?)
            })
            .collect::<Result<_>>()?;
        let mut all = true;
        for experiment in &experiments {
            for row in self.one(experiment)? {
                all &= row.verdict != Verdict::NotReproduced;
                if self.json {
                    println!("{}", serde_json::to_string(&row)?);
                } else {
                    println!("{}", line(&row));
                }
            }
        }
        Ok(all)
    }

    fn one(&self, experiment: &Experiment) -> Result<Vec<Judged>> {
        let definition = &experiment.definition;
        let usual = if self.quick { definition.quick_runs } else { definition.runs };
        let runs = self.seeds.unwrap_or(usual);
        if runs == 0 {
            bail!("--seeds 0 measures nothing");
        }
        let jobs = self.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let is_watched = io::stderr().is_terminal();
        let tell = |ended: usize, all: usize| {
            if is_watched {
                let end = if ended == all { "\n" } else { "" };
                let _ = write!(io::stderr(), "\r{}: {ended} of {all} runs{end}", definition.id.get_ref());
            }
        };
        let results = runner::run(experiment, Effort { runs, jobs }, tell)?;
        Ok(judge::judge(experiment, &results, runs))
    }
}

fn line(row: &Judged) -> String {
    let verdict = match row.verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::NotReproduced => "NOT reproduced",
        Verdict::NotReproducible => "not reproducible",
    };
    let mut line = format!("{:<14} {verdict:<16}", row.row);
    if row.verdict != Verdict::NotReproducible {
        line += &format!(" {} {} (paper {}), {}", words(&row.ours), row.unit, words(&row.paper), row.rule);
    }
    if !row.reason.is_empty() {
        line += &format!(": {}", row.reason);
    }
    line
}

fn words(numbers: &Numbers) -> String {
    let one = |number: &Option<f64>| match number {
        None => "-".to_owned(),
        Some(number) if number.abs() >= 1000.0 => format!("{number:.0}"),
        Some(number) => format!("{number:.3}"),
    };
    match numbers {
        Numbers::One(number) => one(number),
        Numbers::Many(numbers) => numbers.iter().map(one).collect::<Vec<_>>().join(" > "),
    }
}

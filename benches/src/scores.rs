//! The bench `scores`: the standard scenarios, and the pages that say what came out. What it measures is said in
//! `benches/scores.rs`.

mod columns;
mod pages;

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use longhaul_sim::{Plan, Setup, Sim};
use serde::Serialize;

use crate::emulated::{completion, read, seconds};
use crate::generated::{Mode, Task, settle};
use crate::parallel::in_parallel;
use crate::report::write_json;
use crate::stats::Spread;
use crate::subjects::{self, Subject};
use columns::{Column, Measure, SPAN};

/// Runs of what has chance in it.
const SEEDS: u64 = 3;
/// How the documentation is written.
const COMMAND: &str = "cargo bench --bench scores -- --write";

/// What a composition scores: a text for each column, empty where it was not measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    /// The composition.
    name: String,
    /// Its pages.
    pages: Vec<&'static str>,
    cells: Vec<String>,
}

/// Runs the bench. `target_tmpdir`: see [`write_json`].
///
/// # Errors
/// An unknown argument or name, results or pages that cannot be written, or pages that say something else.
pub fn main(target_tmpdir: &str) -> Result<()> {
    let task = Task::from_args()?;
    let (subjects, is_part) = subjects::chosen(subjects::all()?)?;
    let columns = columns::all();
    if is_part && task.mode != Mode::Print {
        bail!("a choice of controllers is for printing; --write and --check are about all of them");
    }
    let rows = measure(&subjects, &columns, task.is_quick);
    print!("{}", pages::whole_table(&rows, &columns));
    if !task.is_quick {
        write_json(target_tmpdir, "scores.json", &rows)?;
    }
    if task.mode == Mode::Print {
        return Ok(());
    }
    document(rows, &columns, task)
}

/// Writes the pages or compares them; cells that were not measured are as they stand there.
fn document(mut rows: Vec<Row>, columns: &[Column], task: Task) -> Result<()> {
    if task.is_quick {
        pages::fill_in(&mut rows, columns.len())?;
    }
    settle(&pages::render(&rows, columns)?, task.mode, COMMAND)
}

fn measure(subjects: &[Subject], columns: &[Column], is_quick: bool) -> Vec<Row> {
    let mut runs = Vec::new();
    for subject in 0..subjects.len() {
        for (number, column) in columns.iter().enumerate().filter(|(_, column)| column.is_quick || !is_quick) {
            let seeds = if column.has_chance() { SEEDS } else { 1 };
            runs.extend((0..seeds).map(|seed| (subject, number, seed)));
        }
    }
    println!("{} compositions, {} runs", subjects.len(), runs.len());
    let values = in_parallel(&runs, |&(subject, column, seed)| {
        let value = subjects.get(subject).zip(columns.get(column));
        value.map_or(f64::NAN, |(subject, column)| run(subject, column, seed))
    });
    let mut cells: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for ((subject, column, _), value) in runs.into_iter().zip(values) {
        cells.entry((subject, column)).or_default().push(value);
    }
    let text = |subject, (number, column): (usize, &Column)| {
        let values = cells.get(&(subject, number)).cloned();
        values.map_or_else(String::new, |values| column.text(Spread::of(values).median))
    };
    (subjects.iter().enumerate())
        .map(|(number, subject)| Row {
            name: subject.name.clone(),
            pages: subject.pages.clone(),
            cells: columns.iter().enumerate().map(|column| text(number, column)).collect(),
        })
        .collect()
}

/// One transfer of one flow: Mb/s, seconds or milliseconds, as the column has it.
fn run(subject: &Subject, column: &Column, seed: u64) -> f64 {
    let setup = Setup::pair(seed + 1, column.links.clone());
    let mut sim = Sim::new(setup.under(&subject.congestion));
    if let Measure::Completion(size) = column.measure {
        return completion(&mut sim, size).unwrap_or(f64::INFINITY);
    }
    let (_, receiver) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    sim.run_for(SPAN);
    match column.measure {
        Measure::QueueP95 => seconds(sim.link(0).stats().all().sojourn.quantile(0.95)) * 1e3,
        _ => read(&sim, receiver) as f64 * 8e-6 / seconds(SPAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is quick of it is measured again, so that no law changes without its page.
    #[test]
    fn the_pages_say_what_is_measured() {
        let (subjects, columns) = (subjects::all().unwrap(), columns::all());
        let rows = measure(&subjects, &columns, true);
        document(rows, &columns, Task { mode: Mode::Check, is_quick: true }).unwrap();
    }

    /// Without loss and with a queue the law matters little: both have most of what the link carries.
    #[test]
    fn a_clean_link_is_filled() {
        let subjects: Vec<_> =
            subjects::all().unwrap().into_iter().filter(|s| s.name == "cubic" || s.name == "bbr").collect();
        let column = columns::all().into_iter().find(|column| column.head == "deep").unwrap();
        let goodput = Column { measure: Measure::Goodput, ..column };
        for subject in subjects {
            let value = run(&subject, &goodput, 0);
            assert!(value > 0.9 * goodput.limit().unwrap() && value <= goodput.limit().unwrap(), "{value}");
        }
    }
}

//! Every controller of the registry over a matrix of paths, in virtual time. Each transfer must arrive without
//! errors, keep its window within bounds, have few timeouts, and end within its time in `bounds.txt`.
//!
//! A bound is the time of the transfer when the table was made, plus 20 %, so that a run that is 30 % slower fails.
//! Runs are deterministic for a seed. For paths with random behaviour, the mean over several seeds counts. `cargo
//! test -p longhaul-tests --test scenarios -- --nocapture` prints the times, and with LONGHAUL_BOUNDS set, the
//! resulting table. A controller that is not in the table has the bounds of the row `others`.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod paths;
mod run;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use longhaul_units::Span;
use paths::{SCENARIOS, Scenario};
use run::{controllers, transfer};

/// Longer than any bound.
const LIMIT: Span = Span::from_secs(900);

/// Bounds in seconds by controller and scenario.
static BOUNDS: &str = include_str!("bounds.txt");

type Row<'a> = HashMap<&'a str, f64>;

fn bounds() -> HashMap<&'static str, Row<'static>> {
    let mut lines = BOUNDS.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<_> = lines.next().unwrap().split_whitespace().skip(1).collect();
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        let controller = words.next().unwrap();
        let bound = |word: &str| word.parse().unwrap_or_else(|_| panic!("{word}: no bound"));
        (controller, names.iter().copied().zip(words.map(bound)).collect())
    };
    lines.map(row).collect()
}

/// Returns the mean time of a transfer, and the faults of all runs.
fn cell(controller: &str, scenario: &Scenario) -> (Option<f64>, Vec<String>) {
    let (mut sum, mut faults) = (Some(0.0), Vec::new());
    for seed in 1..=scenario.seeds {
        let outcome = transfer(controller, scenario, seed, LIMIT);
        sum = sum.zip(outcome.seconds).map(|(sum, seconds)| sum + seconds);
        faults.extend(outcome.faults.into_iter().map(|fault| format!("seed {seed}: {fault}")));
    }
    (sum.map(|sum| sum / scenario.seeds as f64), faults)
}

/// Computes all cells, in order, on all processors.
fn matrix(controllers: &[String]) -> Vec<(Option<f64>, Vec<String>)> {
    let cells: Vec<_> = controllers.iter().flat_map(|c| SCENARIOS.iter().map(move |s| (c.as_str(), s))).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let number = next.fetch_add(1, Ordering::Relaxed)
                    && let Some((controller, scenario)) = cells.get(number)
                {
                    let outcome = cell(controller, scenario);
                    done.lock().unwrap().push((number, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn write_row(table: &mut String, name: &str, words: impl Iterator<Item = String>) {
    write!(table, "{name:20}").unwrap();
    words.for_each(|word| write!(table, "{word:>11}").unwrap());
    table.push('\n');
}

#[test]
fn every_controller_finishes_in_time_on_every_path() {
    let controllers = controllers();
    let (bounds, cells) = (bounds(), matrix(&controllers));
    let factor = if std::env::var_os("LONGHAUL_BOUNDS").is_some() { 1.2 } else { 1.0 };
    let (mut table, mut wrong) = (String::new(), Vec::new());
    write_row(&mut table, "seconds", SCENARIOS.iter().map(|scenario| scenario.name.to_owned()));
    for (controller, row) in controllers.iter().zip(cells.chunks(SCENARIOS.len())) {
        let words = row.iter().map(|(seconds, _)| seconds.map_or("-".to_owned(), |s| format!("{:.2}", s * factor)));
        write_row(&mut table, controller, words);
        let allowed = bounds.get(controller.as_str()).unwrap_or(&bounds["others"]);
        for (scenario, (seconds, faults)) in SCENARIOS.iter().zip(row) {
            let name = scenario.name;
            let bound = allowed.get(name).unwrap_or_else(|| panic!("no bound for {controller} over {name}"));
            wrong.extend(faults.iter().map(|fault| format!("{controller} over {name}: {fault}")));
            if seconds.is_none_or(|seconds| seconds > *bound) {
                wrong.push(format!("{controller} over {name}: {seconds:?} s, the bound is {bound:?} s"));
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

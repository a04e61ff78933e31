//! Every controller of the registry over a matrix of paths, in virtual time. Each transfer must arrive without errors,
//! keep its window within bounds, have few timeouts, and complete within its time in `bounds.txt`.
//!
//! A bound is the completion time when the table was made, plus 20 %, so that a run that is 30 % slower fails. Runs are
//! deterministic for a seed. For paths with random behaviour, the mean over several seeds counts. `LONGHAUL_BOUNDS=1
//! cargo test -p longhaul-tests-papers --test registry scenarios:: -- --test-threads 1` prints the row of each
//! controller. The bounds of the row `others` apply to controllers without a row.

mod paths;
mod run;

use std::collections::HashMap;
use std::env;
use std::fmt::Write;
use std::sync::LazyLock;

use libtest_mimic::Trial;
use longhaul_units::Span;
use paths::{SCENARIOS, Scenario};
use run::{controllers, transfer};

/// Maximum time of a transfer, longer than any bound.
const LIMIT: Span = Span::from_secs(900);

/// Name of the row for controllers without a row of their own.
const OTHERS: &str = "others";

/// Bounds in seconds by controller and scenario.
static BOUNDS: LazyLock<HashMap<&'static str, Row>> = LazyLock::new(bounds);

type Row = HashMap<&'static str, f64>;

fn bounds() -> HashMap<&'static str, Row> {
    let mut lines = include_str!("scenarios/bounds.txt").lines().filter(|line| !line.starts_with('#'));
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

/// Returns the row of the table for these times: each bound is the time plus 20 %.
fn row(name: &str, times: impl Iterator<Item = Option<f64>>) -> String {
    let mut row = format!("{name:20}");
    for time in times {
        let word = time.map_or("-".to_owned(), |seconds| format!("{:.2}", seconds * 1.2));
        write!(row, "{word:>11}").unwrap();
    }
    row
}

/// Runs a transfer over every path, and panics with all faults.
fn finish_in_time(controller: &str) {
    let cells: Vec<_> = SCENARIOS.iter().map(|scenario| cell(controller, scenario)).collect();
    if env::var_os("LONGHAUL_BOUNDS").is_some() {
        println!("{}", row(controller, cells.iter().map(|(seconds, _)| *seconds)));
    }
    let allowed = BOUNDS.get(controller).unwrap_or(&BOUNDS[OTHERS]);
    let mut wrong = Vec::new();
    for (scenario, (seconds, faults)) in SCENARIOS.iter().zip(cells) {
        let name = scenario.name;
        let bound = allowed.get(name).unwrap_or_else(|| panic!("no bound for {controller} over {name}"));
        wrong.extend(faults.iter().map(|fault| format!("{name}: {fault}")));
        if seconds.is_none_or(|seconds| seconds > *bound) {
            wrong.push(format!("{name}: {seconds:?} s, the bound is {bound:?} s"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every row but the last one must have the name of a controller in the registry.
fn rows_are_of_controllers() {
    let known = controllers();
    let unknown: Vec<_> =
        BOUNDS.keys().filter(|row| **row != OTHERS && !known.iter().any(|name| name == *row)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Returns one test per controller, and the test of the table.
pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let table = Trial::test("scenarios::rows_are_of_controllers", || {
        rows_are_of_controllers();
        Ok(())
    });
    let trial = |controller: String| {
        Trial::test(format!("scenarios::{controller}"), move || {
            finish_in_time(&controller);
            Ok(())
        })
    };
    controllers().into_iter().map(trial).chain([table])
}

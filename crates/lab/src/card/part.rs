//! The runs that a part of the card needs.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use toml::{Table, Value};

use crate::experiment::Experiment;

/// The axis of the controllers.
pub(crate) const CONTROLLER: &str = "controller";

/// The first parts of the card. Other experiments with `[[card]]` sections follow in the order of their names.
pub(crate) const ORDER: [&str; 8] =
    ["random", "own-kind", "crowds", "shares", "changing-paths", "losses", "hard-paths", "scores"];

/// Returns the text of an experiment with these controllers instead of its own, and without everything that the card
/// does not need. Controllers to which a metric is relative remain.
pub(crate) fn choose(text: &str, names: &[String]) -> Result<String> {
    let mut table: Table = text.parse()?;
    if !table.contains_key("card") {
        bail!("it is not part of the card, because it has no `[[card]]` section");
    }
    for field in ["tables", "plots", "series"] {
        table.remove(field);
    }
    if let Some(rows) = table.get_mut("rows").and_then(Value::as_array_mut) {
        rows.retain(|row| row.get("each").and_then(Value::as_str) == Some(CONTROLLER));
    }
    // A metric occurs in a card as the argument of a statistic, and in a row by its name.
    let uses = |field: &str, key: &str| -> Vec<String> {
        let tables = table.get(field).and_then(Value::as_array).into_iter().flatten();
        tables.filter_map(|table| Some(table.get(key)?.as_str()?.to_owned())).collect()
    };
    let (values, rows) = (uses("card", "value"), uses("rows", "metric"));
    let is_used = |name: &str| {
        rows.iter().any(|row| row == name) || values.iter().any(|value| value.contains(&format!("({name})")))
    };
    let mut kept: BTreeSet<String> = BTreeSet::new();
    if let Some(metrics) = table.get_mut("metrics").and_then(Value::as_table_mut) {
        metrics.retain(|name, _| is_used(name));
        let base = |metric: &Value| Some(metric.get("relative-to")?.get(CONTROLLER)?.as_str()?.to_owned());
        kept.extend(metrics.values().filter_map(base));
    }
    let axes = table.get_mut("axes").and_then(Value::as_array_mut).into_iter().flatten();
    for axis in axes.filter(|axis| axis.get("name").and_then(Value::as_str) == Some(CONTROLLER)) {
        let Some(choices) = axis.get_mut("choices").and_then(Value::as_array_mut) else { continue };
        let others = kept.iter().filter(|name| !names.contains(name));
        // A choice of the file may have variables.
        let choice = |name: &String| {
            let is = |choice: &&Value| choice.as_str().or(choice.get("name").and_then(Value::as_str)) == Some(name);
            choices.iter().find(is).cloned().unwrap_or_else(|| Value::String(name.clone()))
        };
        *choices = names.iter().chain(others).map(choice).collect();
    }
    Ok(toml::to_string(&table)?)
}

/// Returns the cells that the lines of an experiment need, with those to which they are relative.
pub(crate) fn cells(experiment: &Experiment, names: &[String]) -> BTreeSet<usize> {
    let is_used = |cell: &usize| {
        let cell = &experiment.cells[*cell];
        experiment.cards.iter().any(|card| {
            let choices = &experiment.definition.axes[card.controller].choices;
            let name = choices[cell.places[card.controller]].name.get_ref();
            names.contains(name) && cell.is_at(&card.at)
        })
    };
    let cells: BTreeSet<usize> = (0..experiment.cells.len()).filter(is_used).collect();
    let bases = experiment.relatives.iter().flatten();
    let bases = bases.flat_map(|relative| cells.iter().filter_map(|cell| relative.bases.get(*cell)).copied());
    cells.iter().copied().chain(bases).collect()
}

/// Returns the number of runs per cell.
pub(crate) fn runs(experiment: &Experiment) -> u32 {
    experiment.definition.card_runs.unwrap_or(experiment.definition.runs)
}

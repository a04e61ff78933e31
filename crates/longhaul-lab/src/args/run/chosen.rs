//! The `--at` option: selection of cells, and of the rows that need only these cells.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use crate::experiment::{Experiment, Row};

/// Returns the cells that have one of the given choices on each named axis. On other axes, any choice matches.
pub(super) fn cells(experiment: &Experiment, at: &[(String, String)]) -> Result<BTreeSet<usize>> {
    let definition = &experiment.definition;
    let id = definition.id.get_ref();
    let mut wanted: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (name, choice) in at {
        let axis = definition.axes.iter().position(|axis| axis.name.get_ref() == name);
        let axis = axis.with_context(|| format!("--at {name}={choice}: {id} has no axis {name:?}"))?;
        let choices = &definition.axes[axis].choices;
        let place = choices.iter().position(|known| known.name.get_ref() == choice);
        let place = place.with_context(|| {
            let known: Vec<&str> = choices.iter().map(|choice| choice.name.get_ref().as_str()).collect();
            format!("--at {name}={choice}: no choice of {id}; there are: {}", known.join("; "))
        })?;
        wanted.entry(axis).or_default().insert(place);
    }
    let is_wanted = |cell: &usize| {
        let places = &experiment.cells[*cell].places;
        wanted.iter().all(|(axis, choices)| choices.contains(&places[*axis]))
    };
    Ok((0..experiment.cells.len()).filter(is_wanted).collect())
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
        eprintln!("{}: rows skipped because they need other cells: {rows}", experiment.definition.id.get_ref());
    }
}

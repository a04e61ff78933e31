//! The `--at` option: selection of cells, and of the rows that need only these cells.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};

use super::super::print;
use crate::experiment::{Experiment, Row};

/// Returns the cells that the option selects.
pub(super) fn cells(experiment: &Experiment, at: &[(String, String)]) -> Result<BTreeSet<usize>> {
    experiment.cells_at(at).map_err(|what| anyhow!("--at {what}"))
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
        print::note(&format!(
            "{}: rows skipped because they need other cells: {rows}",
            experiment.definition.id.get_ref()
        ));
    }
}

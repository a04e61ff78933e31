//! Tables of an experiment whose runs are complete: judged rows, values, times.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Folder, ROWS, ROWS_CSV, VALUES_CSV, write};
use crate::experiment::Experiment;
use crate::judge::{self, Judged};
use crate::record::Record;
use crate::stats::Spread;

/// Times of an experiment. Except for the runs, this is the only file of a complete experiment that varies between
/// executions.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Times {
    pub(crate) runs: usize,
    /// Seconds of computation, summed over all processors.
    pub(crate) computed_seconds: f64,
    /// Seconds from the start of the first run to the end of the last one, summed over executions of the program.
    /// Executions that were killed do not count.
    pub(crate) wall_seconds: f64,
    /// Simulated seconds, summed over flows.
    pub(crate) flow_seconds: f64,
}

impl Times {
    pub(crate) fn of(records: &[Record], wall_seconds: f64) -> Self {
        let sum = |of: fn(&Record) -> f64| records.iter().map(of).sum();
        let (computed_seconds, flow_seconds) = (sum(|record| record.took), sum(|record| record.flow_seconds));
        Self { runs: records.len(), computed_seconds, wall_seconds, flow_seconds }
    }

    /// Returns the simulated flow-seconds per second of computation.
    pub(crate) fn speed(&self) -> f64 {
        if self.computed_seconds > 0.0 { self.flow_seconds / self.computed_seconds } else { 0.0 }
    }

    pub(super) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }
}

impl Folder {
    /// Stores the times of the existing runs of an experiment; `wall_seconds` is added to the stored value.
    pub(crate) fn note_times(&self, id: &str, records: &[Record], wall_seconds: f64) -> Result<()> {
        let before = Times::read(&self.times(id)).map_or(0.0, |times| times.wall_seconds);
        self.set_times(id, records, before + wall_seconds)
    }

    /// Stores the times, replacing the stored values.
    pub(super) fn set_times(&self, id: &str, records: &[Record], wall_seconds: f64) -> Result<()> {
        write::json(&self.times(id), &Times::of(records, wall_seconds))
    }
}

/// Writes the rows and values of an experiment whose runs are complete, and returns the rows.
pub(crate) fn write_tables(
    folder: &Folder,
    experiment: &Experiment,
    records: &[Record],
    runs: u32,
) -> Result<Vec<Judged>> {
    let path = folder.of(experiment.id());
    let rows = judge::judge(experiment, records, runs);
    let related = experiment.related(records);
    write::csv(&path.join(VALUES_CSV), &values(experiment, records))?;
    write::csv(&path.join(ROWS_CSV), &spread(experiment, &related, &rows))?;
    write::json_lines(&path.join(ROWS), &rows)?;
    Ok(rows)
}

/// Returns one line per run: the choice on each axis, the seed, and each metric as measured.
fn values(experiment: &Experiment, records: &[Record]) -> Vec<Vec<String>> {
    let definition = &experiment.definition;
    let axes = definition.axes.iter().map(|axis| axis.name.get_ref().clone());
    let names = axes.chain(["seed".into()]).chain(definition.metrics.keys().cloned()).collect();
    let line = |record: &Record| {
        let choices = experiment.choices_of(record.cell).map(|(_, choice)| choice.to_owned());
        choices.chain([record.seed.to_string()]).chain(record.values.iter().copied().map(number)).collect()
    };
    [names].into_iter().chain(records.iter().map(line)).collect()
}

/// Returns one line per value of a row, with measures of its spread over the runs.
fn spread(experiment: &Experiment, records: &[Record], judged: &[Judged]) -> Vec<Vec<String>> {
    let names = "row,kind,metric,unit,verdict,rule,cell,paper,ours,low,high,min,max,deviation,iqr,seeds,claim,reason";
    let mut lines: Vec<Vec<String>> = vec![names.split(',').map(str::to_owned).collect()];
    for (row, outcome) in experiment.rows.iter().zip(judged) {
        let [metric, unit, rule] = [&outcome.metric, &outcome.unit, &outcome.rule].map(Clone::clone);
        // A row that is not reproducible has only the paper's values.
        let cells: Vec<Option<usize>> = match &row.judged {
            Some(judged) => judged.cells.iter().copied().map(Some).collect(),
            None => vec![None; row.paper.len().max(1)],
        };
        for (place, cell) in cells.into_iter().enumerate() {
            let judged = row.judged.as_ref().zip(cell);
            let ours = judged.and_then(|(row, cell)| judge::estimate(records, cell, row));
            let values = judged.and_then(|(row, cell)| judge::values(records, cell, row));
            let spread = values.as_deref().and_then(Spread::of);
            let paper = row.paper.get(place).copied();
            let cell = cell.map_or_else(String::new, |cell| cell_name(experiment, cell));
            let runs = values.map_or(outcome.seeds as usize, |values| values.len());
            let mut line = vec![
                row.id.clone(),
                row.kind.name().into(),
                metric.clone(),
                unit.clone(),
                outcome.verdict.name().into(),
                rule.clone(),
            ];
            line.extend([cell, number(paper)]);
            line.extend([1, 0, 2].map(|nth| number(ours.map(|ours| ours[nth]))));
            let of = |what: fn(Spread) -> Option<f64>| number(spread.and_then(what));
            line.extend([of(|s| Some(s.min)), of(|s| Some(s.max)), of(|s| s.deviation), of(|s| Some(s.iqr))]);
            line.extend([runs.to_string(), outcome.claim.clone(), outcome.reason.clone()]);
            lines.push(line);
        }
    }
    lines
}

pub(super) fn cell_name(experiment: &Experiment, cell: usize) -> String {
    experiment.choices_of(cell).map(|(axis, choice)| format!("{axis}={choice}")).collect::<Vec<_>>().join(" ")
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

//! The scorecard: statistics of several congestion controllers over the same cells and seeds, side by side.
//!
//! A part of the card is an experiment with `[[card]]` sections and an axis `controller`. The intervals are resampled in
//! pairs: each resample has the same cells and seeds for all controllers.

mod bar;
mod page;
mod part;

use longhaul_units::statistics::sorted;
use serde::Serialize;

use crate::cell::Chosen;
use crate::definition::{self, Definition};
use crate::expression::{Call, Expression};
use crate::stats;
use crate::table::{Measured, and, fill, statistic, with};
pub(crate) use bar::Bar;
pub(crate) use page::{Part, counts};
pub(crate) use part::{CONTROLLER, ORDER, cells, choose, runs};

/// A checked `[[card]]` section.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) written: definition::Card,
    pub(crate) value: Expression,
    pub(crate) at: Chosen,
    /// The axis of the controllers.
    pub(crate) controller: usize,
    pub(crate) each: Option<usize>,
    pub(crate) drawn: Option<usize>,
    pub(crate) bar: Option<Bar>,
}

/// A line of the card.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) digits: usize,
    pub(crate) better: String,
    pub(crate) bar: Option<String>,
    pub(crate) columns: Vec<Column>,
}

/// The value of a controller.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Column {
    pub(crate) controller: String,
    pub(crate) value: Option<f64>,
    /// Its 95 % interval, unless there is only one run.
    pub(crate) interval: Option<[f64; 2]>,
    /// The value minus that of the first controller.
    pub(crate) difference: Option<f64>,
    pub(crate) difference_interval: Option<[f64; 2]>,
    /// Whether the controller is better than the first one, if the interval of the difference excludes 0.
    pub(crate) is_better: Option<bool>,
    /// Whether the bar is met, if it can be judged.
    pub(crate) meets: Option<bool>,
}

/// A run: the index of its cell among those of one controller, and its index among the runs of the cell.
type Pick = (usize, usize);

/// A column, and its statistic in each resample.
struct Drawn {
    column: Column,
    values: Option<Vec<f64>>,
}

impl Drawn {
    /// Returns the difference from another column and its interval.
    fn minus(&self, other: &Self, sample: &Sample) -> (Option<f64>, Option<[f64; 2]>) {
        let Some((value, of)) = self.column.value.zip(other.column.value) else { return (None, None) };
        let both = self.values.as_ref().zip(other.values.as_ref());
        let drawn = both.map(|(one, other)| one.iter().zip(other).map(|(one, other)| one - other).collect());
        (Some(value - of), drawn.and_then(|drawn| sample.interval(drawn, value - of)))
    }
}

/// The runs of a line in groups, whose members are resampled.
struct Sample(Vec<Vec<Vec<Pick>>>);

impl Sample {
    /// Returns the runs of cells, given by their choices on the drawn axis. Without such an axis, each cell is a group
    /// of its runs. With it, there is one group, and all runs with the same choice are a member.
    fn new(drawn: &[Option<usize>], runs: usize) -> Self {
        let of = |cell: usize| (0..runs).map(move |run| (cell, run));
        let choices: Vec<usize> = drawn.iter().copied().collect::<Option<Vec<_>>>().unwrap_or_default();
        if choices.is_empty() {
            return Self((0..drawn.len()).map(|cell| of(cell).map(|pick| vec![pick]).collect()).collect());
        }
        let mut members: std::collections::BTreeMap<usize, Vec<Pick>> = std::collections::BTreeMap::new();
        for (cell, choice) in choices.into_iter().enumerate() {
            members.entry(choice).or_default().extend(of(cell));
        }
        Self(vec![members.into_values().collect()])
    }

    fn each(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    fn all(&self) -> Vec<Pick> {
        self.0.iter().flatten().flatten().copied().collect()
    }

    fn resamples(&self) -> impl Iterator<Item = Vec<Pick>> {
        let picked = |indices: Vec<Vec<usize>>| {
            let groups = self.0.iter().zip(indices);
            groups.flat_map(|(group, indices)| indices.into_iter().flat_map(|nth| group[nth].clone())).collect()
        };
        stats::redraws(self.0.len(), self.each()).map(picked)
    }

    fn interval(&self, drawn: Vec<f64>, value: f64) -> Option<[f64; 2]> {
        stats::extended(drawn, value, self.each(), self.0.len() * self.each().saturating_sub(1))
    }
}

impl Card {
    /// Fills all texts with the first choices, to find unknown variables and wrong words.
    pub(crate) fn check(&self, definition: &Definition) -> Result<(), String> {
        let first: Chosen = (0..definition.axes.len()).map(|axis| (axis, vec![0])).collect();
        self.empty(definition, &and(&first, &self.at)).map(drop)
    }

    /// Returns the choices of each line.
    fn each(&self, definition: &Definition) -> Vec<Chosen> {
        let Some(axis) = self.each else { return vec![self.at.clone()] };
        let all = || (0..definition.axes[axis].choices.len()).collect();
        let places = self.at.get(&axis).cloned().unwrap_or_else(all);
        places.into_iter().map(|place| with(&self.at, axis, place)).collect()
    }

    /// Returns a line without columns.
    fn empty(&self, definition: &Definition, chosen: &Chosen) -> Result<Line, String> {
        let definition::Card { title, unit, digits, better, .. } = &self.written;
        let or = |text: &Option<definition::Text>, usual: &str| {
            text.as_ref().map_or(Ok(usual.to_owned()), |text| fill(definition, text.get_ref(), chosen))
        };
        let (digits, better) = (or(digits, "2")?, or(better, "most")?);
        if !["most", "least"].contains(&better.as_str()) {
            return Err(format!("{better:?} is neither most nor least"));
        }
        Ok(Line {
            title: fill(definition, title.get_ref(), chosen)?,
            unit: or(unit, "")?,
            digits: digits.parse().map_err(|_| format!("{digits:?} is not a number of decimals"))?,
            better,
            bar: self.written.bar.as_ref().map(|bar| bar.get_ref().clone()),
            columns: Vec::new(),
        })
    }

    /// Returns the lines with a column per controller.
    pub(crate) fn lines(&self, measured: &Measured<'_>, names: &[String]) -> Result<Vec<Line>, String> {
        self.each(measured.definition).iter().map(|chosen| self.line(measured, chosen, names)).collect()
    }

    fn line(&self, measured: &Measured<'_>, chosen: &Chosen, names: &[String]) -> Result<Line, String> {
        let mut line = self.empty(measured.definition, chosen)?;
        let axis = &measured.definition.axes[self.controller];
        let cells = |name: &String| {
            let chosen = with(chosen, self.controller, axis.place(name)?);
            let cells = 0..measured.cells.len();
            Ok(cells.filter(|cell| measured.cells[*cell].is_at(&chosen)).collect::<Vec<usize>>())
        };
        let cells: Vec<Vec<usize>> = names.iter().map(cells).collect::<Result<_, String>>()?;
        // All controllers have the same cells, in the same order.
        let first = cells.first().map_or(&[][..], Vec::as_slice);
        let drawn = |cell: &usize| self.drawn.map(|axis| measured.cells[*cell].places[axis]);
        let runs = first.first().map_or(0, |cell| measured.values[*cell].len());
        let sample = Sample::new(&first.iter().map(drawn).collect::<Vec<_>>(), runs);
        let (all, mut values) = (sample.all(), vec![Some(Vec::new()); names.len()]);
        for picks in sample.resamples() {
            for (values, cells) in values.iter_mut().zip(&cells) {
                match self.statistic(measured, cells, &picks) {
                    Some(value) => values.iter_mut().for_each(|values: &mut Vec<f64>| values.push(value)),
                    None => *values = None,
                }
            }
        }
        let column = |(name, (cells, values)): (&String, (&Vec<usize>, Option<Vec<f64>>))| {
            let value = self.statistic(measured, cells, &all);
            let interval = value.zip(values.clone()).and_then(|(value, drawn)| sample.interval(drawn, value));
            Drawn { column: Column { controller: name.clone(), value, interval, ..Column::default() }, values }
        };
        let mut columns: Vec<Drawn> = names.iter().zip(cells.iter().zip(values)).map(column).collect();
        let sign = if line.better == "most" { 1.0 } else { -1.0 };
        for nth in 0..columns.len() {
            let meets = self.bar.as_ref().and_then(|bar| bar.meets(&columns[nth], &columns, sign, &sample));
            let (difference, interval) = columns[nth].minus(&columns[0], &sample);
            let column = &mut columns[nth].column;
            column.meets = meets;
            if nth > 0 {
                (column.difference, column.difference_interval) = (difference, interval);
                let excludes = interval.filter(|[low, high]| *low > 0.0 || *high < 0.0);
                column.is_better = excludes.map(|[low, _]| sign * low > 0.0);
            }
        }
        line.columns = columns.into_iter().map(|drawn| drawn.column).collect();
        Ok(line)
    }

    /// Returns the statistic of some runs, or `None` if a run has no value.
    fn statistic(&self, measured: &Measured<'_>, cells: &[usize], picks: &[Pick]) -> Option<f64> {
        let metrics = &measured.definition.metrics;
        let of = |call: &Call| {
            let metric = metrics.keys().position(|name| Some(name.as_str()) == call.metric())?;
            let value =
                |(cell, run): &Pick| measured.values[*cells.get(*cell)?].get(*run)?.get(metric).copied().flatten();
            statistic(&call.name, &picks.iter().map(value).collect::<Vec<_>>())
        };
        self.value.value(&of).filter(|value| value.is_finite())
    }
}

/// Returns the best of some values.
fn best(values: impl Iterator<Item = f64>, sign: f64) -> Option<f64> {
    sorted(values.map(|value| sign * value)).last().map(|value| sign * value)
}

//! The scorecard: statistics of several congestion controllers over the same cells and seeds, side by side.
//!
//! A part of the card is an experiment with `[[card]]` sections and an axis `controller`. The intervals are resampled in
//! pairs: each resample has the same cells and seeds for all controllers.

mod bar;
mod page;
mod part;

use std::collections::BTreeMap;

use longhaul_link::statistics::sorted;
use serde::Serialize;

use crate::cell::Chosen;
use crate::definition::{self, Definition};
use crate::experiment::Row;
use crate::experiment::rows::Judged;
use crate::expression::{Call, Expression};
use crate::stats;
use crate::table::{Measured, fill, statistic, with};
pub(crate) use bar::Bar;
pub(crate) use page::{Part, counts};
pub(crate) use part::{CONTROLLER, ORDER, cells, choose, runs};

/// A checked `[[card]]` section.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) written: definition::Card,
    /// The statistic, or `None` for the number of rows that are not reproduced.
    pub(crate) value: Option<Expression>,
    pub(crate) at: Chosen,
    pub(crate) controller: usize,
    pub(crate) each: Option<usize>,
    pub(crate) count: Option<usize>,
    pub(crate) drawn: Option<usize>,
    pub(crate) bar: Option<Bar>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) digits: usize,
    pub(crate) better: String,
    pub(crate) bar: Option<String>,
    pub(crate) columns: Vec<Column>,
}

/// Value of a controller in a line.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Column {
    pub(crate) controller: String,
    pub(crate) value: Option<f64>,
    /// 95 % interval of the value, unless there is only one run.
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
        let mut members: BTreeMap<usize, Vec<Pick>> = BTreeMap::new();
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
    /// Fills the texts of all lines, to detect unknown variables and invalid words.
    pub(crate) fn check(&self, definition: &Definition) -> Result<(), String> {
        if self.count.is_some() && !self.bar.as_ref().is_some_and(Bar::is_of_values) {
            return Err("`count` needs a bar without `from`".into());
        }
        self.each(definition).iter().try_for_each(|chosen| self.empty(definition, chosen).map(drop))
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
        let counts = self.count.is_some();
        let (digits, better) = (or(digits, if counts { "0" } else { "2" })?, or(better, "most")?);
        if !["most", "least", "none"].contains(&better.as_str()) {
            return Err(format!("{better:?} is not most, least or none"));
        }
        Ok(Line {
            title: fill(definition, title.get_ref(), chosen)?,
            unit: or(unit, "")?,
            digits: digits.parse().map_err(|_| format!("{digits:?} is not a number of decimals"))?,
            better: if counts { "least".to_owned() } else { better },
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
        let of = Of { card: self, measured, names, cells: names.iter().map(cells).collect::<Result<_, String>>()? };
        // All controllers have the same cells, in the same order.
        let first = of.cells.first().map_or(&[][..], Vec::as_slice);
        let runs = first.first().map_or(0, |cell| measured.values[*cell].len());
        let sample = Sample::new(&first.iter().map(|cell| of.place(*cell, self.drawn)).collect::<Vec<_>>(), runs);
        let resamples: Vec<_> = sample.resamples().map(|picks| of.values(&picks)).collect();
        let column = |(nth, (name, value)): (usize, (&String, Option<f64>))| {
            let values: Option<Vec<f64>> = resamples.iter().map(|values| values[nth]).collect();
            let interval = value.zip(values.clone()).and_then(|(value, drawn)| sample.interval(drawn, value));
            Drawn { column: Column { controller: name.clone(), value, interval, ..Column::default() }, values }
        };
        let values = of.values(&sample.all());
        let mut columns: Vec<Drawn> = names.iter().zip(values.iter().copied()).enumerate().map(column).collect();
        let sign = match line.better.as_str() {
            "most" => 1.0,
            "least" => -1.0,
            _ => 0.0,
        };
        for nth in 0..columns.len() {
            let meets = match (&self.bar, self.count) {
                (_, Some(_)) => values[nth].map(|count| count == 0.0),
                (Some(bar), None) => {
                    bar.meets(nth, names, &values, |other| columns[nth].minus(&columns[other], &sample).1)
                }
                (None, None) => None,
            };
            let (difference, interval) = columns[nth].minus(&columns[0], &sample);
            let column = &mut columns[nth].column;
            column.meets = meets;
            if nth > 0 {
                (column.difference, column.difference_interval) = (difference, interval);
                let excludes = interval.filter(|[low, high]| sign != 0.0 && (*low > 0.0 || *high < 0.0));
                column.is_better = excludes.map(|[low, _]| sign * low > 0.0);
            }
        }
        line.columns = columns.into_iter().map(|drawn| drawn.column).collect();
        Ok(line)
    }
}

/// The runs that a line refers to.
struct Of<'a> {
    card: &'a Card,
    measured: &'a Measured<'a>,
    names: &'a [String],
    /// The cells of each controller.
    cells: Vec<Vec<usize>>,
}

impl Of<'_> {
    fn place(&self, cell: usize, axis: Option<usize>) -> Option<usize> {
        axis.map(|axis| self.measured.cells[cell].places[axis])
    }

    /// Returns the value of each controller for some runs.
    fn values(&self, picks: &[Pick]) -> Vec<Option<f64>> {
        let all = |picks: &[Pick]| self.cells.iter().map(|cells| self.value(cells, picks)).collect::<Vec<_>>();
        let (Some(axis), Some(bar)) = (self.card.count, &self.card.bar) else { return all(picks) };
        let mut counted: BTreeMap<Option<usize>, Vec<Pick>> = BTreeMap::new();
        for pick in picks {
            counted.entry(self.place(self.cells[0][pick.0], Some(axis))).or_default().push(*pick);
        }
        let counted: Vec<Vec<Option<f64>>> = counted.values().map(|picks| all(picks)).collect();
        let missed = |nth: usize| {
            let missed = counted.iter().map(|values| {
                let meets = bar.meets(nth, self.names, values, |_| None)?;
                Some(f64::from(u8::from(!meets)))
            });
            missed.sum()
        };
        (0..self.names.len()).map(missed).collect()
    }

    /// Returns the statistic of a controller's runs, or `None` if a run has no value.
    fn value(&self, cells: &[usize], picks: &[Pick]) -> Option<f64> {
        let value = |(cell, run): &Pick, metric: usize| {
            self.measured.values[*cells.get(*cell)?].get(*run)?.get(metric).copied().flatten()
        };
        let Some(expression) = &self.card.value else {
            let of = |cell: usize, metric| {
                let picks = picks.iter().filter(move |pick| cells.get(pick.0) == Some(&cell));
                picks.map(move |pick| value(pick, metric)).collect::<Vec<_>>()
            };
            return Some(missed(self.measured.rows, cells, of) as f64);
        };
        let metrics = &self.measured.definition.metrics;
        let of = |call: &Call| {
            let metric = metrics.keys().position(|name| Some(name.as_str()) == call.metric())?;
            statistic(&call.name, &picks.iter().map(|pick| value(pick, metric)).collect::<Vec<_>>())
        };
        expression.value(&of).filter(|value| value.is_finite())
    }
}

/// Returns how many of the rows that need only these cells are not reproduced. `of` returns the values of a metric in a
/// cell.
fn missed(rows: &[Row], cells: &[usize], of: impl Fn(usize, usize) -> Vec<Option<f64>>) -> usize {
    let holds = |row: &Row, judged: &Judged| {
        let ours = judged.cells.iter().map(|cell| {
            let values = of(*cell, judged.metric).into_iter().filter(|value| value.is_some() || !judged.skip_missing);
            judged.statistic.of(&sorted(values.collect::<Option<Vec<_>>>()?))
        });
        ours.collect::<Option<Vec<_>>>().is_some_and(|ours| judged.rule.holds(&ours, &row.paper, &row.deviations))
    };
    let judged = rows.iter().filter_map(|row| Some((row, row.judged.as_ref()?)));
    let judged = judged.filter(|(_, judged)| judged.cells.iter().all(|cell| cells.contains(cell)));
    judged.filter(|(row, judged)| !holds(row, judged)).count()
}

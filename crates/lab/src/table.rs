//! Tables of metrics in Markdown, for documents.
//!
//! A table has a line per choice on one axis. The cells of a column are statistics over all runs that agree with the
//! choices of the table, the line and the column.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_cc::Congestion;
use longhaul_cc::registry::Safety;
use longhaul_units::statistics::{mean, median, quantile, sorted};

use crate::cell::Cell;
use crate::definition::Definition;
use crate::experiment::Experiment;
use crate::expression::{Argument, Call, Expression};
use crate::record::Record;

/// The statistics in expressions of tables, in addition to quantiles such as `p95`.
pub(crate) const STATISTICS: [&str; 5] = ["median", "mean", "sum", "least", "most"];

pub(crate) fn is_statistic(name: &str) -> bool {
    STATISTICS.contains(&name) || quantile_of(name).is_some()
}

/// Returns the fraction, from 0 to 1, of a quantile such as `p95`.
fn quantile_of(name: &str) -> Option<f64> {
    let percent = name.strip_prefix('p')?.parse::<u8>().ok()?;
    (percent <= 100).then(|| f64::from(percent) / 100.0)
}

/// Choices by axis. Axes without a choice are pooled.
pub(crate) type Chosen = BTreeMap<usize, Vec<usize>>;

#[derive(Clone, Debug)]
pub struct Table {
    pub id: String,
    pub title: String,
    /// Whether `run` and `report` print the table, and the page contains it.
    pub is_shown: bool,
    pub(crate) sort: Option<Expression>,
    pub(crate) keep: usize,
    pub(crate) lines: usize,
    pub(crate) order: Vec<usize>,
    pub(crate) label: String,
    pub(crate) across: Option<usize>,
    pub(crate) at: Chosen,
    pub(crate) columns: Vec<Column>,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) at: Chosen,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Text(String),
    Safety(String),
    Value(Value),
    /// The best value among the choices on an axis.
    Best {
        value: Value,
        over: usize,
        better: String,
    },
    Words {
        words: Vec<Word>,
        otherwise: String,
        each: Option<usize>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) word: String,
    pub(crate) when: Expression,
    pub(crate) at: Chosen,
}

#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) value: Expression,
    pub(crate) digits: String,
    pub(crate) never: Option<String>,
    pub(crate) also: Option<(Expression, String)>,
}

impl Call {
    pub(crate) fn metric(&self) -> Option<&str> {
        match &self.arguments[..] {
            [Argument::Name(metric)] => Some(metric),
            _ => None,
        }
    }
}

/// The runs of an experiment, from which tables are filled.
#[derive(Debug)]
pub struct Measured<'a> {
    definition: &'a Definition,
    cells: &'a [Cell],
    /// The values of the metrics in each run, by cell. Empty unless all runs of the cell and of its base cells exist.
    values: Vec<Vec<Vec<Option<f64>>>>,
    /// The cells with a run for which the machine was too slow.
    disturbed: BTreeSet<usize>,
}

impl<'a> Measured<'a> {
    /// Creates the values of the complete cells, with relative metrics related to their base cells.
    pub fn new(experiment: &'a Experiment, records: &[Record], runs: u32) -> Self {
        let mut values = vec![Vec::new(); experiment.cells.len()];
        for record in experiment.related(records).iter().filter(|record| record.seed <= u64::from(runs)) {
            values[record.cell].push(record.values.clone());
        }
        let is_complete: Vec<bool> = values.iter().map(|runs_of| runs_of.len() == runs as usize).collect();
        for (cell, values) in values.iter_mut().enumerate() {
            let bases = experiment.relatives.iter().flatten().filter_map(|relative| relative.bases.get(cell));
            if !is_complete[cell] || bases.into_iter().any(|base| !is_complete[*base]) {
                values.clear();
            }
        }
        let counts = records.iter().filter(|record| record.seed <= u64::from(runs));
        let disturbed = counts.filter(|record| record.disturbed).map(|record| record.cell).collect();
        Self { definition: &experiment.definition, cells: &experiment.cells, values, disturbed }
    }

    fn is_disturbed(&self, chosen: &Chosen) -> bool {
        self.disturbed.iter().any(|cell| is_chosen(&self.cells[*cell], chosen))
    }

    /// Returns all values of a metric in the chosen cells, or `None` if a cell is incomplete.
    fn of(&self, metric: &str, chosen: &Chosen) -> Option<Vec<Option<f64>>> {
        let metric = self.definition.metrics.keys().position(|name| name == metric)?;
        let mut all = Vec::new();
        for (cell, runs) in self.cells.iter().zip(&self.values).filter(|(cell, _)| is_chosen(cell, chosen)) {
            debug_assert_eq!(cell.places.len(), self.definition.axes.len());
            if runs.is_empty() {
                return None;
            }
            all.extend(runs.iter().map(|run| run.get(metric).copied().flatten()));
        }
        Some(all)
    }

    /// Returns the value of an expression. The outer `None` means that a cell is incomplete, the inner one that a run
    /// has no value.
    fn value(&self, expression: &Expression, chosen: &Chosen) -> Option<Option<f64>> {
        let calls = expression.calls();
        let all = calls.iter().map(|call| self.of(call.metric()?, chosen)).collect::<Option<Vec<_>>>()?;
        let of = |call: &Call| {
            let place = calls.iter().position(|known| *known == call)?;
            statistic(&call.name, all.get(place)?)
        };
        Some(expression.value(&of))
    }

    fn fill(&self, text: &str, chosen: &Chosen) -> Result<String, String> {
        let single = chosen.iter().filter_map(|(axis, places)| match places[..] {
            [place] => Some((*axis, place)),
            _ => None,
        });
        Cell::partial(&self.definition.axes, single).fill(text)
    }

    fn choice(&self, axis: usize, place: usize) -> &str {
        self.definition.axes[axis].choices[place].name.get_ref()
    }
}

fn is_chosen(cell: &Cell, chosen: &Chosen) -> bool {
    chosen.iter().all(|(axis, places)| cell.places.get(*axis).is_some_and(|place| places.contains(place)))
}

/// Returns a statistic of the runs. In a median, runs without a value count as infinite.
fn statistic(name: &str, values: &[Option<f64>]) -> Option<f64> {
    if name == "median" {
        let values: Vec<f64> = values.iter().map(|value| value.unwrap_or(f64::INFINITY)).collect();
        return median(&values);
    }
    let values = sorted(values.iter().copied().collect::<Option<Vec<_>>>()?);
    if let Some(share) = quantile_of(name) {
        return quantile(&values, share);
    }
    match name {
        "mean" => mean(&values),
        "sum" => Some(values.iter().sum()),
        "least" => values.first().copied(),
        _ => values.last().copied(),
    }
}

/// A filled table: heads, and lines of a label and cells. A cell is `None` if its runs are incomplete.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    heads: Vec<String>,
    lines: Vec<(String, Vec<Option<String>>)>,
}

impl Table {
    /// Fills the table. `at` has choices in addition to those of the table, by the names of axes.
    pub fn fill(&self, measured: &Measured<'_>, at: &[(&str, &str)]) -> Result<Grid, String> {
        let mut chosen = self.at.clone();
        for (axis, choice) in at {
            let axis = measured.definition.axis(axis)?;
            chosen.insert(axis, vec![measured.definition.axes[axis].place(choice)?]);
        }
        self.fill_at(measured, &chosen)
    }

    /// Fills the table without any runs, to find unknown variables. Axes that a document has to choose have their
    /// first choice.
    pub(crate) fn check(&self, definition: &Definition) -> Result<(), String> {
        let mut chosen: Chosen = (0..definition.axes.len()).map(|axis| (axis, vec![0])).collect();
        chosen.extend(self.at.clone());
        self.fill_at(&Measured { definition, cells: &[], values: Vec::new(), disturbed: BTreeSet::new() }, &chosen)
            .map(drop)
    }

    fn fill_at(&self, measured: &Measured<'_>, chosen: &Chosen) -> Result<Grid, String> {
        let columns = self.columns(measured, chosen)?;
        let heads = columns.iter().map(|(head, ..)| head.clone()).collect();
        let line = |place: &usize| {
            let mut of_line = chosen.clone();
            of_line.insert(self.lines, vec![*place]);
            let cell = |(_, at, column): &(String, Chosen, &Column)| {
                let mut chosen = of_line.clone();
                chosen.extend(at.clone());
                column.content.fill(measured, &chosen)
            };
            Ok((measured.fill(&self.label, &of_line)?, columns.iter().map(cell).collect::<Result<_, String>>()?))
        };
        let order = self.sorted(measured, chosen);
        Ok(Grid { heads, lines: order.iter().map(line).collect::<Result<_, String>>()? })
    }

    fn sorted(&self, measured: &Measured<'_>, chosen: &Chosen) -> Vec<usize> {
        let mut order = self.order.clone();
        if let Some(sort) = &self.sort {
            let key = |place: &usize| {
                let mut of_line = chosen.clone();
                of_line.insert(self.lines, vec![*place]);
                measured.value(sort, &of_line).flatten().unwrap_or(f64::INFINITY)
            };
            let mut keyed: Vec<(f64, usize)> = order.iter().map(|place| (key(place), *place)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            order = keyed.into_iter().map(|(_, place)| place).collect();
        }
        order.truncate(self.keep);
        order
    }

    /// Returns the columns with their heads and choices, repeated across an axis and without duplicates.
    fn columns(&self, measured: &Measured<'_>, chosen: &Chosen) -> Result<Vec<(String, Chosen, &Column)>, String> {
        let across = match self.across {
            Some(axis) => {
                let all = || (0..measured.definition.axes[axis].choices.len()).collect();
                let places = self.at.get(&axis).cloned().unwrap_or_else(all);
                places.into_iter().map(|place| Chosen::from([(axis, vec![place])])).collect()
            }
            None => vec![Chosen::new()],
        };
        let mut columns: Vec<(String, Chosen, &Column)> = Vec::new();
        for of_group in across {
            for column in &self.columns {
                let mut at = of_group.clone();
                at.extend(column.at.clone());
                let mut all = chosen.clone();
                all.extend(at.clone());
                let head = measured.fill(&column.head, &all)?;
                if !columns.iter().any(|(known, ..)| *known == head) {
                    columns.push((head, at, column));
                }
            }
        }
        Ok(columns)
    }
}

impl Content {
    fn fill(&self, measured: &Measured<'_>, chosen: &Chosen) -> Result<Option<String>, String> {
        match self {
            Self::Text(text) => measured.fill(text, chosen).map(Some),
            Self::Safety(text) => {
                let controller = measured.fill(text, chosen)?;
                let controller = controller.parse::<Congestion>().map_err(|error| error.to_string())?;
                Ok(Some(if controller.safety() == Safety::Internet { "internet" } else { "controlled" }.to_owned()))
            }
            Self::Value(value) => value.fill(measured, chosen),
            Self::Best { value, over, better } => value.best(measured, chosen, *over, better),
            Self::Words { words, otherwise, each } => Ok(chosen_words(words, otherwise, *each, measured, chosen)),
        }
    }
}

impl Value {
    fn fill(&self, measured: &Measured<'_>, chosen: &Chosen) -> Result<Option<String>, String> {
        let (digits, also_digits) = (
            self.decimals(&self.digits, measured, chosen)?,
            self.also.as_ref().map_or(Ok(0), |(_, digits)| self.decimals(digits, measured, chosen))?,
        );
        let Some(value) = measured.value(&self.value, chosen) else { return Ok(None) };
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return Ok(Some(self.never.clone().unwrap_or_default()));
        };
        let mut text = format!("{value:.digits$}");
        if let Some((also, _)) = &self.also
            && let Some(also) = measured.value(also, chosen).flatten()
        {
            let least = 0.5 * 10f64.powi(-i32::try_from(also_digits).unwrap_or(0));
            if also >= least {
                text += &format!(" ({also:.also_digits$})");
            }
        }
        if measured.is_disturbed(chosen) {
            text.push('*');
        }
        Ok(Some(text))
    }

    fn decimals(&self, digits: &str, measured: &Measured<'_>, chosen: &Chosen) -> Result<usize, String> {
        let digits = measured.fill(digits, chosen)?;
        digits.parse().map_err(|_| format!("{digits:?} is not a number of decimals"))
    }

    fn best(
        &self,
        measured: &Measured<'_>,
        chosen: &Chosen,
        over: usize,
        better: &str,
    ) -> Result<Option<String>, String> {
        let sign = match measured.fill(better, chosen)?.as_str() {
            "most" => 1.0,
            "least" => -1.0,
            other => return Err(format!("{other:?} is neither most nor least")),
        };
        let mut best: Option<(f64, Chosen, usize)> = None;
        for place in 0..measured.definition.axes[over].choices.len() {
            let mut at = chosen.clone();
            at.insert(over, vec![place]);
            let Some(value) = measured.value(&self.value, &at) else { return Ok(None) };
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            if best.as_ref().is_none_or(|(best, ..)| sign * value > sign * best) {
                best = Some((value, at, place));
            }
        }
        let Some((_, at, place)) = best else { return Ok(Some(String::new())) };
        let text = self.fill(measured, &at)?.unwrap_or_default();
        Ok(Some(format!("{text} `{}`", measured.choice(over, place))))
    }
}

/// Returns the first word whose condition holds, or, with an axis, all such words of its choices that differ from
/// `otherwise`.
fn chosen_words(
    words: &[Word],
    otherwise: &str,
    each: Option<usize>,
    measured: &Measured<'_>,
    chosen: &Chosen,
) -> Option<String> {
    let word = |chosen: &Chosen| {
        for Word { word, when, at } in words {
            let mut chosen = chosen.clone();
            chosen.extend(at.clone());
            if measured.value(when, &chosen)?.is_some_and(|value| value != 0.0) {
                return Some(word.as_str());
            }
        }
        Some(otherwise)
    };
    let Some(each) = each else { return word(chosen).map(str::to_owned) };
    let mut all = BTreeSet::new();
    for place in 0..measured.definition.axes[each].choices.len() {
        let mut at = chosen.clone();
        at.insert(each, vec![place]);
        all.insert(word(&at)?);
    }
    all.remove(otherwise);
    Some(if all.is_empty() { otherwise.to_owned() } else { all.into_iter().collect::<Vec<_>>().join(", ") })
}

impl Grid {
    pub fn is_measured(&self) -> bool {
        self.lines.iter().any(|(_, cells)| cells.iter().any(Option::is_some))
    }

    pub(crate) fn heads(&self) -> &[String] {
        &self.heads
    }

    /// Returns the label and the cells of each line. A cell is `None` if its runs are incomplete.
    pub(crate) fn lines(&self) -> &[(String, Vec<Option<String>>)] {
        &self.lines
    }

    /// Returns the table in columns of characters, for a terminal.
    pub fn columns(&self) -> String {
        let heads = std::iter::once(String::new()).chain(self.heads.iter().cloned()).collect();
        let line = |(label, cells): &(String, Vec<Option<String>>)| {
            std::iter::once(label.clone()).chain(cells.iter().map(|cell| cell.clone().unwrap_or_default())).collect()
        };
        let lines: Vec<Vec<String>> = std::iter::once(heads).chain(self.lines.iter().map(line)).collect();
        let width =
            |nth: usize| lines.iter().filter_map(|line| Some(line.get(nth)?.chars().count())).max().unwrap_or(0);
        let widths: Vec<usize> = (0..=self.heads.len()).map(width).collect();
        let pad = |(nth, (cell, width)): (usize, (&String, &usize))| match nth {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        };
        let text = |line: &Vec<String>| line.iter().zip(&widths).enumerate().map(pad).collect::<String>();
        lines.iter().map(|line| text(line).trim_end().to_owned() + "\n").collect()
    }

    /// Returns the table in Markdown. Cells of incomplete runs are taken from `old`, an earlier text of the table, by
    /// label and head.
    pub fn markdown(&self, old: &str) -> String {
        let old = Old::read(old);
        let heads: Vec<&str> = std::iter::once("").chain(self.heads.iter().map(String::as_str)).collect();
        let mut text = format!("| {} |\n|---|{}\n", heads.join(" | "), "--:|".repeat(self.heads.len()));
        for (label, cells) in &self.lines {
            let cell = |(head, cell): (&String, &Option<String>)| match cell {
                Some(cell) => cell.clone(),
                None => old.cell(label, head).to_owned(),
            };
            let cells: Vec<String> = self.heads.iter().zip(cells).map(cell).collect();
            text += &format!("| {label} | {} |\n", cells.join(" | "));
        }
        text
    }
}

struct Old<'a>(Vec<Vec<&'a str>>);

impl<'a> Old<'a> {
    fn read(text: &'a str) -> Self {
        let cells = |line: &'a str| {
            let line = line.strip_prefix('|')?.strip_suffix('|')?;
            Some(line.split('|').map(str::trim).collect())
        };
        Self(text.lines().filter_map(cells).collect())
    }

    fn cell(&self, label: &str, head: &str) -> &'a str {
        let column = self.0.first().and_then(|heads| heads.iter().skip(1).position(|known| *known == head));
        let line = self.0.iter().find(|line| line.first() == Some(&label));
        column.zip(line).and_then(|(column, line)| line.get(column + 1).copied()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

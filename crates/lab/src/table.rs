//! Tables of metrics in Markdown, for documents.
//!
//! A table has a line per choice on one axis. The cells of a column are statistics over all runs that agree with the
//! choices of the table, the line and the column.

use std::collections::BTreeSet;

use longhaul_cc::Congestion;
use longhaul_cc::registry::Safety;
use longhaul_link::statistics::{mean, median, quantile, sorted};

use crate::cell::{Cell, Chosen};
use crate::definition::{self, Definition, Text};
use crate::experiment::{Experiment, Row};
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

/// Returns the choices with those of `others`, which take precedence.
pub(crate) fn and(chosen: &Chosen, others: &Chosen) -> Chosen {
    let mut all = chosen.clone();
    all.extend(others.clone());
    all
}

/// Returns the choices with this one on an axis.
pub(crate) fn with(chosen: &Chosen, axis: usize, place: usize) -> Chosen {
    and(chosen, &Chosen::from([(axis, vec![place])]))
}

/// A checked table definition.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) written: definition::Table,
    pub(crate) sort: Option<Expression>,
    pub(crate) lines: usize,
    pub(crate) order: Vec<usize>,
    pub(crate) across: Option<usize>,
    pub(crate) at: Chosen,
    pub(crate) columns: Vec<Column>,
}

/// A checked column, with the expressions and axes of its definition.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) written: definition::Column,
    pub(crate) at: Chosen,
    pub(crate) value: Option<Expression>,
    pub(crate) also: Option<Expression>,
    pub(crate) best: Option<usize>,
    pub(crate) each: Option<usize>,
    /// Condition and choices of each of its words.
    pub(crate) words: Vec<(Expression, Chosen)>,
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
    pub(crate) definition: &'a Definition,
    pub(crate) cells: &'a [Cell],
    pub(crate) rows: &'a [Row],
    /// The values of the metrics in each run, by cell. Empty unless all runs of the cell and of its base cells exist.
    pub(crate) values: Vec<Vec<Vec<Option<f64>>>>,
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
        Self { definition: &experiment.definition, cells: &experiment.cells, rows: &experiment.rows, values, disturbed }
    }

    fn is_disturbed(&self, chosen: &Chosen) -> bool {
        self.disturbed.iter().any(|cell| self.cells[*cell].is_at(chosen))
    }

    /// Returns all values of a metric in the chosen cells, or `None` if a cell is incomplete.
    fn of(&self, metric: &str, chosen: &Chosen) -> Option<Vec<Option<f64>>> {
        let metric = self.definition.metrics.keys().position(|name| name == metric)?;
        let mut all = Vec::new();
        for (_, runs) in self.cells.iter().zip(&self.values).filter(|(cell, _)| cell.is_at(chosen)) {
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
        fill(self.definition, text, chosen)
    }

    fn choice(&self, axis: usize, place: usize) -> &str {
        self.definition.axes[axis].choices[place].name.get_ref()
    }
}

/// Replaces the variables of the axes on which there is one choice.
pub(crate) fn fill(definition: &Definition, text: &str, chosen: &Chosen) -> Result<String, String> {
    let single = chosen.iter().filter_map(|(axis, places)| match places[..] {
        [place] => Some((*axis, place)),
        _ => None,
    });
    Cell::partial(&definition.axes, single).fill(text)
}

/// Returns a statistic of the runs. In a median, runs without a value count as infinite.
pub(crate) fn statistic(name: &str, values: &[Option<f64>]) -> Option<f64> {
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
    pub(crate) heads: Vec<String>,
    pub(crate) lines: Vec<(String, Vec<Option<String>>)>,
}

impl Table {
    pub(crate) fn title(&self) -> &str {
        self.written.title.as_ref().unwrap_or_else(|| self.written.id.get_ref())
    }

    /// Fills the table. `at` contains choices in addition to those of the table, by the names of axes.
    pub fn fill(&self, measured: &Measured<'_>, at: &[(&str, &str)]) -> Result<Grid, String> {
        let mut chosen = self.at.clone();
        for (axis, choice) in at {
            let axis = measured.definition.axis(axis)?;
            chosen.insert(axis, vec![measured.definition.axes[axis].place(choice)?]);
        }
        self.fill_at(measured, &chosen)
    }

    /// Fills the table without any runs, to detect unknown variables. On axes on which a document has to choose, the
    /// first choice is used.
    pub(crate) fn check(&self, definition: &Definition) -> Result<(), String> {
        let first: Chosen = (0..definition.axes.len()).map(|axis| (axis, vec![0])).collect();
        let measured = Measured { definition, cells: &[], rows: &[], values: Vec::new(), disturbed: BTreeSet::new() };
        self.fill_at(&measured, &and(&first, &self.at)).map(drop)
    }

    fn fill_at(&self, measured: &Measured<'_>, chosen: &Chosen) -> Result<Grid, String> {
        let columns = self.columns(measured, chosen)?;
        let heads = columns.iter().map(|(head, ..)| head.clone()).collect();
        let choice = format!("{{{}}}", self.written.lines.get_ref());
        let line = |place: &usize| {
            let of_line = with(chosen, self.lines, *place);
            let label = self.written.label.as_ref().map_or(&choice, |label| label.get_ref());
            let cell = |(_, at, column): &(String, Chosen, &Column)| column.fill(measured, &and(&of_line, at));
            Ok((measured.fill(label, &of_line)?, columns.iter().map(cell).collect::<Result<_, String>>()?))
        };
        let order = self.sorted(measured, chosen);
        Ok(Grid { heads, lines: order.iter().map(line).collect::<Result<_, String>>()? })
    }

    fn sorted(&self, measured: &Measured<'_>, chosen: &Chosen) -> Vec<usize> {
        let mut order = self.order.clone();
        if let Some(sort) = &self.sort {
            let key = |place: &usize| {
                measured.value(sort, &with(chosen, self.lines, *place)).flatten().unwrap_or(f64::INFINITY)
            };
            let mut keyed: Vec<(f64, usize)> = order.iter().map(|place| (key(place), *place)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            order = keyed.into_iter().map(|(_, place)| place).collect();
        }
        order.truncate(self.written.keep.unwrap_or(usize::MAX));
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
                let at = and(&of_group, &column.at);
                let head = measured.fill(column.written.head.get_ref(), &and(chosen, &at))?;
                if !columns.iter().any(|(known, ..)| *known == head) {
                    columns.push((head, at, column));
                }
            }
        }
        Ok(columns)
    }
}

impl Column {
    /// Returns the text of a cell, or `None` if its runs are incomplete.
    fn fill(&self, measured: &Measured<'_>, chosen: &Chosen) -> Result<Option<String>, String> {
        let definition::Column { text, safety, .. } = &self.written;
        if let Some(text) = text {
            return measured.fill(text.get_ref(), chosen).map(Some);
        }
        if let Some(controller) = safety {
            let controller = measured.fill(controller.get_ref(), chosen)?;
            let controller = controller.parse::<Congestion>().map_err(|error| error.to_string())?;
            return Ok(Some(
                if controller.safety() == Safety::Internet { "internet" } else { "controlled" }.to_owned(),
            ));
        }
        match (&self.value, self.best) {
            (None, _) => Ok(self.chosen_words(measured, chosen)),
            (Some(value), None) => self.measured(value, measured, chosen),
            (Some(value), Some(over)) => self.best_over(over, value, measured, chosen),
        }
    }

    fn measured(&self, value: &Expression, measured: &Measured<'_>, chosen: &Chosen) -> Result<Option<String>, String> {
        let definition::Column { digits, also_digits, never, .. } = &self.written;
        let decimals = |digits: &Option<Text>| {
            let digits = digits.as_ref().map_or("1", |text| text.get_ref());
            let digits = measured.fill(digits, chosen)?;
            digits.parse::<usize>().map_err(|_| format!("{digits:?} is not a number of decimals"))
        };
        let (digits, also_digits) = (decimals(digits)?, decimals(also_digits)?);
        let Some(value) = measured.value(value, chosen) else { return Ok(None) };
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return Ok(Some(never.clone().unwrap_or_default()));
        };
        let mut text = format!("{value:.digits$}");
        if let Some(also) = &self.also
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

    /// Returns the best value among the choices on an axis, and the choice.
    fn best_over(
        &self,
        over: usize,
        value: &Expression,
        measured: &Measured<'_>,
        chosen: &Chosen,
    ) -> Result<Option<String>, String> {
        let better = self.written.better.as_ref().map_or("most", |better| better.get_ref());
        let sign = match measured.fill(better, chosen)?.as_str() {
            "most" => 1.0,
            "least" => -1.0,
            other => return Err(format!("{other:?} is neither most nor least")),
        };
        let mut best: Option<(f64, usize)> = None;
        for place in 0..measured.definition.axes[over].choices.len() {
            let Some(value) = measured.value(value, &with(chosen, over, place)) else { return Ok(None) };
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            if best.is_none_or(|(best, _)| sign * value > sign * best) {
                best = Some((value, place));
            }
        }
        let Some((_, place)) = best else { return Ok(Some(String::new())) };
        let text = self.measured(value, measured, &with(chosen, over, place))?.unwrap_or_default();
        Ok(Some(format!("{text} `{}`", measured.choice(over, place))))
    }

    /// Returns the first word whose condition holds, or, with an axis, all such words of its choices that differ from
    /// `otherwise`.
    fn chosen_words(&self, measured: &Measured<'_>, chosen: &Chosen) -> Option<String> {
        let otherwise = self.written.otherwise.as_deref().unwrap_or_default();
        let word = |chosen: &Chosen| {
            for (written, (when, at)) in self.written.words.iter().zip(&self.words) {
                if measured.value(when, &and(chosen, at))?.is_some_and(|value| value != 0.0) {
                    return Some(written.word.as_str());
                }
            }
            Some(otherwise)
        };
        let Some(each) = self.each else { return word(chosen).map(str::to_owned) };
        let places = 0..measured.definition.axes[each].choices.len();
        let mut all = places.map(|place| word(&with(chosen, each, place))).collect::<Option<BTreeSet<_>>>()?;
        all.remove(otherwise);
        Some(if all.is_empty() { otherwise.to_owned() } else { all.into_iter().collect::<Vec<_>>().join(", ") })
    }
}

impl Grid {
    pub fn is_measured(&self) -> bool {
        self.lines.iter().any(|(_, cells)| cells.iter().any(Option::is_some))
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

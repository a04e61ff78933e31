//! The cells and rule of each row.

use std::borrow::Cow;

use longhaul_link::statistics;

use super::check::unique;
use super::{Experiment, Lookup, Places};
use crate::cell::Cell;
use crate::definition::{self, Axis, Fault, Form, Kind, Metric, Statistic, Text, Values};
use crate::judge;
use crate::record::Record;
use crate::rule::Rule;

/// A row that can be judged, or is marked as not reproducible.
#[derive(Clone, Debug)]
pub struct Row {
    /// Identifier used in citations.
    pub id: String,
    /// Claim of the source, in one sentence; empty if it is not stated.
    pub claim: String,
    /// Whether the row is a claim of the source.
    pub kind: Kind,
    /// Criteria for judging it, if it is reproducible.
    pub judged: Option<Judged>,
    /// The values of the paper.
    pub paper: Vec<f64>,
    /// The paper's standard deviations of these values, or one for all.
    pub deviations: Vec<f64>,
    /// Reason why it is not reproducible, or the note on it.
    pub reason: String,
    /// `EXPERIMENT/ROW` in which the cause of its failure is isolated; empty if there is none.
    pub isolated_by: String,
}

/// Metric of a row, and the rule that judges it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Index of the metric.
    pub metric: usize,
    /// Indices of the cells, in the order of the paper.
    pub cells: Vec<usize>,
    /// Statistic over the runs of each cell.
    pub statistic: Statistic,
    /// Whether runs without a value are skipped.
    pub skip_missing: bool,
    /// Rule that our result has to satisfy.
    pub rule: Rule,
    /// The text of the rule.
    pub rule_text: String,
}

/// Returns the rows, with each row that has `each` replaced by one per choice on that axis.
pub(super) fn read(known: Lookup<'_>) -> Result<Vec<Row>, Fault> {
    let Lookup { definition, source, .. } = known;
    let mut rows = Vec::new();
    for row in &definition.rows {
        let Some(each) = &row.each else {
            rows.push(row.clone());
            continue;
        };
        let (axis, name) = (known.axis(each, "rows.each")?, each.get_ref());
        if row.at.contains_key(name) || row.over.as_ref().is_some_and(|over| over.get_ref() == name) {
            return Err(source.fault(each, "rows.each", format!("`at` or `over` also refers to the axis {name:?}")));
        }
        for choice in &definition.axes[axis].choices {
            let mut at = row.at.clone();
            at.insert(name.clone(), choice.name.clone());
            let id = format!("{}, {}", row.id.get_ref(), choice.name.get_ref());
            let chosen = |text: &Text| {
                let filled = text.get_ref().replace(&format!("{{{name}}}"), choice.name.get_ref());
                Text::new(text.span(), filled)
            };
            let (claim, isolated_by) = (row.claim.as_ref().map(chosen), row.isolated_by.as_ref().map(chosen));
            rows.push(definition::Row { id: Text::new(row.id.span(), id), claim, at, isolated_by, ..row.clone() });
        }
    }
    if let Some(row) = definition.rows.iter().find(|row| row.id.get_ref().is_empty()) {
        return Err(source.fault(&row.id, "rows.id", "an id must not be empty"));
    }
    unique(source, "rows.id", rows.iter().map(|row| &row.id))?;
    rows.iter().map(|row| Row::read(known, row)).collect()
}

impl Row {
    fn read(known: Lookup<'_>, row: &definition::Row) -> Result<Self, Fault> {
        let list = |values: &Option<Values>| values.as_ref().map_or_else(Vec::new, |values| values.list().to_vec());
        let (paper, deviations) = (list(&row.paper), list(&row.deviation));
        let reading = Reading { known, row };
        reading.numbers(&paper, &deviations)?;
        let (judged, reason) = match (&row.not_reproducible, &row.rule) {
            (Some(reason), None) => {
                reading.names()?;
                (None, reason.clone())
            }
            (None, Some(rule)) => (Some(reading.judged(rule, paper.len())?), row.note.clone().unwrap_or_default()),
            _ => {
                let id = row.id.get_ref();
                let what = format!("row {id} needs either `rule`, or `not-reproducible` with the reason");
                return Err(known.source.fault(row.rule.as_ref().unwrap_or(&row.id), "rows.rule", what));
            }
        };
        let text = |text: &Option<Text>| text.as_ref().map_or_else(String::new, |text| text.get_ref().clone());
        let (claim, isolated_by) = (text(&row.claim), text(&row.isolated_by));
        if let Some(other) = row.isolated_by.as_ref().filter(|other| !other.get_ref().contains('/')) {
            return Err(known.source.fault(other, "rows.isolated-by", "write EXPERIMENT/ROW"));
        }
        Ok(Self { id: row.id.get_ref().clone(), claim, kind: row.kind, judged, paper, deviations, reason, isolated_by })
    }
}

#[derive(Clone, Copy)]
struct Reading<'a> {
    known: Lookup<'a>,
    row: &'a definition::Row,
}

impl Reading<'_> {
    fn judged(self, rule_text: &Text, papers: usize) -> Result<Judged, Fault> {
        let row = self.row;
        let wrong = |what: String| self.known.source.fault(rule_text, "rows.rule", what);
        let rule = Rule::parse(rule_text.get_ref()).map_err(wrong)?;
        let (Some(metric), values) = self.names()? else {
            return Err(wrong(format!("row {} has no metric", row.id.get_ref())));
        };
        let cells: Vec<usize> = values.iter().map(|at| self.cell(at)).collect::<Result<_, _>>()?;
        if rule.compares() && cells.len() < 2 {
            return Err(wrong("a single value cannot be compared; `over` names an axis, `order` its choices".into()));
        }
        if (rule.needs_paper() || papers > 0) && papers != cells.len() {
            return Err(wrong(format!("{} values, but `paper` has {papers}", cells.len())));
        }
        let deviations = self.row.deviation.as_ref().map_or(0, |values| values.list().len());
        if rule.needs_deviation() && ![1, cells.len()].contains(&deviations) {
            return Err(wrong(format!("{} values, but `deviation` has {deviations}", cells.len())));
        }
        Ok(Judged {
            metric,
            cells,
            statistic: row.statistic,
            skip_missing: row.skip_missing,
            rule,
            rule_text: rule_text.get_ref().clone(),
        })
    }

    /// Checks that the paper's values are finite and that no deviation is negative.
    fn numbers(self, paper: &[f64], deviations: &[f64]) -> Result<(), Fault> {
        let of_paper = paper.iter().find(|value| !value.is_finite()).map(|value| ("rows.paper", value));
        let of_deviations = deviations.iter().find(|value| !(value.is_finite() && **value >= 0.0));
        let Some((field, value)) = of_paper.or(of_deviations.map(|value| ("rows.deviation", value))) else {
            return Ok(());
        };
        let what = if field == "rows.paper" { "is not a finite number" } else { "is not a standard deviation" };
        Err(self.known.source.beside(&self.row.id, field, format!("{value} {what}")))
    }

    /// Checks that the axes and choices of the row exist, whether it is judged or not. Returns its metric, and the
    /// choices of each of its values.
    fn names(self) -> Result<(Option<usize>, Vec<Places>), Fault> {
        let Self { known, row } = self;
        let metric = row.metric.as_ref().map(|metric| known.metric(metric, "rows.metric")).transpose()?;
        let at = known.at(&row.at, "rows.at")?;
        let Some(over) = &row.over else {
            return row.order.first().map_or(Ok((metric, vec![at])), |choice| {
                let what = "`order` needs `over`, the axis that its choices are on";
                Err(known.source.fault(choice, "rows.order", what))
            });
        };
        let wrong = |what: String| known.source.fault(over, "rows.over", what);
        let axis = known.axis(over, "rows.over")?;
        if at.contains_key(&axis) {
            return Err(wrong(format!("`at` also has a choice on the axis {:?}", over.get_ref())));
        }
        if row.order.is_empty() {
            return Err(wrong("`over` needs `order`, the choices on it in the paper's order".into()));
        }
        unique(known.source, "rows.order", row.order.iter())?;
        let along = |choice: &Text| {
            let place = known.place(axis, choice, "rows.order")?;
            Ok(at.iter().map(|(axis, place)| (*axis, *place)).chain([(axis, place)]).collect())
        };
        Ok((metric, row.order.iter().map(along).collect::<Result<_, _>>()?))
    }

    /// Returns the cell with these choices, which must include one on each axis that has several.
    fn cell(self, at: &Places) -> Result<usize, Fault> {
        let Self { known, row } = self;
        let open = |(nth, axis): &(usize, &Axis)| axis.choices.len() > 1 && !at.contains_key(nth);
        let open = known.definition.axes.iter().enumerate().find(open);
        let found = known.cells.iter().position(|cell| at.iter().all(|(axis, place)| cell.places[*axis] == *place));
        found.filter(|_| open.is_none()).ok_or_else(|| {
            let (id, name) = (row.id.get_ref(), open.map_or("", |(_, axis)| axis.name.get_ref()));
            let what = format!("row {id} needs a choice on the axis {name:?}");
            known.source.fault(row.rule.as_ref().unwrap_or(&row.id), "rows.at", what)
        })
    }
}

/// Base cells of a metric, and the form of the relation.
#[derive(Clone, Debug)]
pub(crate) struct Relative {
    /// The index of the base cell, for each cell.
    pub(crate) bases: Vec<usize>,
    pub(crate) form: Form,
}

impl Relative {
    pub(super) fn read(known: Lookup<'_>, metric: &Metric) -> Result<Option<Self>, Fault> {
        if metric.relative_to.is_empty() {
            return match metric.form {
                None => Ok(None),
                Some(_) => Err(known.source.fault(&metric.value, "metrics.form", "`form` needs `relative-to`")),
            };
        }
        let chosen = known.at(&metric.relative_to, "metrics.relative-to")?;
        let base = |cell: &Cell| {
            let places = cell.places.iter().enumerate();
            let places: Vec<usize> = places.map(|(axis, place)| chosen.get(&axis).copied().unwrap_or(*place)).collect();
            known.cells.iter().position(|other| other.places == places)
        };
        let bases = known.cells.iter().filter_map(base).collect();
        Ok(Some(Self { bases, form: metric.form.unwrap_or_default() }))
    }
}

impl Form {
    /// Combines the value of a run and the median of the base cell. Returns `None` if the result is not finite.
    fn of(self, value: f64, base: f64) -> Option<f64> {
        let related = match self {
            Self::Ratio => value / base,
            Self::Harm => (base - value) / base,
            Self::HarmOfLess => (value - base) / value,
        };
        related.is_finite().then_some(related)
    }
}

impl Experiment {
    /// Returns the records with the values of relative metrics in place of the measured values.
    pub(crate) fn related<'a>(&self, records: &'a [Record]) -> Cow<'a, [Record]> {
        let mut related = Cow::Borrowed(records);
        for (metric, relative) in self.relatives.iter().enumerate() {
            let Some(Relative { bases, form }) = relative else { continue };
            let median = |cell: &usize| {
                let values = judge::measured(records, *cell, metric).collect::<Option<Vec<f64>>>()?;
                statistics::median(&values)
            };
            let medians: Vec<Option<f64>> = bases.iter().map(median).collect();
            for record in related.to_mut() {
                let base = medians.get(record.cell).copied().flatten();
                if let Some(value) = record.values.get_mut(metric) {
                    *value = value.zip(base).and_then(|(value, base)| form.of(value, base));
                }
            }
        }
        related
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_by_hand() {
        // Ware, Mukerjee, Seshan and Sherry, HotNets 2019: a drop from 10 Mb/s alone to 4 Mb/s with a competitor is a
        // harm of 0.6. So is an increase from 4 s to 10 s.
        assert_eq!(Form::Harm.of(4.0, 10.0), Some(0.6));
        assert_eq!(Form::HarmOfLess.of(10.0, 4.0), Some(0.6));
        assert_eq!(Form::Ratio.of(4.0, 10.0), Some(0.4));
        assert_eq!(Form::Ratio.of(4.0, 0.0), None);
    }
}

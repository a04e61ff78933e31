//! What a paper's row is about, in our cells.

use super::Source;
use crate::cell::Cell;
use crate::definition::{self, Axis, Definition, Fault, Statistic, Text, Values};
use crate::rule::Rule;

/// A row that can be judged, or is known not to be.
#[derive(Clone, Debug)]
pub struct Row {
    /// By which it is cited.
    pub id: String,
    /// What it needs, if it is reproducible.
    pub judged: Option<Judged>,
    /// What the paper has.
    pub paper: Vec<f64>,
    /// The standard deviations that it has with them, or the one of all.
    pub deviations: Vec<f64>,
    /// Why it isn't reproducible, or what is to be known about it.
    pub reason: String,
}

/// What is measured for a row, and how it is judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The metric's place.
    pub metric: usize,
    /// The cells' places, in the paper's order.
    pub cells: Vec<usize>,
    /// What is taken of each cell's runs.
    pub statistic: Statistic,
    /// Whether runs without a value are left out.
    pub skip_missing: bool,
    /// The rule.
    pub rule: Rule,
    /// As it was written.
    pub rule_text: String,
}

/// The rows, and in place of one for each choice on an axis as many.
pub(super) fn expanded(definition: &Definition, source: Source<'_>) -> Result<Vec<definition::Row>, Fault> {
    let mut rows = Vec::new();
    for row in &definition.rows {
        let Some(each) = &row.each else {
            rows.push(row.clone());
            continue;
        };
        let Some(axis) = definition.axes.iter().find(|axis| axis.name.get_ref() == each.get_ref()) else {
            return Err(source.fault(each, "rows.each", format!("there is no axis {:?}", each.get_ref())));
        };
        for choice in &axis.choices {
            let mut at = row.at.clone();
            at.insert(each.get_ref().clone(), choice.name.clone());
            rows.push(definition::Row { id: format!("{}, {}", row.id, choice.name.get_ref()), at, ..row.clone() });
        }
    }
    Ok(rows)
}

impl Row {
    pub(super) fn read(
        definition: &Definition,
        cells: &[Cell],
        row: &definition::Row,
        source: Source<'_>,
    ) -> Result<Self, Fault> {
        let list = |values: &Option<Values>| values.as_ref().map_or_else(Vec::new, |values| values.list().to_vec());
        let (paper, deviations) = (list(&row.paper), list(&row.deviation));
        let reading = Reading { definition, cells, row, source };
        let (judged, reason) = match (&row.not_reproducible, &row.rule) {
            (Some(reason), None) => (None, reason.clone()),
            (None, Some(rule)) => (Some(reading.judged(rule, paper.len())?), row.remark.clone().unwrap_or_default()),
            _ => {
                let what = format!("row {} has either `rule`, or `not-reproducible` with what is missing", row.id);
                return Err(source.fault(row.rule.as_ref().unwrap_or(&definition.id), "rows.rule", what));
            }
        };
        Ok(Self { id: row.id.clone(), judged, paper, deviations, reason })
    }
}

#[derive(Clone, Copy)]
struct Reading<'a> {
    definition: &'a Definition,
    cells: &'a [Cell],
    row: &'a definition::Row,
    source: Source<'a>,
}

impl Reading<'_> {
    fn judged(self, rule_text: &Text, papers: usize) -> Result<Judged, Fault> {
        let row = self.row;
        let rule = Rule::parse(rule_text.get_ref()).map_err(|what| self.source.fault(rule_text, "rows.rule", what))?;
        let wrong = |what: String| self.source.fault(rule_text, "rows.rule", what);
        let Some(metric) = &row.metric else { return Err(wrong(format!("row {} has no metric", row.id))) };
        let place = self.definition.metrics.keys().position(|name| name == metric.get_ref()).ok_or_else(|| {
            let known: Vec<&str> = self.definition.metrics.keys().map(String::as_str).collect();
            let what = format!("there is no metric {:?}; there are: {}", metric.get_ref(), known.join(", "));
            self.source.fault(metric, "rows.metric", what)
        })?;
        let cells = self.cells()?;
        if rule.compares() && cells.len() < 2 {
            return Err(wrong(
                "only one value, and nothing to compare it with; `over` names an axis, `order` its choices".into(),
            ));
        }
        if rule.needs_paper() && papers != cells.len() {
            return Err(wrong(format!("{} values, but {papers} of the paper's in `paper`", cells.len())));
        }
        let deviations = self.row.deviation.as_ref().map_or(0, |values| values.list().len());
        if rule.needs_deviation() && ![1, cells.len()].contains(&deviations) {
            return Err(wrong(format!("{} values, but {deviations} of the paper's in `deviation`", cells.len())));
        }
        Ok(Judged {
            metric: place,
            cells,
            statistic: row.statistic,
            skip_missing: row.skip_missing,
            rule,
            rule_text: rule_text.get_ref().clone(),
        })
    }

    /// The cells that the row is about, in its order.
    fn cells(self) -> Result<Vec<usize>, Fault> {
        let (row, axes) = (self.row, &self.definition.axes);
        for (name, choice) in &row.at {
            if !axes.iter().any(|axis| axis.name.get_ref() == name) {
                return Err(self.source.fault(choice, "rows.at", format!("there is no axis {name:?}")));
            }
        }
        let mut chosen: Vec<Option<usize>> = Vec::new();
        for axis in axes {
            let name = axis.name.get_ref();
            let is_over = row.over.as_ref().is_some_and(|over| over.get_ref() == name);
            chosen.push(match row.at.get(name) {
                Some(choice) => Some(self.place(axis, choice, "rows.at")?),
                None if is_over => None,
                None if axis.choices.len() == 1 => Some(0),
                None => {
                    let what = format!("row {} chooses nothing on the axis {name:?}", row.id);
                    let at = row.rule.as_ref().unwrap_or(&self.definition.id);
                    return Err(self.source.fault(at, "rows.at", what));
                }
            });
        }
        let mut lines = vec![chosen];
        if let Some(over) = &row.over {
            let open = axes.iter().position(|axis| axis.name.get_ref() == over.get_ref());
            let Some(open) = open.filter(|open| lines[0][*open].is_none()) else {
                let what = format!("{:?} is no axis, or `at` chooses on it", over.get_ref());
                return Err(self.source.fault(over, "rows.over", what));
            };
            let along = |choice: &Text| {
                let mut line = lines[0].clone();
                line[open] = Some(self.place(&axes[open], choice, "rows.order")?);
                Ok(line)
            };
            lines = row.order.iter().map(along).collect::<Result<_, Fault>>()?;
        }
        let place = |line: &Vec<Option<usize>>| {
            self.cells
                .iter()
                .position(|cell| cell.places.iter().zip(line).all(|(place, wanted)| Some(*place) == *wanted))
        };
        Ok(lines.iter().filter_map(place).collect())
    }

    fn place(self, axis: &Axis, choice: &Text, field: &str) -> Result<usize, Fault> {
        place(axis, choice).map_err(|what| self.source.fault(choice, field, what))
    }
}

/// The place of a choice on an axis, or what is wrong with it.
pub(super) fn place(axis: &Axis, choice: &Text) -> Result<usize, String> {
    axis.choices.iter().position(|known| known.name.get_ref() == choice.get_ref()).ok_or_else(|| {
        let known: Vec<&str> = axis.choices.iter().map(|choice| choice.name.get_ref().as_str()).collect();
        format!(
            "{:?} is no choice on the axis {:?}; there are: {}",
            choice.get_ref(),
            axis.name.get_ref(),
            known.join(", ")
        )
    })
}

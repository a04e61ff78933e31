//! Comparison of the results in two folders.

use std::collections::BTreeMap;

use longhaul_link::statistics::sorted;
use longhaul_units::named;
use serde::Serialize;

use super::held::{Held, Results};
use super::tables::cell_name;
use crate::definition::{Form, Metric, Statistic};
use crate::experiment::Row;
use crate::judge::{self, Judged, Numbers};
use crate::measure::{self, Better};
use crate::record::Record;
use crate::rule::{Rule, Verdict};
use crate::stats;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub(crate) enum Change {
        /// A change towards the rule, or for a metric, in the better direction of its measure.
        Better = "better",
        /// A change in the opposite direction.
        Worse = "worse",
        /// A difference that may be due to chance: see [`stats::interval_of_difference`].
        Same = "same",
        /// A difference without a better direction, or a value that only one folder has.
        Changed = "changed",
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Comparison {
    /// Rows with different verdicts, or in only one of the folders.
    pub(crate) verdicts: Vec<RowChange>,
    pub(crate) rows: Vec<RowChange>,
    pub(crate) metrics: Vec<MetricChange>,
    pub(crate) unlike: Unlike,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RowChange {
    pub(crate) experiment: String,
    pub(crate) row: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) before: Option<Verdict>,
    pub(crate) after: Option<Verdict>,
    pub(crate) ours: [Option<Numbers>; 2],
    pub(crate) change: Change,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MetricChange {
    pub(crate) experiment: String,
    pub(crate) cell: String,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) medians: [Option<f64>; 2],
    /// Lower bound of the 95 % interval of the difference, second minus first.
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) change: Change,
}

/// Experiments that could not be compared, or only partly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Unlike {
    pub(crate) only_before: Vec<String>,
    pub(crate) only_after: Vec<String>,
    /// Experiments with missing runs in one of the folders. Their values are not compared.
    pub(crate) incomplete: Vec<String>,
    /// Experiments with different texts. Rows and cells with the same names are compared.
    pub(crate) other_text: Vec<String>,
}

impl Comparison {
    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.verdicts.is_empty() && self.metrics.is_empty() && self.unlike.incomplete.is_empty()
    }

    /// Returns rows that were reproduced in the first folder, but are not in the second, or are unknown there because
    /// runs are missing.
    pub(crate) fn lost(&self) -> impl Iterator<Item = &RowChange> {
        self.verdicts.iter().filter(|row| row.before == Some(Verdict::Reproduced))
    }
}

pub(crate) fn compare(before: &Results, after: &Results) -> Comparison {
    let only = |one: &Results, other: &Results| {
        let ids = one.experiments.iter().map(Held::id).filter(|id| other.find(id).is_none());
        ids.map(str::to_owned).collect()
    };
    let unlike = Unlike { only_before: only(before, after), only_after: only(after, before), ..Unlike::default() };
    let mut comparison = Comparison { unlike, ..Comparison::default() };
    for held in &before.experiments {
        if let Some(other) = after.find(held.id()) {
            comparison.add(held, other);
        }
    }
    comparison
}

impl Comparison {
    fn add(&mut self, before: &Held, after: &Held) {
        let id = before.id().to_owned();
        if before.experiment.text != after.experiment.text {
            self.unlike.other_text.push(id.clone());
        }
        let (was, is) = match (before.rows(), after.rows()) {
            (Some(before), Some(after)) => (before, after),
            (before, _) => {
                self.unlike.incomplete.push(id);
                let reproduced = before.iter().flatten().filter(|row| row.verdict == Verdict::Reproduced);
                self.verdicts.extend(reproduced.map(|row| RowChange::new(row, [Some(row), None], Change::Changed)));
                return;
            }
        };
        let [records_before, records_after] = [before, after].map(|held| held.experiment.related(&held.records));
        let alike = |row: &&Judged, other: &Judged| row.row == other.row && row.metric == other.metric;
        for (row, judged) in before.experiment.rows.iter().zip(&was) {
            let mut others = after.experiment.rows.iter().zip(&is);
            let (other, change) = match others.find(|(_, other)| alike(other, judged)) {
                None => (None, Change::Changed),
                Some((now, other)) => (
                    Some(other),
                    verdicts(judged.verdict, other.verdict)
                        .unwrap_or_else(|| values(row, each(row, &records_before), each(now, &records_after))),
                ),
            };
            let change = RowChange::new(judged, [Some(judged), other], change);
            let list = if change.before == change.after { &mut self.rows } else { &mut self.verdicts };
            list.push(change);
        }
        let new = is.iter().filter(|row| !was.iter().any(|other| alike(row, other)));
        self.verdicts.extend(new.map(|row| RowChange::new(row, [None, Some(row)], Change::Changed)));
        self.metrics.extend(metric_changes([before, after], [&*records_before, &*records_after]));
    }
}

/// Returns the values of the runs for each cell of a row, or `None` if one cannot be measured.
fn each(row: &Row, records: &[Record]) -> Option<Vec<Vec<f64>>> {
    let judged = row.judged.as_ref()?;
    judged.cells.iter().map(|cell| judge::values(records, *cell, judged)).collect()
}

impl RowChange {
    fn new(named: &Judged, both: [Option<&Judged>; 2], change: Change) -> Self {
        let Judged { experiment, row, metric, unit, .. } = named.clone();
        let [before, after] = both.map(|judged| judged.map(|judged| judged.verdict));
        let ours = both.map(|judged| judged.map(|judged| judged.ours.clone()));
        Self { experiment, row, metric, unit, before, after, ours, change }
    }
}

/// Compares verdicts. Returns `None` if they are equal.
fn verdicts(before: Verdict, after: Verdict) -> Option<Change> {
    match (before, after) {
        (same, now) if same == now => None,
        (_, Verdict::Reproduced) => Some(Change::Better),
        (Verdict::Reproduced, _) => Some(Change::Worse),
        _ => Some(Change::Changed),
    }
}

fn values(row: &Row, before: Option<Vec<Vec<f64>>>, after: Option<Vec<Vec<f64>>>) -> Change {
    let (before, after) = match (before, after) {
        (None, None) => return Change::Same,
        (Some(before), Some(after)) if before.len() == after.len() => (before, after),
        _ => return Change::Changed,
    };
    let Some(judged) = &row.judged else { return Change::Same };
    let of = |sorted: &[f64]| judged.statistic.of(sorted);
    let is_same = |(before, after): (&Vec<f64>, &Vec<f64>)| match stats::interval_of_difference(after, before, of) {
        Some([low, high]) => low <= 0.0 && high >= 0.0,
        // If runs may be skipped, all runs may be without a value.
        None => before.is_empty() && after.is_empty(),
    };
    if before.iter().zip(&after).all(is_same) {
        return Change::Same;
    }
    let ours =
        |cells: &[Vec<f64>]| cells.iter().filter_map(|values| of(&sorted(values.iter().copied()))).collect::<Vec<_>>();
    let distance = |cells: &[Vec<f64>]| miss(judged.rule, &ours(cells), &row.paper);
    match (distance(&before), distance(&after)) {
        (Some(before), Some(after)) if after < before => Change::Better,
        (Some(before), Some(after)) if after > before => Change::Worse,
        _ => Change::Changed,
    }
}

fn metric_changes([before, after]: [&Held; 2], [records_before, records_after]: [&[Record]; 2]) -> Vec<MetricChange> {
    let mut changes = Vec::new();
    let cells = 0..after.experiment.cells.len();
    let places: BTreeMap<String, usize> = cells.map(|cell| (cell_name(&after.experiment, cell), cell)).collect();
    for cell in 0..before.experiment.cells.len() {
        let name = cell_name(&before.experiment, cell);
        let Some(now) = places.get(&name).copied() else { continue };
        for (metric, (key, definition)) in before.experiment.definition.metrics.iter().enumerate() {
            let Some(place) = after.experiment.definition.metrics.keys().position(|other| other == key) else {
                continue;
            };
            let was: Option<Vec<f64>> = judge::measured(records_before, cell, metric).collect();
            let is: Option<Vec<f64>> = judge::measured(records_after, now, place).collect();
            let median = |sorted: &[f64]| Statistic::Median.of(sorted);
            let both = was.as_ref().zip(is.as_ref());
            let interval = both.and_then(|(was, is)| stats::interval_of_difference(is, was, median));
            let better = direction(definition);
            changes.push(MetricChange {
                experiment: before.id().into(),
                cell: name.clone(),
                metric: key.clone(),
                unit: definition.unit.clone(),
                medians: [&was, &is].map(|values| median(&sorted(values.iter().flatten().copied()))),
                low: interval.map(|[low, _]| low),
                high: interval.map(|[_, high]| high),
                change: match interval {
                    None if was.is_none() && is.is_none() => Change::Same,
                    None => Change::Changed,
                    Some(interval) => moved(better, interval),
                },
            });
        }
    }
    changes
}

/// Returns the direction of a metric that is a single measure or its ratio to another cell. Other metrics have none.
fn direction(metric: &Metric) -> Better {
    match metric.form {
        None | Some(Form::Ratio) => of_expression(metric.value.get_ref()),
        Some(_) => Better::Unknown,
    }
}

fn of_expression(expression: &str) -> Better {
    let Some((name, rest)) = expression.trim().split_once('(') else { return Better::Unknown };
    let is_alone = rest.find(')') == Some(rest.len().saturating_sub(1));
    measure::find(name.trim()).filter(|_| is_alone).map_or(Better::Unknown, |measure| measure.better)
}

fn moved(better: Better, [low, high]: [f64; 2]) -> Change {
    match better {
        _ if low <= 0.0 && high >= 0.0 => Change::Same,
        Better::Unknown => Change::Changed,
        Better::More if low > 0.0 => Change::Better,
        Better::Less if high < 0.0 => Change::Better,
        Better::More | Better::Less => Change::Worse,
    }
}

/// Returns the distance of values from meeting a rule; less is better. Returns `None` for rules without a distance.
fn miss(rule: Rule, ours: &[f64], paper: &[f64]) -> Option<f64> {
    let most = |values: &mut dyn Iterator<Item = f64>| values.max_by(f64::total_cmp);
    match rule {
        Rule::Exact
        | Rule::Within(_)
        | Rule::Near(_)
        | Rule::Factor(_)
        | Rule::Binomial(..)
        | Rule::WithinDeviations(_) => {
            let of = |(ours, paper): (&f64, &f64)| (ours - paper).abs() / if *paper == 0.0 { 1.0 } else { paper.abs() };
            Some(ours.iter().zip(paper).map(of).sum())
        }
        Rule::AtLeast(_) | Rule::NotBelow(_) => most(&mut ours.iter().map(|ours| -ours)),
        Rule::AtMost(_) => most(&mut ours.iter().copied()),
        Rule::Decreasing(_) | Rule::NotIncreasing => most(&mut ours.windows(2).map(|two| two[1] - two[0])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_measures_have_a_direction() {
        assert_eq!(of_expression("goodput(x)"), Better::More);
        assert_eq!(of_expression(" completion(x) "), Better::Less);
        assert_eq!(of_expression("delay(p95, {from}, 9s)"), Better::Less);
        assert_eq!(of_expression("converged(x)"), Better::Less);
        assert_eq!(of_expression("nothing(x)"), Better::Unknown);
        for text in ["goodput(x) / goodput(y)", "1 - jain(x)", "sent(x, 2s)", "100 * resent(x)", "2", ""] {
            assert_eq!(of_expression(text), Better::Unknown, "{text}");
        }
    }

    #[test]
    fn differences_beyond_chance_are_better_or_worse() {
        assert_eq!(moved(Better::More, [1.0, 2.0]), Change::Better);
        assert_eq!(moved(Better::More, [-2.0, -1.0]), Change::Worse);
        assert_eq!(moved(Better::Less, [-2.0, -1.0]), Change::Better);
        assert_eq!(moved(Better::Less, [1.0, 2.0]), Change::Worse);
        assert_eq!(moved(Better::Unknown, [1.0, 2.0]), Change::Changed);
        for better in [Better::More, Better::Less, Better::Unknown] {
            assert_eq!(moved(better, [-1.0, 2.0]), Change::Same);
            assert_eq!(moved(better, [0.0, 0.0]), Change::Same);
        }
    }

    #[test]
    fn values_nearer_to_the_rule_miss_less() {
        for (text, paper, near, far) in [
            ("exact", &[5.0][..], &[5.1][..], &[4.0][..]),
            ("within 10%", &[5.0, 0.0], &[5.1, 0.1], &[5.1, 0.3]),
            ("at least 3", &[], &[3.0], &[2.0]),
            ("at most 3", &[], &[3.0], &[4.0]),
            ("decreasing", &[], &[5.0, 3.0, 1.0], &[5.0, 3.0, 2.0]),
        ] {
            let rule = Rule::parse(text).unwrap();
            assert!(miss(rule, near, paper) < miss(rule, far, paper), "{text}");
        }
    }
}

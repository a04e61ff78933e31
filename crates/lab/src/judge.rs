//! Judgement of the rows.

use std::collections::BTreeMap;

use longhaul_units::statistics::{mean, median, population_deviation, sorted};
use serde::{Deserialize, Serialize};

use crate::definition::Statistic;
use crate::experiment::{Experiment, Row, rows};
use crate::record::Record;
use crate::rule::Verdict;
use crate::stats;

/// A judged row, as it is printed and stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Judged {
    /// The identifier of the experiment.
    pub experiment: String,
    /// The identifier of the row.
    pub row: String,
    /// The name of the metric.
    pub metric: String,
    /// The unit of the metric.
    pub unit: String,
    /// The paper's value, or a list if the rule compares values.
    pub paper: Numbers,
    /// Our values: medians over the runs, or the statistic that the row specifies.
    pub ours: Numbers,
    /// Lower bounds of their 95 % intervals, by bootstrap.
    pub low: Numbers,
    /// Upper bounds of these intervals.
    pub high: Numbers,
    /// The text of the rule.
    pub rule: String,
    /// The result.
    pub verdict: Verdict,
    /// The reason or note of the row, and the number of runs skipped because they have no value.
    pub reason: String,
    /// Number of runs per value; the minimum over the cells.
    pub seeds: u32,
}

/// A number, or a list in the order of the paper. Unmeasured values are `None`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Numbers {
    /// A single number.
    One(Option<f64>),
    /// A list of numbers.
    Many(Vec<Option<f64>>),
}

impl Numbers {
    pub(crate) fn list(&self) -> &[Option<f64>] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    fn new(mut values: Vec<Option<f64>>, compares: bool) -> Self {
        if compares || values.len() > 1 { Self::Many(values) } else { Self::One(values.pop().flatten()) }
    }
}

/// Numbers of rows by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) reproduced: usize,
    pub(crate) not_reproduced: usize,
    pub(crate) not_reproducible: usize,
    /// Rows of experiments with missing runs, which have no verdict.
    pub(crate) incomplete: usize,
}

impl Counts {
    /// Counts the rows of an experiment; `judged` is `None` if runs are missing.
    pub(crate) fn add(&mut self, experiment: &Experiment, judged: Option<&[Judged]>) {
        let Some(judged) = judged else {
            self.incomplete += experiment.rows.len();
            return;
        };
        for row in judged {
            match row.verdict {
                Verdict::Reproduced => self.reproduced += 1,
                Verdict::NotReproduced => self.not_reproduced += 1,
                Verdict::NotReproducible => self.not_reproducible += 1,
            }
        }
    }

    /// Counts the rows of experiments by paper.
    pub(crate) fn by_paper<'a>(
        all: impl Iterator<Item = (&'a Experiment, Option<&'a [Judged]>)>,
    ) -> BTreeMap<String, Self> {
        let mut papers: BTreeMap<String, Self> = BTreeMap::new();
        for (experiment, judged) in all {
            papers.entry(paper(&experiment.definition.source)).or_default().add(experiment, judged);
        }
        papers
    }

    pub(crate) const fn with(&self, verdict: Verdict) -> usize {
        match verdict {
            Verdict::Reproduced => self.reproduced,
            Verdict::NotReproduced => self.not_reproduced,
            Verdict::NotReproducible => self.not_reproducible,
        }
    }
}

/// Returns the part of a source before its table, figure or section.
pub(crate) fn paper(source: &str) -> String {
    const PLACES: [&str; 6] = ["table", "figure", "section", "fig.", "tab.", "page"];
    let is_place = |part: &str| PLACES.iter().any(|place| part.trim_start().to_lowercase().starts_with(place));
    let parts = source.split(',').take_while(|part| !is_place(part));
    parts.collect::<Vec<_>>().join(",")
}

/// Judges all rows of an experiment.
#[must_use]
pub fn judge(experiment: &Experiment, records: &[Record], seeds: u32) -> Vec<Judged> {
    let records = experiment.related(records);
    experiment.rows.iter().map(|row| judge_row(experiment, row, &records, seeds)).collect()
}

fn judge_row(experiment: &Experiment, row: &Row, records: &[Record], seeds: u32) -> Judged {
    let id = experiment.id().to_owned();
    let paper: Vec<Option<f64>> = row.paper.iter().copied().map(Some).collect();
    // A row without a rule is not reproducible and has no values.
    let Some(judged) = &row.judged else {
        let none = || Numbers::One(None);
        return Judged {
            experiment: id,
            row: row.id.clone(),
            metric: String::new(),
            unit: String::new(),
            paper: Numbers::new(paper, false),
            ours: none(),
            low: none(),
            high: none(),
            rule: String::new(),
            verdict: Verdict::NotReproducible,
            reason: row.reason.clone(),
            seeds: 0,
        };
    };
    // The estimates of all cells of the row: lower bound, value and upper bound.
    let compares = judged.rule.compares();
    let each: Vec<Option<[f64; 3]>> = judged.cells.iter().map(|cell| estimate(records, *cell, judged)).collect();
    let pick = |nth: usize| Numbers::new(each.iter().map(|each| each.map(|each| each[nth])).collect(), compares);
    // The rule applies to the values. If one is missing, the row is not reproduced.
    let ours: Option<Vec<f64>> = each.iter().map(|each| each.map(|[_, ours, _]| ours)).collect();
    let used = used(records, judged, seeds);
    let holds = ours.is_some_and(|ours| judged.rule.holds(&ours, &row.paper, &row.deviations));
    let (name, metric) =
        experiment.definition.metrics.iter().nth(judged.metric).map_or(("", ""), |(n, m)| (n, &m.unit));
    Judged {
        experiment: id,
        row: row.id.clone(),
        metric: name.into(),
        unit: metric.into(),
        paper: Numbers::new(paper, compares && !row.paper.is_empty()),
        ours: pick(1),
        low: pick(0),
        high: pick(2),
        rule: judged.rule_text.clone(),
        verdict: if holds { Verdict::Reproduced } else { Verdict::NotReproduced },
        reason: with_left_out(&row.reason, seeds - used, seeds),
        seeds: used,
    }
}

/// Returns the number of runs with a value in the cell that has the fewest. It is less than `seeds` only if runs may
/// be skipped.
fn used(records: &[Record], row: &rows::Judged, seeds: u32) -> u32 {
    let of = |cell: &usize| values(records, *cell, row).map_or(seeds, |values| values.len() as u32);
    row.cells.iter().map(of).min().map_or(seeds, |least| least.min(seeds))
}

fn with_left_out(reason: &str, left_out: u32, seeds: u32) -> String {
    if left_out == 0 {
        return reason.to_owned();
    }
    let told = format!("{left_out} of {seeds} runs have no value and are left out");
    if reason.is_empty() { told } else { format!("{reason}; {told}") }
}

/// Returns a row's statistic over the runs of a cell, between the bounds of its interval, or `None` if a run has no
/// value.
pub(crate) fn estimate(records: &[Record], cell: usize, row: &rows::Judged) -> Option<[f64; 3]> {
    let values = values(records, cell, row)?;
    let [low, high] = stats::interval(&values, |sorted| row.statistic.of(sorted))?;
    Some([low, row.statistic.of(&sorted(values))?, high])
}

/// Returns a row's metric in each run of a cell, or `None` if a run has no value and may not be skipped.
pub(crate) fn values(records: &[Record], cell: usize, row: &rows::Judged) -> Option<Vec<f64>> {
    let values = measured(records, cell, row.metric);
    if row.skip_missing { Some(values.flatten().collect()) } else { values.collect() }
}

pub(crate) fn measured(records: &[Record], cell: usize, metric: usize) -> impl Iterator<Item = Option<f64>> {
    let of_cell = records.iter().filter(move |record| record.cell == cell);
    of_cell.map(move |record| record.values.get(metric).copied().flatten())
}

impl Statistic {
    /// Computes the statistic of sorted values. Returns `None` without values.
    pub(crate) fn of(self, sorted: &[f64]) -> Option<f64> {
        match self {
            Self::Median => median(sorted),
            Self::Mean => mean(sorted),
            Self::Deviation => population_deviation(sorted),
            Self::Least => sorted.first().copied(),
            Self::Most => sorted.last().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    #[test]
    fn papers_are_separated_from_places_in_them() {
        assert_eq!(paper("Leung, Yeung, ISCC 2004, figure 7"), "Leung, Yeung, ISCC 2004");
        assert_eq!(paper("NASA/TM-2000-1, Tables 3 and 4, page 9"), "NASA/TM-2000-1");
        assert_eq!(paper("nobody"), "nobody");
    }

    #[test]
    fn statistics_match_values_computed_by_hand() {
        let of = |statistic: Statistic, values: &[f64]| statistic.of(values);
        assert_eq!(of(Statistic::Median, &[1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(of(Statistic::Median, &[1.0, 2.0, 3.0, 4.0]), Some(2.5));
        assert_eq!(of(Statistic::Mean, &[0.0, 1.0, 1.0, 1.0]), Some(0.75));
        assert_eq!(of(Statistic::Deviation, &[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some(2.0));
        assert_eq!((of(Statistic::Least, &[1.0, 2.0]), of(Statistic::Most, &[1.0, 2.0])), (Some(1.0), Some(2.0)));
        assert_eq!(of(Statistic::Median, &[]), None);
    }

    #[test]
    fn a_run_without_a_value_leaves_none() {
        let run = |cell, value| Record { cell, values: vec![value], ..Record::default() };
        let (cells, rule, rule_text) = (vec![3], Rule::Exact, String::new());
        let mut row =
            rows::Judged { metric: 0, cells, statistic: Statistic::Median, skip_missing: false, rule, rule_text };
        let runs = [3.0, 1.0, 2.0].map(|value| run(3, Some(value)));
        assert_eq!(estimate(&runs, 3, &row), Some([1.0, 2.0, 3.0]));
        assert_eq!(estimate(&[run(3, Some(1.0)), run(3, None)], 3, &row), None);
        assert_eq!(estimate(&[run(3, Some(1.0))], 2, &row), None);
        row.skip_missing = true;
        assert_eq!(estimate(&[run(3, Some(1.0)), run(3, None)], 3, &row), Some([1.0; 3]));
        assert_eq!(estimate(&[run(3, None)], 3, &row), None);

        row.cells = vec![3, 4];
        let runs = [run(3, Some(1.0)), run(3, None), run(3, None), run(4, None), run(4, Some(1.0)), run(4, Some(2.0))];
        assert_eq!(used(&runs, &row, 3), 1);
        row.skip_missing = false;
        assert_eq!(used(&runs, &row, 3), 3);
        assert_eq!(with_left_out("bursts", 2, 3), "bursts; 2 of 3 runs have no value and are left out");
        assert_eq!(with_left_out("", 0, 3), "");
    }
}

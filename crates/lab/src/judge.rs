//! Judgement of the rows.

use std::collections::BTreeMap;

use longhaul_link::statistics::{mean, median, population_deviation, sorted};
use serde::Serialize;

use crate::definition::{Kind, Statistic};
use crate::experiment::{Experiment, Row, rows};
use crate::record::Record;
use crate::rule::Verdict;
use crate::stats;

/// Classes of rows that are not reproduced, with which their notes begin.
pub const CLASSES: [&str; 3] = ["Unknown setting", "Contradiction within the paper", "Our fault"];

/// A judged row, as printed and stored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The identifier of the experiment.
    pub experiment: String,
    /// The identifier of the row.
    pub row: String,
    /// The source, without table, figure or section.
    pub paper: String,
    /// Claim of the source, in one sentence; empty if the row does not state it.
    pub claim: String,
    /// Whether the row is a claim of the source.
    pub kind: Kind,
    /// The name of the metric.
    pub metric: String,
    /// The unit of the metric.
    pub unit: String,
    /// The paper's value, or a list if the rule compares values.
    pub paper_value: Numbers,
    /// Our values: medians over the runs, or the statistic that the row specifies.
    pub ours: Numbers,
    /// Bounds of their 95 % intervals, by bootstrap.
    pub interval: Intervals,
    /// If the rule compares values: bounds of the 95 % intervals of the margins by which its conditions hold, which are
    /// the differences for `decreasing`. Empty if there is a single run.
    pub margins: Vec<[f64; 2]>,
    /// The text of the rule.
    pub rule: String,
    /// Result of applying the rule.
    pub verdict: Verdict,
    /// The reason or note of the row, and the number of runs skipped because they have no value.
    pub reason: String,
    /// `EXPERIMENT/ROW` in which the cause is isolated if the row is not reproduced; empty if no row is named.
    pub isolated_by: String,
    /// Number of runs per value, as the minimum over the cells. Identical runs count as one.
    pub seeds: u32,
}

impl Judged {
    /// Returns false if the row is a claim that is not reproduced.
    pub(crate) fn is_well(&self) -> bool {
        self.kind != Kind::Claim || self.verdict != Verdict::NotReproduced
    }
}

/// The bounds of an interval, or a list in the order of the paper. Unmeasured values have none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Intervals {
    /// A single interval.
    One(Option<[f64; 2]>),
    /// A list of intervals.
    Many(Vec<Option<[f64; 2]>>),
}

impl Intervals {
    pub(crate) fn list(&self) -> &[Option<[f64; 2]>] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    fn new(mut values: Vec<Option<[f64; 2]>>, compares: bool) -> Self {
        if compares || values.len() > 1 { Self::Many(values) } else { Self::One(values.pop().flatten()) }
    }
}

/// A number, or a list in the order of the paper. Unmeasured values are `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// Numbers of rows by verdict, for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) claims: Tally,
    pub(crate) robustness: Tally,
    pub(crate) model: Tally,
}

/// Numbers of rows of a kind by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) reproduced: usize,
    pub(crate) undecided: usize,
    pub(crate) not_reproduced: usize,
    pub(crate) not_reproducible: usize,
    /// Rows of experiments with missing runs, which have no verdict.
    pub(crate) incomplete: usize,
}

impl Counts {
    /// Counts the rows of an experiment; `judged` is `None` if runs are missing.
    pub(crate) fn add(&mut self, experiment: &Experiment, judged: Option<&[Judged]>) {
        let Some(judged) = judged else {
            for row in &experiment.rows {
                self.of_mut(row.kind).incomplete += 1;
            }
            return;
        };
        for row in judged {
            self.of_mut(row.kind).add(row.verdict);
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

    pub(crate) const fn of(&self, kind: Kind) -> &Tally {
        match kind {
            Kind::Claim => &self.claims,
            Kind::Robustness => &self.robustness,
            Kind::Model => &self.model,
        }
    }

    const fn of_mut(&mut self, kind: Kind) -> &mut Tally {
        match kind {
            Kind::Claim => &mut self.claims,
            Kind::Robustness => &mut self.robustness,
            Kind::Model => &mut self.model,
        }
    }
}

impl Tally {
    pub(crate) const fn with(mut self, verdict: Verdict) -> usize {
        *self.with_mut(verdict)
    }

    const fn with_mut(&mut self, verdict: Verdict) -> &mut usize {
        match verdict {
            Verdict::Reproduced => &mut self.reproduced,
            Verdict::Undecided => &mut self.undecided,
            Verdict::NotReproduced => &mut self.not_reproduced,
            Verdict::NotReproducible => &mut self.not_reproducible,
        }
    }

    /// Counts a row.
    pub(crate) const fn add(&mut self, verdict: Verdict) {
        *self.with_mut(verdict) += 1;
    }

    /// Returns the number of rows that were measured.
    pub(crate) const fn measured(&self) -> usize {
        self.reproduced + self.undecided + self.not_reproduced
    }

    pub(crate) const fn all(&self) -> usize {
        self.measured() + self.not_reproducible + self.incomplete
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
    let paper_values: Vec<Option<f64>> = row.paper.iter().copied().map(Some).collect();
    // A row without a rule is not reproducible and has no values.
    let mut told = Judged {
        experiment: experiment.id().to_owned(),
        row: row.id.clone(),
        paper: paper(&experiment.definition.source),
        claim: row.claim.clone(),
        kind: row.kind,
        metric: String::new(),
        unit: String::new(),
        paper_value: Numbers::new(paper_values.clone(), false),
        ours: Numbers::One(None),
        interval: Intervals::One(None),
        margins: Vec::new(),
        rule: String::new(),
        verdict: Verdict::NotReproducible,
        reason: row.reason.clone(),
        isolated_by: row.isolated_by.clone(),
        seeds: 0,
    };
    let Some(judged) = &row.judged else { return told };
    // The estimates of all cells of the row: lower bound, value and upper bound.
    let compares = judged.rule.compares();
    let each: Vec<Option<[f64; 3]>> = judged.cells.iter().map(|cell| estimate(records, *cell, judged)).collect();
    if let Some((name, metric)) = experiment.definition.metrics.iter().nth(judged.metric) {
        (told.metric, told.unit) = (name.clone(), metric.unit.clone());
    }
    told.paper_value = Numbers::new(paper_values, compares && !row.paper.is_empty());
    told.ours = Numbers::new(each.iter().map(|each| each.map(|[_, ours, _]| ours)).collect(), compares);
    told.interval = Intervals::new(each.iter().map(|each| each.map(|[low, _, high]| [low, high])).collect(), compares);
    told.rule.clone_from(&judged.rule_text);
    // The rule applies to the values. If one is missing, the row is not reproduced.
    let ours: Option<Vec<f64>> = each.iter().map(|each| each.map(|[_, ours, _]| ours)).collect();
    let holds = ours.is_some_and(|ours| judged.rule.holds(&ours, &row.paper, &row.deviations));
    told.verdict = if holds { Verdict::Reproduced } else { Verdict::NotReproduced };
    let used = used(records, judged, seeds);
    told.seeds = used;
    let mut reasons = vec![row.reason.clone()];
    if used < seeds {
        reasons.push(format!("{} of {seeds} runs have no value and are left out", seeds - used));
    }
    if are_identical(records, &judged.cells) {
        told.seeds = 1;
        reasons.push(format!("all {used} runs are identical, as nothing in them is random, and count as one"));
    } else if judged.rule.has_margins() && each.iter().all(Option::is_some) {
        match margins(records, judged) {
            Some(margins) => {
                told.verdict = decided(&margins, judged.rule.holds_if_equal());
                told.margins = margins;
            }
            // An experiment that requests a single run has nothing random.
            None if experiment.definition.runs == 1 => {}
            None => {
                told.verdict = Verdict::Undecided;
                reasons.push("a single run does not tell a difference from chance".into());
            }
        }
    } else if used == 1 && experiment.definition.runs > 1 && judged.statistic != Statistic::Median {
        told.verdict = Verdict::Undecided;
        reasons.push("a single run has no mean, deviation or extreme".into());
    } else if !judged.rule.compares() && matches!(judged.statistic, Statistic::Median | Statistic::Mean) {
        // Resampling says little about an extreme or a deviation.
        let intervals: Option<Vec<[f64; 2]>> = told.interval.list().iter().copied().collect();
        if intervals.is_some_and(|all| judged.rule.is_crossed(&all, &row.paper, &row.deviations)) {
            told.verdict = Verdict::Undecided;
        }
    }
    reasons.retain(|reason| !reason.is_empty());
    told.reason = reasons.join("; ");
    told
}

/// Returns whether each of these cells has several runs, all with the same values for all metrics.
fn are_identical(records: &[Record], cells: &[usize]) -> bool {
    cells.iter().all(|cell| {
        let mut of_cell = records.iter().filter(|record| record.cell == *cell);
        let first = of_cell.next();
        let mut others = of_cell.peekable();
        others.peek().is_some() && others.all(|record| first.is_some_and(|first| first.values == record.values))
    })
}

/// Returns the 95 % intervals of the margins of a row whose rule compares values, or `None` for a single run. Runs with
/// the same seed have the same random events, so they are paired, unless some have no value.
fn margins(records: &[Record], row: &rows::Judged) -> Option<Vec<[f64; 2]>> {
    let by_seed = |cell: &usize| -> BTreeMap<u64, f64> {
        let of_cell = records.iter().filter(|record| record.cell == *cell);
        of_cell.filter_map(|record| Some((record.seed, (*record.values.get(row.metric)?)?))).collect()
    };
    let cells: Vec<BTreeMap<u64, f64>> = row.cells.iter().map(by_seed).collect();
    let are_paired = cells.windows(2).all(|two| two[0].keys().eq(two[1].keys()));
    let samples: Vec<Vec<f64>> = cells.iter().map(|cell| cell.values().copied().collect()).collect();
    stats::intervals_of_several(&samples, are_paired, |samples| {
        let of = |sample: &Vec<f64>| row.statistic.of(&sorted(sample.iter().copied()));
        Some(row.rule.margins(&samples.iter().map(of).collect::<Option<Vec<f64>>>()?))
    })
}

/// Returns the verdict of a rule with these intervals of its margins. A margin that is 0 in all resamples is decided.
fn decided(margins: &[[f64; 2]], holds_if_equal: bool) -> Verdict {
    let is_none = |[low, high]: &[f64; 2]| *low == 0.0 && *high == 0.0;
    let is_missed = |margin: &[f64; 2]| margin[1] < 0.0 || (is_none(margin) && !holds_if_equal);
    let is_met = |margin: &[f64; 2]| margin[0] > 0.0 || (is_none(margin) && holds_if_equal);
    match margins {
        margins if margins.iter().any(is_missed) => Verdict::NotReproduced,
        margins if margins.iter().all(is_met) => Verdict::Reproduced,
        _ => Verdict::Undecided,
    }
}

/// Returns the number of runs with a value in the cell with the fewest such runs. It is less than `seeds` only if runs
/// may be skipped.
fn used(records: &[Record], row: &rows::Judged, seeds: u32) -> u32 {
    let of = |cell: &usize| values(records, *cell, row).map_or(seeds, |values| values.len() as u32);
    row.cells.iter().map(of).min().map_or(seeds, |least| least.min(seeds))
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
    }
}

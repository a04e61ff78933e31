//! The values of a cell's runs.

use longhaul_units::statistics::sorted;

use super::Plot;
use crate::record::Record;
use crate::stats;

/// The values of a cell's runs in one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Runs {
    /// Values by seed. `None` if the metric is undefined in a run.
    pub(crate) each: Vec<(u64, Option<f64>)>,
    /// Statistic over all runs, or `None` if a run has no value, as in the verdict.
    pub(crate) value: Option<f64>,
    /// The 95 % interval of the statistic, as in [`stats::interval`], or `None` for a single run.
    pub(crate) interval: Option<[f64; 2]>,
}

impl Runs {
    pub(crate) fn of(records: &[Record], cell: usize, metric: usize, plot: &Plot) -> Self {
        let of_cell = records.iter().filter(|record| record.cell == cell);
        let number = |value: Option<f64>| value.filter(|value| value.is_finite());
        let mut each: Vec<(u64, Option<f64>)> =
            of_cell.map(|record| (record.seed, number(record.values.get(metric).copied().flatten()))).collect();
        each.sort_by_key(|(seed, _)| *seed);
        let all = each.iter().map(|(_, value)| *value);
        let values: Option<Vec<f64>> = if plot.skip_missing { Some(all.flatten().collect()) } else { all.collect() };
        let Some(values) = values else { return Self { each, value: None, interval: None } };
        let value = plot.statistic.of(&sorted(values.iter().copied())).filter(|value| value.is_finite());
        let is_sure = value.is_none() || values.len() < 2;
        let interval = if is_sure { None } else { stats::interval(&values, |sorted| plot.statistic.of(sorted)) };
        Self { each, value, interval: interval.filter(|ends| ends.iter().all(|end| end.is_finite())) }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        self.each.iter().filter_map(|(_, value)| *value)
    }

    /// Returns all values that are drawn.
    pub(crate) fn drawn(&self) -> impl Iterator<Item = f64> {
        self.value.into_iter().chain(self.interval.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    #[test]
    fn a_run_without_a_value_leaves_none_unless_it_may() {
        let experiment = Experiment::read("all-plots.toml", include_str!("../../tests/data/all-plots.toml")).unwrap();
        let run = |seed, value| Record { cell: 1, seed, values: vec![value], ..Record::default() };
        let records = [run(2, Some(4.0)), run(1, Some(2.0)), run(3, None)];
        let mut plot = experiment.plots[0].clone();
        let runs = Runs::of(&records, 1, 0, &plot);
        assert_eq!(runs.each, [(1, Some(2.0)), (2, Some(4.0)), (3, None)]);
        assert_eq!((runs.value, runs.interval), (None, None));
        plot.skip_missing = true;
        assert_eq!(Runs::of(&records, 1, 0, &plot).value, Some(3.0));
        // A single run does not have an interval.
        assert_eq!(Runs::of(&records[..1], 1, 0, &plot).interval, None);
    }
}

//! Functions shared by all kinds of pictures.

use std::collections::BTreeMap;

use longhaul_link::statistics::sorted;

use super::canvas::{Around, Axis, Canvas, Key, Look, Wish};
use super::{Plot, ticks};
use crate::definition::Statistic;
use crate::experiment::Experiment;
use crate::record::Record;
use crate::stats;

#[derive(Clone, Copy, Debug)]
pub(super) struct Picture<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) plot: &'a Plot,
    pub(super) records: &'a [Record],
}

#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) over: usize,
    pub(super) by: usize,
    pub(super) runs: Runs,
    pub(super) paper: Option<f64>,
}

impl Picture<'_> {
    pub(super) fn metric(&self, place: usize) -> (String, &str) {
        let metric = self.experiment.definition.metrics.iter().nth(place);
        metric.map_or((String::new(), ""), |(name, metric)| (super::spoken(name), metric.unit.as_str()))
    }

    /// Returns the index of the first metric, the only one for most kinds of pictures.
    pub(super) fn one(&self) -> usize {
        self.plot.metrics.first().copied().unwrap_or(usize::MAX)
    }

    pub(super) fn drawn(&self, metric: usize) -> Vec<Drawn> {
        let papers = self.papers(metric);
        let lines = self.plot.grid.cells.iter().enumerate();
        lines
            .flat_map(|(over, line)| line.iter().enumerate().map(move |(by, cell)| (over, by, *cell)))
            .map(|(over, by, cell)| Drawn {
                over,
                by,
                runs: Runs::of(self.records, cell, metric, self.plot),
                paper: papers.get(&cell).copied(),
            })
            .collect()
    }

    /// Returns the values of all cells in all metrics. If there are several metrics, each has a position along x.
    pub(super) fn drawn_in_all(&self) -> Vec<Drawn> {
        let metrics = &self.plot.metrics;
        let of = |(nth, metric): (usize, &usize)| {
            let mut drawn = self.drawn(*metric);
            if metrics.len() > 1 {
                drawn.iter_mut().for_each(|drawn| drawn.by = nth);
            }
            drawn
        };
        metrics.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the paper's values of a metric, by cell. If there are several rows on a cell, the first one counts,
    /// because files list measured values before those computed from the paper's formulas.
    fn papers(&self, metric: usize) -> BTreeMap<usize, f64> {
        let mut papers = BTreeMap::new();
        let judged = self.experiment.rows.iter().filter_map(|row| Some((row, row.judged.as_ref()?)));
        let values = judged
            .filter(|(row, judged)| judged.metric == metric && judged.cells.len() == row.paper.len())
            .filter(|(_, judged)| judged.statistic == self.plot.written.statistic)
            .flat_map(|(row, judged)| judged.cells.iter().copied().zip(row.paper.iter().copied()));
        for (cell, value) in values.filter(|(_, value)| value.is_finite()) {
            papers.entry(cell).or_insert(value);
        }
        papers
    }

    pub(super) fn y_axis(&self, metric: usize, values: impl Iterator<Item = f64>, zero: bool) -> Axis {
        let (name, unit) = self.metric(metric);
        self.y_of(&name, unit, values, zero)
    }

    /// Returns a y axis with this name and unit, unless the plot has a label.
    pub(super) fn y_of(&self, name: &str, unit: &str, values: impl Iterator<Item = f64>, zero: bool) -> Axis {
        let expected = self.plot.written.expected.iter().map(|expected| expected.value);
        let name = self.plot.written.label.as_deref().unwrap_or(name);
        let wish = Wish { name, unit, is_log: self.plot.written.log_y, zero, about: 6 };
        Axis::of(values.chain(expected), wish)
    }

    /// Returns the name of a choice on the axis of lines, which is empty for a single line.
    pub(super) fn over(&self, nth: usize) -> &str {
        self.plot.grid.over.names.get(nth).map_or("", String::as_str)
    }

    pub(super) fn by(&self, nth: usize) -> &str {
        self.plot.grid.by.names.get(nth).map_or("", String::as_str)
    }

    pub(super) fn by_label(&self) -> &str {
        self.plot.written.by_label.as_ref().unwrap_or(&self.plot.grid.by.axis)
    }

    /// Returns the name of a line: its choice, and its series if there are several.
    pub(super) fn line(&self, over: usize, series: &str) -> String {
        joined([self.over(over), if self.plot.series.len() > 1 { series } else { "" }])
    }

    /// Returns the legend: the lines, the entries added by `others`, and the values known in advance.
    pub(super) fn legend(&self, look: impl Fn(usize) -> Look, others: &[(bool, Look, &str)]) -> Vec<Key> {
        let mut legend =
            keys(self.plot.grid.over.names.iter().enumerate().map(|(nth, name)| (look(nth), name.as_str())));
        let others = others.iter().filter(|(is_drawn, ..)| *is_drawn);
        legend.extend(keys(others.map(|(_, look, name)| (*look, *name))));
        legend.extend(self.expected_keys());
        legend
    }

    pub(super) fn expected_keys(&self) -> impl Iterator<Item = Key> {
        let expected = self.plot.written.expected.iter().enumerate();
        expected.map(|(nth, expected)| Key { look: Look::Expected(nth), name: expected.label.clone() })
    }

    pub(super) fn canvas(&self, around: Around, x: Axis, y: Axis) -> Canvas {
        let mut canvas = Canvas::new(around, x, y);
        self.expected(&mut canvas);
        canvas
    }

    pub(super) fn expected(&self, canvas: &mut Canvas) {
        for (nth, expected) in self.plot.written.expected.iter().enumerate() {
            canvas.expected(nth, expected.value);
        }
    }

    pub(super) fn around(&self, legend: Vec<Key>, about: &str, how: &str) -> Around {
        let definition = &self.experiment.definition;
        let dot = if how.is_empty() { "" } else { " " };
        Around {
            id: format!("{}-{}", definition.id.get_ref(), self.plot.id),
            title: self.plot.title.clone(),
            about: about.into(),
            caption: format!("{}.{dot}{how}", definition.source.trim_end_matches('.')),
            legend,
        }
    }

    /// Returns a text such as "Medians of 10 runs", with a description of the intervals.
    pub(super) fn how(&self, drawn: &[Drawn], marks: &str) -> String {
        let most = drawn.iter().map(|drawn| drawn.runs.each.len()).max().unwrap_or(0);
        match most {
            0 => "No runs.".into(),
            1 => "One run each.".into(),
            runs => format!("{} of {runs} runs; {marks}: 95 % interval by bootstrap.", self.statistic()),
        }
    }

    pub(super) const fn statistic(&self) -> &'static str {
        match self.plot.written.statistic {
            Statistic::Median => "Medians",
            Statistic::Mean => "Means",
            Statistic::Deviation => "Standard deviations",
            Statistic::Least => "Minima",
            Statistic::Most => "Maxima",
        }
    }

    /// Returns the points of a series for each drawn run of a cell.
    pub(super) fn recorded(&self, cell: usize, name: &str) -> impl Iterator<Item = &[(f64, f64)]> {
        let chosen = move |record: &&Record| {
            record.cell == cell && self.plot.written.seed.is_none_or(|seed| seed == record.nth())
        };
        let name = name.to_owned();
        self.records.iter().filter(chosen).filter_map(move |record| record.series.get(&name).map(Vec::as_slice))
    }

    /// Returns a sentence such as "Run 1." or "10 runs." that says which runs are drawn.
    pub(super) fn which(&self) -> String {
        match self.plot.written.seed {
            Some(seed) => format!("Run {seed}."),
            None => {
                let cells: Vec<usize> = self.plot.grid.cells.iter().flatten().copied().collect();
                let of = |cell: &usize| self.records.iter().filter(|record| record.cell == *cell).count();
                match cells.iter().map(of).max().unwrap_or(0) {
                    0 => "No runs.".into(),
                    1 => "One run.".into(),
                    runs => format!("{runs} runs."),
                }
            }
        }
    }

    /// Returns a description of a value, shown when the pointer is above it.
    pub(super) fn tell(&self, drawn: &Drawn, unit: &str) -> String {
        let mut text = joined([self.over(drawn.over), self.by(drawn.by)]);
        if !text.is_empty() {
            text += ": ";
        }
        match drawn.runs.value {
            None => text += "no value",
            Some(value) => text += format!("{} {unit}", ticks::number(value)).trim_end(),
        }
        if let Some([low, high]) = drawn.runs.interval {
            text += &format!(" ({} to {})", ticks::number(low), ticks::number(high));
        }
        if let Some(paper) = drawn.paper {
            text += &format!("; paper: {}", ticks::number(paper));
        }
        text
    }
}

/// Joins the names that are not empty.
pub(super) fn joined(names: [&str; 2]) -> String {
    names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Returns legend entries. Lines without a name have none.
pub(super) fn keys<'a>(lines: impl Iterator<Item = (Look, &'a str)>) -> Vec<Key> {
    let named = lines.filter(|(_, name)| !name.is_empty());
    named.map(|(look, name)| Key { look, name: name.into() }).collect()
}

/// Returns whether the paper has a value for one of the cells.
pub(super) fn has_paper(drawn: &[Drawn]) -> bool {
    drawn.iter().any(|drawn| drawn.paper.is_some())
}

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
            of_cell.map(|record| (record.nth(), number(record.values.get(metric).copied().flatten()))).collect();
        each.sort_by_key(|(seed, _)| *seed);
        let all = each.iter().map(|(_, value)| *value);
        let values: Option<Vec<f64>> =
            if plot.written.skip_missing { Some(all.flatten().collect()) } else { all.collect() };
        let Some(values) = values else { return Self { each, value: None, interval: None } };
        let value = plot.written.statistic.of(&sorted(values.iter().copied())).filter(|value| value.is_finite());
        let is_sure = value.is_none() || values.len() < 2;
        let interval =
            if is_sure { None } else { stats::interval(&values, |sorted| plot.written.statistic.of(sorted)) };
        Self { each, value, interval: interval.filter(|ends| ends.iter().all(|end| end.is_finite())) }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        self.each.iter().filter_map(|(_, value)| *value)
    }

    pub(crate) fn drawn(&self) -> impl Iterator<Item = f64> {
        self.value.into_iter().chain(self.interval.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_value_leaves_none_unless_it_may() {
        let experiment = Experiment::read("all-plots.toml", include_str!("../../tests/data/all-plots.toml")).unwrap();
        let run = |seed, value| Record { cell: 1, seed, values: vec![value], ..Record::default() };
        let records = [run(2, Some(4.0)), run(1, Some(2.0)), run(3, None)];
        let mut plot = experiment.plots[0].clone();
        let runs = Runs::of(&records, 1, 0, &plot);
        assert_eq!(runs.each, [(1, Some(2.0)), (2, Some(4.0)), (3, None)]);
        assert_eq!((runs.value, runs.interval), (None, None));
        plot.written.skip_missing = true;
        assert_eq!(Runs::of(&records, 1, 0, &plot).value, Some(3.0));
        // A single run does not have an interval.
        assert_eq!(Runs::of(&records[..1], 1, 0, &plot).interval, None);
    }
}

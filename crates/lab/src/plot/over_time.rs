//! Series against time in seconds.

use std::collections::BTreeMap;

use longhaul_link::statistics;
use serde::{Deserialize, Serialize};

use super::canvas::{Around, Axis, Canvas, Key, Look, Wish};
use super::path::{thinned, through};
use super::picture::{Picture, keys};
use super::tag::Tag;
use super::{Recorded, spoken, style};

/// Number of intervals of the common time grid for runs that were sampled at different times.
const GRID: usize = 300;

/// A line, with the deviation of the runs from it.
struct Line {
    colour: usize,
    dash: usize,
    name: String,
    mean: Vec<(f64, f64)>,
    /// Standard deviation of the runs; empty for a single run.
    deviation: Vec<f64>,
}

impl Line {
    /// Creates the line of some runs, or none without runs.
    fn new((colour, dash): (usize, usize), name: String, runs: &[Vec<(f64, f64)>]) -> Option<Self> {
        let (mean, deviation) = match runs {
            [] => return None,
            [one] => (one.clone(), Vec::new()),
            runs => together(runs),
        };
        Some(Self { colour, dash, name, mean, deviation })
    }
}

/// Returns the values that the y axis covers. The lower edge of a band may be below zero, where values cannot be.
fn values(lines: &[Line], band: bool) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(move |line| {
        let spread = line.deviation.iter().copied().chain(std::iter::repeat(0.0));
        let ends = move |((_, mean), spread): (&(f64, f64), f64)| match band {
            true => [(mean - spread).max(0.0), (mean + spread).max(0.0)],
            false => [*mean; 2],
        };
        line.mean.iter().zip(spread).flat_map(ends)
    })
}

/// Returns the time axis, which begins at `from` and ends with the last line.
fn times(lines: &[Line], from: f64, to: Option<f64>) -> Axis {
    let end = lines.iter().filter_map(|line| line.mean.last()).map(|(time, _)| *time).fold(from, f64::max);
    Axis::between((from, to.unwrap_or(end)), "time", "s", 0.0)
}

fn legend(lines: &[Line]) -> Vec<Key> {
    keys(lines.iter().map(|line| (Look::Dashed(line.colour, line.dash), line.name.as_str())))
}

fn drawn(mut canvas: Canvas, lines: &[Line], band: bool) -> String {
    for line in lines {
        draw_line(&mut canvas, line, lines.len(), band);
    }
    canvas.finish()
}

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let plot = picture.plot;
    let lines = lines(picture);
    let means = lines.iter().any(|line| !line.deviation.is_empty());
    let band = plot.written.band && means;
    // Axes. The y axis is named after the series, if there are few.
    let unit = plot.series.first().map_or("", |first| first.unit.as_str());
    let y = picture.y_of(&several(&plot.series), unit, values(&lines, band), true);
    let x = times(&lines, plot.from, plot.to);
    // Legend, description and caption.
    let legend = legend(&lines).into_iter().chain(picture.expected_keys()).collect();
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    let about = format!("{} against time in seconds.", names.join(", "));
    let how = match (means, band) {
        (true, true) => format!("{} Lines: mean; bands: one standard deviation.", picture.which()),
        (true, false) => format!("{} Lines: mean.", picture.which()),
        (false, _) => picture.which(),
    };
    let mut canvas = picture.canvas(picture.around(legend, &about, &how), x, y);
    if lines.is_empty() {
        canvas.nothing();
    }
    drawn(canvas, &lines, band)
}

fn lines(picture: &Picture<'_>) -> Vec<Line> {
    let plot = picture.plot;
    let is_grid = plot.grid.cells.len() > 1 && plot.series.len() > 1;
    let mut lines = Vec::new();
    for (over, cells) in plot.grid.cells.iter().enumerate() {
        for (nth, series) in plot.series.iter().enumerate() {
            let runs = cells.iter().flat_map(|cell| picture.recorded(*cell, &series.name));
            let runs: Vec<_> = runs.map(|run| plot.within(run)).filter(|run| !run.is_empty()).collect();
            let look = if is_grid { (over, nth) } else { (over + nth, over + nth) };
            lines.extend(Line::new(look, picture.line(over, &series.name), &runs));
        }
    }
    lines
}

/// Returns the names of several series, or an empty string if there are more than three.
fn several(series: &[Recorded]) -> String {
    let names: Vec<String> = series.iter().map(|series| spoken(&series.name)).collect();
    if names.len() > 3 { String::new() } else { names.join(", ") }
}

/// Returns mean and standard deviation over the runs: at their sampling times if these are equal, otherwise at the
/// points of a grid, between which values are held.
fn together(runs: &[Vec<(f64, f64)>]) -> (Vec<(f64, f64)>, Vec<f64>) {
    let times = |run: &[(f64, f64)]| run.iter().map(|(time, _)| *time).collect::<Vec<f64>>();
    let first = times(&runs[0]);
    let at: Vec<f64> = if runs.iter().all(|run| times(run) == first) {
        first
    } else {
        let ends = runs.iter().filter_map(|run| Some((run.first()?.0, run.last()?.0)));
        let (from, to) = ends.fold((f64::INFINITY, 0.0), |(from, to), (first, last)| (first.min(from), last.max(to)));
        (0..=GRID).map(|nth| from + (to - from) * nth as f64 / GRID as f64).collect()
    };
    let mut mean = Vec::new();
    let mut deviation = Vec::new();
    for time in at {
        let values: Vec<f64> = runs.iter().filter_map(|run| held(run, time)).collect();
        mean.extend(statistics::mean(&values).map(|middle| (time, middle)));
        deviation.extend(statistics::population_deviation(&values));
    }
    (mean, deviation)
}

/// Returns the last value up to a time, if the run has begun and has not ended.
fn held(run: &[(f64, f64)], time: f64) -> Option<f64> {
    let until = run.partition_point(|(at, _)| *at <= time);
    let is_over = run.last().is_none_or(|(last, _)| *last < time);
    (!is_over).then(|| run.get(until.checked_sub(1)?).map(|(_, value)| *value))?
}

fn draw_line(canvas: &mut Canvas, line: &Line, count: usize, band: bool) {
    let mut group = Tag::new("g").child(&Tag::new("title").text(&line.name));
    if band && !line.deviation.is_empty() {
        let edge = |sign: f64| -> Vec<(f64, f64)> {
            let all = line.mean.iter().zip(&line.deviation);
            let points: Vec<(f64, f64)> = all.map(|((x, y), deviation)| (*x, y + sign * deviation)).collect();
            thinned(&points, 3 * count)
        };
        let (above, mut below) = (edge(1.0), edge(-1.0));
        below.reverse();
        // Parts below the plot area are clipped to its edge.
        let place =
            |(x, y): &(f64, f64)| Some((canvas.x(*x)?, canvas.y(*y).unwrap_or(canvas.bottom).min(canvas.bottom)));
        let path = through(above.iter().chain(&below).map(place));
        group.push(&Tag::new("path").set("class", &style::class(line.colour, "band")).set("d", &(path + "Z")));
    }
    let lines = if band { 3 * count } else { count };
    let path = through(thinned(&line.mean, lines).iter().map(|(x, y)| canvas.point(*x, *y)));
    group.push(&style::dashed((line.colour, line.dash), &path));
    canvas.marks.push(&group);
}

/// A chart of values against time, as described by its JSON file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chart {
    pub(crate) id: String,
    pub(crate) title: String,
    /// Description for readers who cannot see the picture.
    pub(crate) about: String,
    /// Text below the picture: what was measured, how often and when.
    pub(crate) caption: String,
    pub(crate) label: String,
    pub(crate) unit: String,
    /// Seconds between two values of a run; the first value of a run is at this time, after zero.
    pub(crate) step: f64,
    /// The experiment whose runs are drawn, if the measurements were made in the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Origin>,
    /// The lines, in the order of the legend.
    pub(crate) lines: Vec<Measured>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Origin {
    pub(crate) experiment: String,
    /// The series, of which each point after the start is a value, multiplied by `scale`.
    pub(crate) series: String,
    /// See `series`.
    pub(crate) scale: f64,
    /// The metric whose mean over the runs is in the legend.
    pub(crate) metric: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    /// Name in the legend. In a line filled from an experiment, it is replaced by `label` and the mean of the metric.
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) label: String,
    /// The choice on each axis of the experiment, or none if the line is not filled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) at: BTreeMap<String, String>,
    /// The values of each run. Several runs are drawn as their mean with a band of one standard deviation.
    pub(crate) runs: Vec<Vec<f64>>,
}

impl Chart {
    /// Returns the contents of the file, with one run per line.
    pub(crate) fn text(&self) -> serde_json::Result<String> {
        let text = serde_json::to_string(self)?;
        Ok(text.replace("[[", "[\n[").replace("],[", "],\n[").replace("{\"name\"", "\n{\"name\"") + "\n")
    }

    pub(crate) fn draw(&self) -> String {
        let lines: Vec<Line> =
            self.lines.iter().enumerate().filter_map(|(nth, line)| line.over_time(nth, self.step)).collect();
        let wish = Wish { name: &self.label, unit: &self.unit, is_log: false, zero: true, about: 6 };
        let (x, y) = (times(&lines, 0.0, None), Axis::of(values(&lines, true), wish));
        let around = Around {
            id: self.id.clone(),
            title: self.title.clone(),
            about: self.about.clone(),
            caption: self.caption.clone(),
            legend: legend(&lines),
        };
        drawn(Canvas::new(around, x, y), &lines, true)
    }
}

impl Measured {
    fn over_time(&self, nth: usize, step: f64) -> Option<Line> {
        let timed = |run: &Vec<f64>| {
            let times = (1..=run.len()).map(|place| place as f64 * step);
            std::iter::once((0.0, 0.0)).chain(times.zip(run.iter().copied())).collect()
        };
        let runs: Vec<Vec<(f64, f64)>> = self.runs.iter().map(timed).collect();
        Line::new((nth, nth), self.name.clone(), &runs)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use roxmltree::Document;

    use super::*;

    #[test]
    fn runs_sampled_alike_are_averaged_where_they_were() {
        let runs = [vec![(0.0, 1.0), (1.0, 4.0)], vec![(0.0, 3.0), (1.0, 4.0)]];
        let (mean, deviation) = together(&runs);
        assert_eq!(mean, [(0.0, 2.0), (1.0, 4.0)]);
        assert_eq!(deviation, [1.0, 0.0]);
    }

    #[test]
    fn others_hold_their_value_until_the_next_and_not_after_the_last() {
        let runs = [vec![(0.0, 1.0), (3.0, 2.0)], vec![(1.0, 5.0), (2.0, 7.0)]];
        let (mean, _) = together(&runs);
        let at = |time: f64| mean.iter().find(|(at, _)| (at - time).abs() < 1e-9).unwrap().1;
        assert_eq!((at(0.5), at(1.5), at(2.0), at(2.5)), (1.0, 3.0, 4.0, 1.0));
        assert_eq!(mean.last(), Some(&(3.0, 2.0)));
    }

    /// Size in bytes that a picture in the README must not exceed.
    const MAX_BYTES: usize = 30_000;

    fn docs(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn the_picture_of_the_readme_is_drawn_from_the_measurements_beside_it() {
        let chart: Chart = serde_json::from_str(&docs("satellite.json")).unwrap();
        let svg = docs("satellite.svg");
        let again = "cargo run -p longhaul-lab -- chart docs/satellite.json > docs/satellite.svg";
        assert!(svg == chart.draw(), "docs/satellite.svg is not up to date: {again}");
        assert!(svg.len() < MAX_BYTES, "{} bytes", svg.len());
        let document = Document::parse(&svg).unwrap();
        let has = |text: &str| document.descendants().any(|node| node.text() == Some(text));
        assert!(chart.lines.iter().all(|line| has(&line.name)), "a line is missing in the legend");
    }

    #[test]
    fn lines_begin_at_zero_and_average_the_runs() {
        let line = |runs| Measured { name: "x".into(), label: String::new(), at: BTreeMap::new(), runs };
        let two = line(vec![vec![1.0, 4.0], vec![3.0, 4.0]]);
        let drawn = two.over_time(0, 0.5).unwrap();
        assert_eq!(drawn.mean, [(0.0, 0.0), (0.5, 2.0), (1.0, 4.0)]);
        assert_eq!(drawn.deviation, [0.0, 1.0, 0.0]);
        assert!(line(Vec::new()).over_time(0, 1.0).is_none());
    }
}

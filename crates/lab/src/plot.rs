//! Pictures of an experiment: SVG files, which work stand-alone and in a page, and files for xplot.

mod bars;
mod forest;
mod heat;
mod histogram;
mod lines;
mod over_time;
mod picture;
mod scatter;
mod sequence;

use crate::definition;
use crate::experiment::Experiment;
use crate::record::Record;
use crate::xplot;
pub(crate) use forest::{Compared, forest};
pub(crate) use longhaul_plot::style::CSS;
pub(crate) use longhaul_plot::tag;
pub(crate) use longhaul_plot::ticks::{number, short};
use longhaul_plot::{canvas, path, scale, style, text, ticks};
pub(crate) use over_time::{Chart, Origin};
use picture::Picture;

/// A checked plot definition.
#[derive(Clone, Debug)]
pub struct Plot {
    /// File name without extension.
    pub id: String,
    /// Title above the picture.
    pub title: String,
    pub(crate) written: definition::Plot,
    /// Kind of picture.
    pub kind: Kind,
    /// The cells to draw.
    pub grid: Grid,
    /// Indices of the metrics. In a scatter plot, the first is the one along x; a bar chart may have several along x.
    pub(crate) metrics: Vec<usize>,
    pub(crate) series: Vec<Recorded>,
    /// Start of the drawn time range in seconds.
    pub(crate) from: f64,
    /// End of the drawn time range in seconds. Without it, the end of the longest run.
    pub(crate) to: Option<f64>,
}

impl Plot {
    /// Returns the points of a run that are within the drawn time range.
    fn within(&self, run: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let is_in = |time: f64| time >= self.from && self.to.is_none_or(|to| time <= to);
        run.iter().copied().filter(|(time, value)| is_in(*time) && time.is_finite() && value.is_finite()).collect()
    }
}

/// Kind of picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Series against time in seconds: one run, or the mean of all.
    OverTime,
    /// Segments, retransmissions and acknowledgments of one run, as tcptrace draws them.
    TimeSequence,
    /// Frequency of the values of a series, in percent per bin.
    Histogram,
    /// Cumulative distribution of the values of a series, or of a metric over the runs.
    Cdf,
    /// One metric against another, with a mark per cell and a dot per run.
    Scatter,
    /// A bar per cell, with the paper's value next to it.
    Bars,
    /// A metric against the choices on an axis.
    Lines,
    /// A metric run by run.
    Runs,
    /// A metric over two axes, as shades with numbers.
    Heat,
}

impl Kind {
    /// All kinds, with their names in files.
    pub const ALL: [(&'static str, Self); 9] = [
        ("over-time", Self::OverTime),
        ("time-sequence", Self::TimeSequence),
        ("histogram", Self::Histogram),
        ("cdf", Self::Cdf),
        ("scatter", Self::Scatter),
        ("bars", Self::Bars),
        ("lines", Self::Lines),
        ("runs", Self::Runs),
        ("heat", Self::Heat),
    ];
}

/// The cells to draw, arranged by two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// The axis with one line per choice, or a single choice without a name.
    pub over: Side,
    /// The axis along x, or a single choice without a name.
    pub by: Side,
    /// Indices of the cells, by `over`, then by `by`.
    pub cells: Vec<Vec<usize>>,
}

/// An axis of a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Name of the axis.
    pub axis: String,
    /// Names of the choices on the axis.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    /// The recorded quantity, such as `cwnd`.
    pub(crate) call: String,
    pub(crate) unit: String,
}

/// Draws all pictures of an experiment and returns file names and contents. A picture without recorded data is empty
/// and states this.
#[must_use]
pub fn draw(experiment: &Experiment, records: &[Record]) -> Vec<(String, String)> {
    let records = &*experiment.related(records);
    let mut files = Vec::new();
    for plot in &experiment.plots {
        let picture = Picture { experiment, plot, records };
        files.push((format!("{}.svg", plot.id), svg(&picture)));
        files.extend(xplot::files(experiment, plot, records));
    }
    files
}

pub(crate) fn spoken(name: &str) -> String {
    name.replace('-', " ")
}

/// Returns whether choices can be placed on a logarithmic axis.
pub(crate) fn is_positive(choices: &[String]) -> bool {
    lines::numbers(choices).is_some_and(|(values, _)| values.iter().all(|value| *value > 0.0))
}

fn svg(picture: &Picture<'_>) -> String {
    match picture.plot.kind {
        Kind::OverTime => over_time::draw(picture),
        Kind::TimeSequence => sequence::draw(picture),
        Kind::Histogram => histogram::draw(picture),
        Kind::Cdf => histogram::draw_cdf(picture),
        Kind::Scatter => scatter::draw(picture),
        Kind::Bars => bars::draw(picture),
        Kind::Lines => lines::draw(picture),
        Kind::Runs => scatter::draw_runs(picture),
        Kind::Heat => heat::draw(picture),
    }
}

/// Returns a picture without its own style, for a page that contains [`CSS`].
pub(crate) fn without_style(svg: &str) -> String {
    svg.replacen(&canvas::style_element(), "", 1)
}

//! Pictures of an experiment: SVG files that stand alone and in a page, and files for xplot.

mod bars;
mod canvas;
mod cdf;
mod cell;
mod choices;
mod heat;
mod histogram;
mod lines;
mod over_time;
mod path;
mod picture;
mod runs;
mod scale;
mod scatter;
mod sequence;
mod style;
pub(crate) mod tag;
mod text;
mod ticks;

use crate::definition::{Expected, Statistic};
use crate::experiment::Experiment;
use crate::record::Record;
use crate::xplot;
use picture::Picture;
pub(crate) use style::CSS;
pub(crate) use ticks::number;

/// A picture whose definition was found sound.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its file's name, without ending.
    pub id: String,
    /// What stands above it.
    pub title: String,
    /// How it is drawn.
    pub kind: Kind,
    /// The cells that are drawn.
    pub grid: Grid,
    /// The metrics' places; a scatter has that along x first, and bars may have several along x.
    pub metrics: Vec<usize>,
    /// What stands for the runs of a cell.
    pub statistic: Statistic,
    /// Whether runs without a value are left out.
    pub skip_missing: bool,
    /// What was recorded.
    pub series: Vec<Recorded>,
    /// The one run that is drawn.
    pub seed: Option<u64>,
    /// Seconds from and to which it is drawn.
    pub from: f64,
    /// See `from`; none for the longest run's end.
    pub to: Option<f64>,
    /// The width of a histogram's bins.
    pub bin: f64,
    /// Whether a band of a standard deviation is drawn.
    pub band: bool,
    /// Whether x is logarithmic.
    pub log: bool,
    /// Whether y is logarithmic.
    pub log_y: bool,
    /// What is written along the axis of values.
    pub label: Option<String>,
    /// What is written below the choices along x.
    pub by_label: Option<String>,
    /// What is known beforehand.
    pub expected: Vec<Expected>,
}

/// How something is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Series against seconds: one run, or the mean of all.
    OverTime,
    /// Segments, retransmissions and acknowledgements of one run, as tcptrace draws them.
    TimeSequence,
    /// How often a series has values within bins, as shares.
    Histogram,
    /// Which share of a series' values, or of the runs, has at most a value.
    Cdf,
    /// A metric against another, a mark for each cell and a dot for each run.
    Scatter,
    /// A bar for each cell, beside it the paper's.
    Bars,
    /// A metric against the choices on an axis.
    Lines,
    /// A metric run by run.
    Runs,
    /// A metric over two axes, as shades with numbers.
    Heat,
}

impl Kind {
    /// All, by the words that files have for them.
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

/// Cells by two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// What is a line each; one without a name if there is no such axis.
    pub over: Side,
    /// What stands along x; one without a name if there is no such axis.
    pub by: Side,
    /// The cells' places, by `over`, then by `by`.
    pub cells: Vec<Vec<usize>>,
}

/// An axis of a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Its name.
    pub axis: String,
    /// The choices on it.
    pub names: Vec<String>,
}

/// A series that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// What was recorded, such as `cwnd`.
    pub call: String,
    /// Its unit.
    pub unit: String,
}

/// Draws all pictures of an experiment: file names with what is in them. A picture of what no run has recorded is empty and says so.
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

/// A name of a file as it is written in a picture.
pub(crate) fn spoken(name: &str) -> String {
    name.replace('-', " ")
}

/// Whether choices can stand on a logarithmic axis.
pub(crate) fn is_positive(choices: &[String]) -> bool {
    choices::numbers(choices).is_some_and(|(values, _)| values.iter().all(|value| *value > 0.0))
}

fn svg(picture: &Picture<'_>) -> String {
    match picture.plot.kind {
        Kind::OverTime => over_time::draw(picture),
        Kind::TimeSequence => sequence::draw(picture),
        Kind::Histogram => histogram::draw(picture),
        Kind::Cdf => cdf::draw(picture),
        Kind::Scatter => scatter::draw(picture),
        Kind::Bars => bars::draw(picture),
        Kind::Lines => lines::draw(picture),
        Kind::Runs => runs::draw(picture),
        Kind::Heat => heat::draw(picture),
    }
}

/// A picture without its own style, for a page that has [`CSS`].
pub(crate) fn without_style(svg: &str) -> String {
    svg.replacen(&canvas::style_element(), "", 1)
}

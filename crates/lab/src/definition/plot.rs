//! The pictures of an experiment.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Statistic, Text};

/// A picture. The required fields depend on its kind; `docs/lab.md` lists them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plot {
    /// File name without extension: lower-case letters, digits and dashes.
    pub id: Text,
    /// Title above the picture.
    pub title: String,
    /// Kind of picture: `bars`, `lines`, `over-time`, ...
    pub kind: Text,
    /// The metric.
    pub metric: Option<Text>,
    /// Metrics of the same unit to draw side by side along x, instead of the choices on an axis.
    #[serde(default)]
    pub metrics: Vec<Text>,
    /// The metric along x of a scatter plot.
    pub x: Option<Text>,
    /// The metric along y of a scatter plot.
    pub y: Option<Text>,
    /// Statistic over the runs of a cell. The default is the median. The paper's value is taken from the first row
    /// with the same statistic.
    #[serde(default)]
    pub statistic: Statistic,
    /// Whether runs without a value are skipped. Otherwise, a single such run leaves the cell without a value.
    #[serde(default)]
    pub skip_missing: bool,
    /// The recorded series to draw.
    #[serde(default)]
    pub series: Vec<Text>,
    /// The choice on each axis except those in `by` and `over`.
    #[serde(default)]
    pub at: BTreeMap<String, Text>,
    /// The axis along x.
    pub by: Option<Text>,
    /// The axis with one line, or one bar of a group, per choice.
    pub over: Option<Text>,
    /// The choices on `over`, in drawing order. The default is all choices.
    #[serde(default)]
    pub order: Vec<Text>,
    /// Whether to draw a band of one standard deviation around the mean.
    #[serde(default)]
    pub band: bool,
    /// The run to draw. The default is all runs together.
    pub seed: Option<u64>,
    /// Start of the drawn time range. The default is the start of the run.
    pub from: Option<Text>,
    /// End of the drawn time range. The default is the end of the run.
    pub to: Option<Text>,
    /// Width of the bins of a histogram, in the unit of the series.
    pub bin: Option<f64>,
    /// Whether x is logarithmic.
    #[serde(default)]
    pub log: bool,
    /// Whether y is logarithmic.
    #[serde(default)]
    pub log_y: bool,
    /// Label of the value axis: y, or x for a histogram and a CDF. The default is the name of the metric or series.
    pub label: Option<String>,
    /// Label below the choices along x. The default is the name of the axis.
    pub by_label: Option<String>,
    /// Values known in advance, drawn as dashed lines.
    #[serde(default)]
    pub expected: Vec<Expected>,
}

/// A value known in advance.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The value, in the unit of y.
    pub value: f64,
    /// Its label.
    pub label: String,
}

//! What is drawn.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Statistic, Text};

/// A picture. Which fields it needs depends on its kind; `docs/lab.md` has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plot {
    /// Its file's name without ending: lower-case letters, digits and dashes.
    pub id: Text,
    /// What stands above it.
    pub title: String,
    /// How it is drawn: `bars`, `lines`, `over-time`, ...
    pub kind: Text,
    /// The metric.
    pub metric: Option<Text>,
    /// Metrics of one unit that stand side by side along x, in place of the choices on an axis.
    #[serde(default)]
    pub metrics: Vec<Text>,
    /// The metric along x of a scatter.
    pub x: Option<Text>,
    /// The metric along y of a scatter.
    pub y: Option<Text>,
    /// What stands for the runs of a cell; the median if it isn't given. The paper's value is that of the first row with the same one.
    #[serde(default)]
    pub statistic: Statistic,
    /// Whether runs without a value are left out; a single one leaves the cell without otherwise.
    #[serde(default)]
    pub skip_missing: bool,
    /// The recorded series.
    #[serde(default)]
    pub series: Vec<Text>,
    /// The choice on each axis, but for those that `by` and `over` name.
    #[serde(default)]
    pub at: BTreeMap<String, Text>,
    /// The axis that is drawn along x.
    pub by: Option<Text>,
    /// The axis of which each choice is a line, or a bar beside others.
    pub over: Option<Text>,
    /// The choices on `over`, in the order in which they are drawn; all if it isn't given.
    #[serde(default)]
    pub order: Vec<Text>,
    /// Whether the mean has a band of one standard deviation.
    #[serde(default)]
    pub band: bool,
    /// The one run that is drawn; all together if it isn't given.
    pub seed: Option<u64>,
    /// When the picture begins; at the run's beginning if it isn't given.
    pub from: Option<Text>,
    /// When the picture ends; at the run's end if it isn't given.
    pub to: Option<Text>,
    /// The width of a histogram's bins, in the series' unit.
    pub bin: Option<f64>,
    /// Whether x is logarithmic.
    #[serde(default)]
    pub log: bool,
    /// Whether y is logarithmic.
    #[serde(default)]
    pub log_y: bool,
    /// What is written along the axis of values: y, but of a histogram and a cdf x. The metric's or the series' name if it isn't given.
    pub label: Option<String>,
    /// What is written along x below the choices on an axis. The axis' name if it isn't given.
    pub by_label: Option<String>,
    /// What is known beforehand: dashed lines across the picture.
    #[serde(default)]
    pub expected: Vec<Expected>,
}

/// A value that is known beforehand.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The value, in the unit of y.
    pub value: f64,
    /// What it is.
    pub label: String,
}

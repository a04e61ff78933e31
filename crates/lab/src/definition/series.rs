//! Values recorded over time.

use serde::Deserialize;

use super::Text;

/// A value recorded during a run, for pictures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// One call, such as `cwnd(x)`.
    pub value: Text,
    /// Its unit, as drawn.
    pub unit: String,
    /// Sampling interval. The default is 1 s. For a series by event, this is the minimum time between two points.
    pub every: Option<Text>,
    /// Number of runs to record, from the first seed on. The default is all runs.
    pub runs: Option<u32>,
}

//! What a run left: a line of a results file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A run's numbers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// The cell, by its place among the experiment's.
    pub cell: usize,
    /// The seed, from 1 on.
    pub seed: u64,
    /// The values of the metrics, in the order of their names; what cannot be told has none.
    pub values: Vec<Option<f64>>,
    /// By the name of each series that was recorded: seconds since the run began, and the value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Seconds that were simulated, summed over its flows.
    pub flow_seconds: f64,
    /// Seconds that it took. Not of the measurement: two runs with one seed differ in nothing else.
    pub took: f64,
}

impl Record {
    /// The same as it comes back from a file: JSON has no number that is not finite, so that such a value cannot be told, and such a point of
    /// a series is none.
    #[must_use]
    pub fn finite(mut self) -> Self {
        for value in &mut self.values {
            *value = value.filter(|value| value.is_finite());
        }
        for points in self.series.values_mut() {
            points.retain(|(time, value)| time.is_finite() && value.is_finite());
        }
        self
    }

    /// Whether it is the same run with the same outcome.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let timeless = |record: &Self| Self { took: 0.0, ..record.clone() };
        timeless(self) == timeless(other)
    }
}

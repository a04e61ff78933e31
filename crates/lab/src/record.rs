//! Records of runs, one per line of a results file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// Index of the cell in the experiment.
    pub cell: usize,
    /// The seed, at least 1.
    pub seed: u64,
    /// The values of the metrics, in the order of their names. `None` if a metric is undefined in this run.
    pub values: Vec<Option<f64>>,
    /// The points of each recorded series, by name: seconds since the start of the run, and the value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Whether the machine was too slow for the run, which was made in real time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// Simulated seconds, summed over all flows.
    pub flow_seconds: f64,
    /// Wall-clock seconds that the run took. Two runs with the same seed differ only in this.
    pub took: f64,
}

/// Returns the number of a run with this seed in its sweep: sweeps with fresh seeds begin with 1001, 2001 and so on. It
/// depends on nothing else, so that a run has the same record in each sweep.
pub(crate) const fn nth(seed: u64) -> u64 {
    seed.saturating_sub(1) % 1000 + 1
}

impl Record {
    /// Returns the number of the run in its sweep.
    pub(crate) const fn nth(&self) -> u64 {
        nth(self.seed)
    }

    /// Returns the record as it would be read from a file. JSON has no non-finite numbers, so that such values become
    /// `None` and such points of a series are dropped.
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

    /// Returns whether both records are of the same run and have the same outcome.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let timeless = |record: &Self| Self { took: 0.0, ..record.clone() };
        timeless(self) == timeless(other)
    }
}

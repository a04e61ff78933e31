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

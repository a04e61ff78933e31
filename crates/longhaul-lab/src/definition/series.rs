//! What is recorded over time.

use serde::Deserialize;

use super::Text;

/// Something that is recorded during a run, for pictures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// One call, such as `cwnd(x)`.
    pub value: Text,
    /// Its unit, as it is drawn.
    pub unit: String,
    /// Between samples; a second if it isn't given. What is recorded by event has none.
    pub every: Option<Text>,
    /// In how many of the runs, from the first seed on; in all if it isn't given.
    pub runs: Option<u32>,
}

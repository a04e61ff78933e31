//! What is measured of the path by packets sent for nothing else.

use serde::Deserialize;

use super::Text;

/// A tool that measures the bottleneck.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probe {
    /// By which metrics know it.
    pub name: Text,
    /// `capprobe`, `pathrate`, `pathload` or `pathchirp`.
    pub method: Text,
    /// When it begins; with the run if it isn't given. Cross traffic may have begun before.
    pub start: Option<Text>,
    /// The prober's link to the bottleneck; without, all packets of a train come to the bottleneck at once, and others' never get between.
    pub left: Option<Text>,
}

//! Measurement of the path with dedicated probe packets.

use serde::Deserialize;

use super::{Setting, Text};

/// A measurement of the bottleneck.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probe {
    /// Name that metrics refer to.
    pub name: Text,
    /// Method by name, one of `longhaul_probe::MethodKind`.
    pub method: Text,
    /// Start time. The default is the start of the run. Cross traffic may start earlier.
    pub start: Option<Text>,
    /// The prober's access link. Without it, all packets of a train arrive at the bottleneck at once, with no cross
    /// traffic between them.
    pub left: Option<Text>,
    /// Resolution of the receiver's clock. The default is that of `longhaul_probe::sim`.
    pub tick: Option<Text>,
    /// Rate by which this clock is fast, in ppm.
    pub skew: Option<Setting>,
}

//! Active measurements of the path, by probe packets.

use serde::Deserialize;

use super::Text;

/// A measurement of the bottleneck.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probe {
    /// Name by which metrics refer to it.
    pub name: Text,
    /// Method by name, one of `longhaul_probe::MethodKind`.
    pub method: Text,
    /// Start time; the start of the run by default. Cross traffic may start earlier.
    pub start: Option<Text>,
    /// Link from the prober to the bottleneck. Without it, all packets of a train reach the bottleneck at once, and no cross traffic arrives
    /// between them.
    pub left: Option<Text>,
}

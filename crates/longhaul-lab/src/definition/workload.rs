//! Many connections that come and go.

use serde::Deserialize;

use super::{Setting, Tcp, Text};

/// Connections that come by chance, ask and are answered, and go. Who asks is on the receivers' side, so that responses go `there`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// By which metrics know it.
    pub name: Text,
    /// `http`: a request and a response each. `vectors`: some of them, with pauses between.
    pub kind: Text,
    /// What the responses are of the bottleneck's rate on average, headers not counted: 35%. At 0% there is none.
    pub load: Text,
    /// Which of several links they cross, as [`Flow::hops`](super::Flow::hops) has it; `load` is of the first one's rate.
    pub hops: Option<Setting>,
    /// Their congestion control, at both ends.
    pub congestion: Text,
    /// The length of every response; by Pareto's law if it isn't given.
    pub response: Option<Text>,
    /// When connections begin to come.
    pub start: Option<Text>,
    /// When they cease; with the run if it isn't given.
    pub stop: Option<Text>,
    /// Pairs of hosts for each combination of `left` and `right`, which the connections are shared out over by chance.
    pub pairs: Option<Setting>,
    /// The links to the bottleneck that hosts on the senders' side may have.
    #[serde(default)]
    pub left: Vec<Text>,
    /// The same on the receivers' side.
    #[serde(default)]
    pub right: Vec<Text>,
    /// What else is set at both ends.
    #[serde(default)]
    pub tcp: Tcp,
}

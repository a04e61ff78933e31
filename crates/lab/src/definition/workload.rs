//! Workloads of many short-lived connections.

use serde::Deserialize;

use super::{Setting, Tcp, Text};

/// Connections that arrive at random, exchange requests and responses, and close. Clients are on the receivers' side,
/// so that responses travel `there`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// Name that metrics refer to.
    pub name: Text,
    /// `http`: one request and response per connection. `vectors`: several, with pauses in between.
    pub kind: Text,
    /// Mean rate of the responses relative to the bottleneck rate, without headers, such as 35%. With 0%, there is no
    /// workload.
    pub load: Text,
    /// The links that they cross, as in [`Flow::hops`](super::Flow::hops). `load` refers to the rate of the first
    /// one.
    pub hops: Option<Setting>,
    /// Congestion controller of both ends.
    pub congestion: Text,
    /// Size of every response. Without it, sizes are Pareto-distributed.
    pub response: Option<Text>,
    /// Time of the first arrivals.
    pub start: Option<Text>,
    /// Time of the last arrivals. The default is the end of the run.
    pub stop: Option<Text>,
    /// Number of host pairs for each combination of `left` and `right`. Connections are distributed over them at
    /// random.
    pub pairs: Option<Setting>,
    /// The access links of the hosts on the senders' side.
    #[serde(default)]
    pub left: Vec<Text>,
    /// The access links of the hosts on the receivers' side.
    #[serde(default)]
    pub right: Vec<Text>,
    /// Other settings of both ends.
    #[serde(default)]
    pub tcp: Tcp,
}

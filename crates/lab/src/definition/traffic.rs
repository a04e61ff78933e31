//! Cross traffic other than TCP.

use serde::Deserialize;

use super::{Setting, Text};

/// Cross traffic that does not react to congestion.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Traffic {
    /// Its name.
    pub name: Text,
    /// `cbr`, `poisson` or `on-off`.
    pub kind: Text,
    /// Rate of IP packets in bits per second; for `on-off`, during a burst. With a rate of 0, there is no traffic.
    pub rate: Text,
    /// Size of an IP packet in bytes.
    pub packet: Text,
    /// Direction: `there`, as the data of the flows, `back`, or `both`. The default is `there`.
    pub way: Option<Text>,
    /// Number of sources. The default is one.
    pub count: Option<Setting>,
    /// The links that it crosses, as in [`Flow::hops`](super::Flow::hops).
    pub hops: Option<Setting>,
    /// Number of the random stream of its arrivals. With the same stream, seed, rate and size, arrivals are the same in
    /// all experiments. The default is a stream of its own.
    pub stream: Option<Setting>,
    /// Time of the first packet after the start, for `cbr`. The default is random.
    pub phase: Option<Text>,
    /// Start time.
    pub start: Option<Text>,
    /// Time between the starts of two successive sources, so that the rate increases in steps.
    pub apart: Option<Text>,
    /// End time. The default is the end of the run.
    pub stop: Option<Text>,
    /// Mean duration of a burst, for `on-off`.
    pub on: Option<Text>,
    /// Mean duration of a pause, for `on-off`.
    pub off: Option<Text>,
    /// Shape of the Pareto distribution of bursts and pauses. Without it, they are exponentially distributed.
    pub shape: Option<Setting>,
    /// Access link of the host on the senders' side.
    pub left: Option<Text>,
    /// Access link of the host on the receivers' side.
    pub right: Option<Text>,
    /// The DiffServ codepoint, 0 to 63.
    pub dscp: Option<Setting>,
    /// Whether its packets are marked as ECN-capable.
    pub ecn: Option<Setting>,
}

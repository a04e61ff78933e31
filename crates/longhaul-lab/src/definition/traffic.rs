//! Cross traffic that is no TCP.

use serde::Deserialize;

use super::{Setting, Text};

/// Packets beside the flows, which answer to nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Traffic {
    /// By what it is called.
    pub name: Text,
    /// `cbr`, `poisson` or `on-off`.
    pub kind: Text,
    /// Bits of IP packets a second: of `on-off` while it is on. At 0 there is none.
    pub rate: Text,
    /// Size of an IP packet.
    pub packet: Text,
    /// Whether it goes `there`, as the flows' data does, `back`, or `both` ways; `there` if it isn't given.
    pub way: Option<Text>,
    /// How many sources; one if it isn't given.
    pub count: Option<Setting>,
    /// Which of several links it crosses, as [`Flow::hops`](super::Flow::hops) has it.
    pub hops: Option<Setting>,
    /// When it begins.
    pub start: Option<Text>,
    /// How long after one source the next begins: the rate grows in steps.
    pub apart: Option<Text>,
    /// When it ends; with the run if it isn't given.
    pub stop: Option<Text>,
    /// How long a burst of `on-off` lasts in the mean.
    pub on: Option<Text>,
    /// How long a pause of `on-off` lasts in the mean.
    pub off: Option<Text>,
    /// The shape of the Pareto distribution of bursts and pauses; exponential if it isn't given.
    pub shape: Option<Setting>,
    /// The link to the bottleneck of the host on the side of the flows' senders.
    pub left: Option<Text>,
    /// The same on the side of the receivers.
    pub right: Option<Text>,
    /// The DiffServ codepoint, 0 to 63.
    pub dscp: Option<Setting>,
    /// Whether its packets say that they are ECN-capable.
    pub ecn: Option<Setting>,
}

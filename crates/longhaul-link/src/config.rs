//! What a link is like.

use std::sync::Arc;

use longhaul_units::{Rate, Span, Time};

use crate::overhead::Overhead;
use crate::queue::QueueConfig;
use crate::router::RouterConfig;
use crate::trace::Trace;

/// How fast a link transmits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkRate {
    /// At once: nothing ever waits.
    #[default]
    Unlimited,
    /// Always at this rate, bytes on the link.
    Constant(Rate),
    /// In the opportunities of a recorded link.
    Trace(Arc<Trace>),
}

impl From<Rate> for LinkRate {
    fn from(rate: Rate) -> Self {
        Self::Constant(rate)
    }
}

/// A change at a given time, for good: a satellite handover, a modem that trains anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Time,
    /// The rate from then on, also of the packet being transmitted; `None` leaves it.
    pub rate: Option<Rate>,
    /// The one-way delay of packets whose transmission ends from then on; `None` leaves it.
    pub delay: Option<Span>,
}

/// A time without service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// From then,
    pub from: Time,
    /// until then, exclusively.
    pub until: Time,
    /// What happens to packets meanwhile.
    pub kind: OutageKind,
}

/// What an outage does to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutageKind {
    /// The transmitter goes on, and what it finishes sending meanwhile is lost: rain, a tunnel.
    #[default]
    Lose,
    /// The transmitter begins no packet, and the queue fills: a handover that the modem knows of.
    Hold,
}

/// Loss on the link, after the queue: lost packets took their time of transmission.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each packet by itself, with this probability.
    Uniform(f64),
    /// A good and a bad state (Gilbert 1960, Elliott 1963). Before each packet the state may change.
    GilbertElliott(GilbertElliott),
    /// Each bit on the link, overhead included, is wrong with this probability, and a packet with a wrong bit is lost.
    BitErrors(f64),
    /// The packets of these numbers, in the order of their transmission, from 1; ascending.
    List(Vec<u64>),
}

/// The two-state loss model: the mean loss is (`r`·`loss_good` + `p`·`loss_bad`) / (`p` + `r`), and the bad state lasts
/// 1 / `r` packets on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability to go from the good state to the bad one.
    pub p: f64,
    /// Probability to go from the bad state to the good one.
    pub r: f64,
    /// Probability of loss in the good state.
    pub loss_good: f64,
    /// Probability of loss in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Gilbert's simple model: the bad state loses everything, the good one nothing.
    #[must_use]
    pub const fn simple(p: f64, r: f64) -> Self {
        Self { p, r, loss_good: 0.0, loss_bad: 1.0 }
    }
}

/// Bit errors that a checksum finds, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Corruption {
    /// The share of packets in which one bit is flipped.
    pub share: f64,
    /// Of those, the share that passes all checksums and is delivered as it is; the others are dropped.
    pub unseen: f64,
}

/// Packets that others overtake. Nothing else on a link changes the order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reordering {
    /// A share of packets is held until so many later ones have arrived, for `patience` at most.
    Places {
        /// The share of packets it happens to.
        share: f64,
        /// How many packets go past each.
        places: u32,
        /// How long a packet is late at most, when fewer than `places` follow.
        patience: Span,
    },
    /// A share of packets takes longer by a random time, evenly between two bounds.
    Late {
        /// The share of packets it happens to.
        share: f64,
        /// The least they are late by.
        least: Span,
        /// The most they are late by.
        most: Span,
    },
}

/// From a time on, packets above a size vanish without a word: a path MTU black hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu {
    /// From when.
    pub from: Time,
    /// The largest packet that passes, in bytes of the IP packet.
    pub size: u32,
}

/// A token bucket: what exceeds it is dropped before the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Tokens come at this rate, one for a byte of an IP packet.
    pub rate: Rate,
    /// So many tokens at most, and at the beginning.
    pub burst: u64,
}

/// What one direction of a link is like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// How fast it transmits.
    pub rate: LinkRate,
    /// One-way propagation delay, from the end of transmission to arrival.
    pub delay: Span,
    /// What it adds to each packet.
    pub overhead: Overhead,
    /// What waits for transmission.
    pub queue: QueueConfig,
    /// The token bucket before the queue.
    pub policer: Option<Policer>,
    /// Random loss.
    pub loss: Loss,
    /// Bit errors.
    pub corruption: Corruption,
    /// The share of packets that arrive twice.
    pub duplication: f64,
    /// Packets take up to so much longer, evenly, without overtaking each other.
    pub jitter: Span,
    /// Packets that others overtake.
    pub reordering: Option<Reordering>,
    /// Times without service, in order, apart from each other.
    pub outages: Vec<Outage>,
    /// Changes of rate and delay, in order.
    pub steps: Vec<Step>,
    /// A black hole for large packets.
    pub mtu: Option<Mtu>,
    /// Whether the sender is a router, which takes one from the TTL of each packet.
    pub is_hop: bool,
    /// Who answers what segments ask of routers. Such a link is a hop in any case, so that a receiver counts one hop for each
    /// stamp.
    pub router: Option<RouterConfig>,
}

impl LinkConfig {
    /// A link that only delays.
    #[must_use]
    pub fn delay(delay: Span) -> Self {
        Self { delay, ..Self::default() }
    }

    /// A link of a rate and a delay, with an infinite queue.
    #[must_use]
    pub fn new(rate: Rate, delay: Span) -> Self {
        Self { rate: rate.into(), delay, ..Self::default() }
    }

    /// The rate at a time, the mean one of a trace; `None` if it is unlimited.
    #[must_use]
    pub fn rate_at(&self, at: Time) -> Option<Rate> {
        let first = match &self.rate {
            LinkRate::Unlimited => return None,
            LinkRate::Trace(trace) => return Some(trace.mean_rate()),
            LinkRate::Constant(rate) => *rate,
        };
        let passed = self.steps.partition_point(|step| step.at <= at);
        Some(self.steps.iter().take(passed).rev().find_map(|step| step.rate).unwrap_or(first))
    }

    /// The same with another queue.
    #[must_use]
    pub fn queue(self, queue: impl Into<QueueConfig>) -> Self {
        Self { queue: queue.into(), ..self }
    }

    /// The same with other losses.
    #[must_use]
    pub fn loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    /// The same with other overhead.
    #[must_use]
    pub fn overhead(self, overhead: Overhead) -> Self {
        Self { overhead, ..self }
    }

    /// The same with a router at its output that answers.
    #[must_use]
    pub fn router(self, router: RouterConfig) -> Self {
        Self { router: Some(router), ..self }
    }

    /// Whether it takes one from the TTL: as the output of a router, or with a router of its own.
    pub(crate) fn takes_ttl(&self) -> bool {
        self.is_hop || self.router.is_some()
    }

    /// The same as the output of a router.
    #[must_use]
    pub fn hop(self) -> Self {
        Self { is_hop: true, ..self }
    }
}

//! Configuration of one direction of a link.

use std::sync::Arc;

use longhaul_units::{Rate, Span, Time};

use crate::overhead::Overhead;
use crate::queue::QueueConfig;
use crate::router::RouterConfig;
use crate::trace::Trace;

/// Rate at which a link transmits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkRate {
    /// No limit: transmission takes no time.
    #[default]
    Unlimited,
    /// Always transmits at this rate; link overhead counts.
    Constant(Rate),
    /// Transmits in the delivery opportunities of a recorded link.
    Trace(Arc<Trace>),
}

impl From<Rate> for LinkRate {
    fn from(rate: Rate) -> Self {
        Self::Constant(rate)
    }
}

/// A permanent change of the link at a given time, such as a satellite handover or a modem that retrains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time of the change.
    pub at: Time,
    /// The rate from that time on, which also applies to the rest of a packet in transmission; `None` leaves it
    /// unchanged.
    pub rate: Option<Rate>,
    /// The one-way delay of packets whose transmission ends at that time or later; `None` leaves it unchanged.
    pub delay: Option<Span>,
}

/// A part of a cycle of impairments. None of them changes the order of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phase {
    /// The duration of the phase.
    pub lasts: Span,
    /// The one-way delay that is added to that of the link.
    pub delay: Span,
    /// The probability of loss of each packet, independent of others.
    pub loss: f64,
    /// Packets arrive at multiples of this interval, or at once if it is zero: aggregation on a radio link.
    pub interval: Span,
}

/// A period without service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start of the outage.
    pub from: Time,
    /// End of the outage, exclusive.
    pub until: Time,
    /// The fate of packets during the outage.
    pub kind: OutageKind,
}

/// Effect of an outage on packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutageKind {
    /// The transmitter keeps sending, and packets whose transmission ends during the outage are lost: rain fade, a
    /// tunnel.
    #[default]
    Lose,
    /// The transmitter starts no packet, so the queue fills: a handover that the modem is aware of.
    Hold,
}

/// Random or scripted loss on the link. It occurs after the queue, so lost packets have used transmission time.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Independent loss of each packet with this probability.
    Uniform(f64),
    /// Two-state loss (Gilbert 1960, Elliott 1963). The state may change before each packet.
    GilbertElliott(GilbertElliott),
    /// Independent bit errors with this probability, in link overhead too. A packet with at least one wrong bit is
    /// lost.
    BitErrors(f64),
    /// Loss of the packets with these numbers, counted from 1 in transmission order; the list is ascending.
    List(Vec<u64>),
}

/// Gilbert-Elliott loss model. The mean loss is (`r`·`loss_good` + `p`·`loss_bad`) / (`p` + `r`), and the bad state
/// lasts 1 / `r` packets on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability of a transition from the good state to the bad one.
    pub p: f64,
    /// Probability of a transition from the bad state to the good one.
    pub r: f64,
    /// Probability of loss in the good state.
    pub loss_good: f64,
    /// Probability of loss in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Gilbert's simple model: every packet is lost in the bad state, and none in the good one.
    pub const fn simple(p: f64, r: f64) -> Self {
        Self { p, r, loss_good: 0.0, loss_bad: 1.0 }
    }
}

/// Bit errors, most of which a checksum detects.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Corruption {
    /// The fraction of packets in which one bit is flipped.
    pub share: f64,
    /// The fraction of those packets that passes all checksums and are delivered corrupted; the others are dropped.
    pub unseen: f64,
}

/// Reordering of packets. No other impairment of a link changes their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reordering {
    /// Holds back a fraction of the packets until a number of later ones have arrived, or for at most `patience`.
    Places {
        /// The fraction of packets held back.
        share: f64,
        /// Number of later packets that overtake each packet held back.
        places: u32,
        /// The maximum extra delay of a packet if fewer than `places` others follow.
        patience: Span,
    },
    /// Delays a fraction of the packets by a random extra time, uniform between two bounds.
    Late {
        /// The fraction of packets delayed.
        share: f64,
        /// The minimum extra delay.
        least: Span,
        /// The maximum extra delay.
        most: Span,
    },
}

/// A path MTU black hole: from a given time on, packets above a size are dropped without notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu {
    /// Start of the black hole.
    pub from: Time,
    /// Size in bytes of the largest IP packet that passes.
    pub size: u32,
}

/// Fields of the IP header that the sending node clears in every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bleaching {
    /// Whether to reset the ECN field to Not-ECT.
    pub ecn: bool,
    /// Whether to reset the DiffServ codepoint to the default.
    pub dscp: bool,
}

/// Token-bucket policer: packets that exceed it are dropped before the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// The token rate; one token admits one byte of an IP packet.
    pub rate: Rate,
    /// Depth of the bucket in bytes. The bucket starts full.
    pub burst: u64,
}

/// Configuration of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// Transmission rate.
    pub rate: LinkRate,
    /// One-way propagation delay, from the end of transmission to arrival.
    pub delay: Span,
    /// Bytes that the link layer adds to each packet.
    pub overhead: Overhead,
    /// The queue of packets awaiting transmission.
    pub queue: QueueConfig,
    /// The token bucket before the queue.
    pub policer: Option<Policer>,
    /// Packet loss on the link.
    pub loss: Loss,
    /// Bit errors.
    pub corruption: Corruption,
    /// The fraction of packets delivered twice.
    pub duplication: f64,
    /// Maximum extra delay per packet, uniformly distributed. Jitter alone never reorders packets.
    pub jitter: Span,
    /// Reordering of packets.
    pub reordering: Option<Reordering>,
    /// Periods without service, in ascending order and without overlap.
    pub outages: Vec<Outage>,
    /// Changes of rate and delay, in ascending order.
    pub steps: Vec<Step>,
    /// Phases that follow each other from time zero on, and repeat. Each applies to packets whose transmission ends
    /// during the phase.
    pub cycle: Vec<Phase>,
    /// A black hole for large packets.
    pub mtu: Option<Mtu>,
    /// Fields that are cleared before the queue.
    pub bleaching: Bleaching,
    /// Whether the sending node is a router, which decrements the TTL of each packet.
    pub is_hop: bool,
    /// The router at the link's output that answers requests in segments. Such a link decrements the TTL even if
    /// `is_hop` is `false`, so that a receiver counts one hop per stamp.
    pub router: Option<RouterConfig>,
}

impl LinkConfig {
    /// Creates a link that only delays packets.
    pub fn delay(delay: Span) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Creates a link with a rate, a delay and an infinite queue.
    pub fn new(rate: Rate, delay: Span) -> Self {
        Self { rate: rate.into(), delay, ..Self::default() }
    }

    /// Returns the rate at a time. It is the mean rate of a trace, and `None` for an unlimited link.
    pub fn rate_at(&self, at: Time) -> Option<Rate> {
        let first = match &self.rate {
            LinkRate::Unlimited => return None,
            LinkRate::Trace(trace) => return Some(trace.mean_rate()),
            LinkRate::Constant(rate) => *rate,
        };
        let passed = self.steps.partition_point(|step| step.at <= at);
        Some(self.steps.iter().take(passed).rev().find_map(|step| step.rate).unwrap_or(first))
    }

    /// Replaces the queue.
    #[must_use]
    pub fn queue(self, queue: impl Into<QueueConfig>) -> Self {
        Self { queue: queue.into(), ..self }
    }

    /// Replaces the loss model.
    #[must_use]
    pub fn loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    /// Replaces the overhead.
    #[must_use]
    pub fn overhead(self, overhead: Overhead) -> Self {
        Self { overhead, ..self }
    }

    /// Adds a router at the link's output that answers requests in segments.
    #[must_use]
    pub fn router(self, router: RouterConfig) -> Self {
        Self { router: Some(router), ..self }
    }

    pub(crate) fn takes_ttl(&self) -> bool {
        self.is_hop || self.router.is_some()
    }

    /// Makes the link the output of a router.
    #[must_use]
    pub fn hop(self) -> Self {
        Self { is_hop: true, ..self }
    }
}

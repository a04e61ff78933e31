//! One direction of a path: a queue, a transmitter of some rate, a delay, and faults.

use std::collections::VecDeque;

use longhaul_tcp::Ecn;
use longhaul_units::{Bytes, Rate, Span, Time};

use crate::packet::Packet;
use crate::random::Random;

/// How much may wait for transmission, the packet being transmitted included. Drop-tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// So many packets.
    Packets(usize),
    /// So many bytes on the wire.
    Bytes(usize),
}

/// Some packets take longer and are overtaken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// The share of packets it happens to.
    pub share: f64,
    /// The most they are late by, evenly spread.
    pub delay: Span,
}

/// What a link is like.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LinkConfig {
    /// Transmission rate of bytes on the wire; `None` transmits at once.
    pub rate: Option<Rate>,
    /// One-way propagation delay.
    pub delay: Span,
    /// The queue before a transmitter that has a rate.
    pub queue: QueueLimit,
    /// Probability that a packet is lost, each by itself.
    pub loss: f64,
    /// Probability that a packet arrives twice.
    pub duplication: f64,
    /// Late packets.
    pub reordering: Option<Reordering>,
    /// Probability that a bit of a packet is flipped. The receiving host drops it, as the UDP checksum is wrong.
    pub corruption: f64,
    /// Of the corrupted packets, the share whose checksum does not show it.
    pub corruption_unseen: f64,
    /// From then on, datagrams with more UDP payload than this vanish (a path MTU black hole).
    pub black_hole: Option<(Time, usize)>,
    /// From the first time of each pair until the second nothing passes.
    pub outages: Vec<(Time, Time)>,
    /// ECN-capable packets that find so many bytes in the queue are marked CE.
    pub mark_above: Option<usize>,
}

impl LinkConfig {
    /// A link that only delays.
    #[must_use]
    pub const fn delay(delay: Span) -> Self {
        Self {
            rate: None,
            delay,
            queue: QueueLimit::Packets(usize::MAX),
            loss: 0.0,
            duplication: 0.0,
            reordering: None,
            corruption: 0.0,
            corruption_unseen: 0.0,
            black_hole: None,
            outages: Vec::new(),
            mark_above: None,
        }
    }
}

/// What became of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Passed,
    /// The queue was full.
    QueueFull,
    /// Lost at random.
    Lost,
    /// Corrupted, and dropped for it.
    Corrupted,
    /// Longer than the path takes.
    TooLong,
    /// The link was out of order.
    Outage,
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered.
    pub offered: u64,
    /// Packets that pass, copies not counted.
    pub passed: u64,
    /// Bytes on the wire of those.
    pub passed_bytes: u64,
    /// Packets that met a full queue.
    pub queue_full: u64,
    /// Packets marked CE.
    pub marked: u64,
}

/// One direction of a path.
#[derive(Debug)]
pub struct Link {
    /// What it is like; may be changed while packets are under way.
    pub config: LinkConfig,
    /// When each packet that waits will have been transmitted, and its size on the wire.
    waiting: VecDeque<(Time, usize)>,
    waiting_bytes: usize,
    stats: LinkStats,
}

impl Link {
    /// An empty link.
    #[must_use]
    pub fn new(config: LinkConfig) -> Self {
        Self { config, waiting: VecDeque::new(), waiting_bytes: 0, stats: LinkStats::default() }
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        self.stats
    }

    /// Takes in a packet at `now`; `arrive` gets each copy that comes out at the other end, and when.
    pub fn offer(
        &mut self,
        now: Time,
        mut packet: Packet,
        random: &mut Random,
        mut arrive: impl FnMut(Time, Packet),
    ) -> Fate {
        self.stats.offered += 1;
        let sent = match self.transmit(now, &mut packet) {
            Ok(sent) => sent,
            Err(fate) => return fate,
        };
        if self.config.outages.iter().any(|(from, to)| (*from..*to).contains(&now)) {
            return Fate::Outage;
        }
        if self.config.black_hole.is_some_and(|(from, size)| now >= from && packet.payload.len() > size) {
            return Fate::TooLong;
        }
        if random.chance(self.config.loss) {
            return Fate::Lost;
        }
        if random.chance(self.config.corruption) {
            flip_a_bit(&mut packet.payload, random);
            if !random.chance(self.config.corruption_unseen) {
                return Fate::Corrupted;
            }
        }
        self.stats.passed += 1;
        self.stats.passed_bytes += packet.wire_len() as u64;
        if random.chance(self.config.duplication) {
            arrive(self.arrival(sent, random), packet.clone());
        }
        arrive(self.arrival(sent, random), packet);
        Fate::Passed
    }

    /// Queue and transmitter: when the packet has left.
    fn transmit(&mut self, now: Time, packet: &mut Packet) -> Result<Time, Fate> {
        let Some(rate) = self.config.rate else { return Ok(now) };
        while let Some((_, size)) = self.waiting.front().copied().filter(|(until, _)| *until <= now) {
            self.waiting.pop_front();
            self.waiting_bytes -= size;
        }
        let size = packet.wire_len();
        let fits = match self.config.queue {
            QueueLimit::Packets(limit) => self.waiting.len() < limit,
            QueueLimit::Bytes(limit) => self.waiting_bytes + size <= limit || self.waiting.is_empty(),
        };
        if !fits {
            self.stats.queue_full += 1;
            return Err(Fate::QueueFull);
        }
        let capable = matches!(packet.ecn, Ecn::Ect0 | Ecn::Ect1);
        if capable && self.config.mark_above.is_some_and(|limit| self.waiting_bytes > limit) {
            packet.ecn = Ecn::Ce;
            self.stats.marked += 1;
        }
        let start = self.waiting.back().map_or(now, |(until, _)| *until);
        let sent = start + rate.time_for(Bytes::from(size));
        self.waiting.push_back((sent, size));
        self.waiting_bytes += size;
        Ok(sent)
    }

    fn arrival(&self, sent: Time, random: &mut Random) -> Time {
        let late = self.config.reordering.filter(|r| random.chance(r.share));
        sent + self.config.delay + late.map_or(Span::ZERO, |r| random.span(r.delay))
    }
}

fn flip_a_bit(bytes: &mut [u8], random: &mut Random) {
    let at = random.below(bytes.len() as u64) as usize;
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

#[cfg(test)]
mod tests;

//! Observation of packets at the sender's host and at the bottleneck.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use longhaul_link::{Cause, Hook, Packet as Carried, View, dscp};
use longhaul_sim::{Packet, Parcel, Sighting, Tap};
use longhaul_units::Time;
use longhaul_wire::{CheshireCodec, Codec, Flags, Segment};

#[derive(Clone, Debug, Default)]
pub(super) struct Drops {
    pub(super) count: u64,
    /// Time of the first drop for each cause, in seconds.
    pub(super) first: HashMap<Cause, f64>,
    /// All drops, if they are recorded.
    pub(super) all: Option<Vec<(f64, f64)>>,
    /// Data packets, if they are observed.
    pub(super) data: Option<DataPackets>,
}

/// Data packets at a shared link, without probes.
#[derive(Clone, Debug, Default)]
pub(super) struct DataPackets {
    pub(super) counts: [u64; 2],
    senders: HashMap<SocketAddr, Sent>,
}

/// Packets that a sender has sent. New data may also have low priority: a probe is a packet of low priority without new
/// data, and is identified by its TSval when it is dropped.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// The sequence number after the last byte.
    end: Option<u32>,
    probes: BTreeSet<u32>,
}

impl DataPackets {
    fn offered(&mut self, packet: &Carried<Parcel>) {
        let Some((from, end, stamp)) = segment(packet) else { return };
        let sender = self.senders.entry(from).or_default();
        let is_new = sender.end.is_none_or(|last| end.wrapping_sub(last).cast_signed() > 0);
        if is_new {
            sender.end = Some(end);
        }
        if packet.dscp == dscp::LE && !is_new {
            sender.probes.extend(stamp);
        } else {
            self.counts[0] += 1;
        }
    }

    fn dropped(&mut self, packet: &Carried<Parcel>) {
        let Some((from, _, stamp)) = segment(packet) else { return };
        let probes = self.senders.get(&from).map(|sender| &sender.probes);
        let is_probe =
            packet.dscp == dscp::LE && probes.zip(stamp).is_some_and(|(probes, stamp)| probes.contains(&stamp));
        if !is_probe {
            self.counts[1] += 1;
        }
    }
}

/// Returns the sender of a data segment, the sequence number after its last byte, and its TSval.
fn segment(packet: &Carried<Parcel>) -> Option<(SocketAddr, u32, Option<u32>)> {
    let parcel = packet.payload.as_ref()?;
    let (header, offset) = CheshireCodec::parse(&parcel.payload).ok()?;
    let len = parcel.payload_len().checked_sub(offset).filter(|len| *len > 0)?;
    let stamp = header.options.timestamps.map(|stamps| stamps.value);
    Some((parcel.from, header.seq.wrapping_add(len as u32), stamp))
}

impl Drops {
    fn add(&mut self, at: Time, cause: Cause) {
        let at = (at - Time::ZERO).as_secs_f64();
        self.count += 1;
        self.first.entry(cause).and_modify(|first| *first = first.min(at)).or_insert(at);
        let count = self.count as f64;
        self.all.iter_mut().for_each(|all| all.push((at, count)));
    }
}

pub(super) struct DropHook(pub(super) std::rc::Rc<std::cell::RefCell<Drops>>);

impl Hook<Parcel> for DropHook {
    fn offered(&mut self, _: Time, packet: &mut Carried<Parcel>, _: &View) {
        self.0.borrow_mut().data.iter_mut().for_each(|data| data.offered(packet));
    }

    fn dropped(&mut self, now: Time, packet: &Carried<Parcel>, cause: Cause) {
        let mut drops = self.0.borrow_mut();
        drops.add(now, cause);
        drops.data.iter_mut().for_each(|data| data.dropped(packet));
    }
}

/// Segments and acknowledgments of one connection at its sender's host: seconds, and bytes from 0.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    node: usize,
    /// Time after which the first opened connection is the one observed.
    since: Time,
    /// Port of the connection, sequence number of its SYN, and the highest offsets sent and acknowledged.
    port: Option<u16>,
    syn: u32,
    sent: u64,
    acked: u64,
    pub(super) segments: Vec<(f64, f64)>,
    /// Segments retransmitted.
    pub(super) resent: Vec<(f64, f64)>,
    pub(super) acks: Vec<(f64, f64)>,
}

impl Sequences {
    pub(super) fn new(node: usize, since: Time) -> Self {
        Self { node, since, ..Self::default() }
    }

    /// Converts a sequence number to the nearest stream offset around `near`.
    fn offset(&self, number: u32, near: u64) -> u64 {
        let relative = number.wrapping_sub(self.syn).wrapping_sub(1);
        let ahead = relative.wrapping_sub(near as u32).cast_signed();
        near.saturating_add_signed(i64::from(ahead))
    }

    fn leaves(&mut self, at: f64, number: u32, bytes: u64) {
        let offset = self.offset(number, self.sent);
        if offset >= self.sent {
            self.sent = offset + bytes;
            self.segments.push((at, offset as f64));
        } else {
            self.resent.push((at, offset as f64));
        }
    }
}

impl Tap for Sequences {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let (is_out, port) = match sighting {
            Sighting::Sent(node) if node == self.node => (true, packet.from.port()),
            Sighting::Received(node) if node == self.node => (false, packet.to.port()),
            _ => return,
        };
        if now < self.since || self.port.is_some_and(|own| own != port) {
            return;
        }
        let Ok(segment) = Segment::parse::<CheshireCodec>(&packet.payload) else { return };
        let (header, bytes) = (&segment.header, segment.payload.len() as u64 + u64::from(packet.zeros));
        let at = (now - Time::ZERO).as_secs_f64();
        if is_out && header.flags.contains(Flags::SYN) {
            (self.port, self.syn) = (Some(port), header.seq);
        } else if self.port.is_none() {
        } else if is_out && bytes > 0 {
            self.leaves(at, header.seq, bytes);
        } else if !is_out && header.flags.contains(Flags::ACK) && !header.flags.contains(Flags::SYN) {
            let acked = self.offset(header.ack, self.acked);
            self.acked = self.acked.max(acked);
            self.acks.push((at, acked as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_go_on_where_sequence_numbers_wrap() {
        let mut seen = Sequences { syn: u32::MAX - 1000, ..Sequences::default() };
        seen.leaves(0.0, u32::MAX - 999, 600);
        seen.leaves(1.0, u32::MAX - 399, 600);
        seen.leaves(2.0, 200, 600);
        seen.leaves(3.0, u32::MAX - 399, 600);
        assert_eq!(seen.segments, [(0.0, 0.0), (1.0, 600.0), (2.0, 1200.0)]);
        assert_eq!(seen.resent, [(3.0, 600.0)]);
        let mut long = Sequences { sent: 3 << 32, ..Sequences::default() };
        long.leaves(4.0, 1, 1);
        assert_eq!(long.segments, [(4.0, (3u64 << 32) as f64)]);
    }
}

//! Observation of packets at the hosts.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_units::Time;

use crate::packet::Packet;

/// Place at which a packet was seen. Hosts are identified by their nodes. For the fate of packets on a link, use its
/// [hook](crate::Sim::set_hook).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// Sent by this host.
    Sent(usize),
    /// Injected by an attacker and addressed to this host.
    Injected(usize),
    /// About to be received by this host.
    Received(usize),
}

/// Observer of every packet, such as a checker or a capture file.
pub trait Tap {
    /// Called for each packet.
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet);
}

/// For taps that are inspected while the simulation runs.
impl<T: Tap> Tap for Rc<RefCell<T>> {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        self.borrow_mut().see(now, sighting, packet);
    }
}

/// Bytes of a datagram that are hashed: any header, which has 12 bytes and up to 40 bytes of options.
const HASHED: usize = 52;

/// Hash of all sightings, in order: times, places, ECN and DSCP, sizes and headers. It is meant for the comparison of
/// runs, not for security. The function is FNV-1a (Fowler, Noll and Vo) over 8-byte words, with a rotation that brings
/// high bits down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl TraceHash {
    /// Returns the hash so far.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Mixes in a word.
    #[inline]
    pub fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
    }
}

impl Tap for TraceHash {
    #[inline]
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let (kind, host) = match sighting {
            Sighting::Sent(host) => (0, host),
            Sighting::Injected(host) => (1, host),
            Sighting::Received(host) => (2, host),
        };
        self.add(now.as_nanos());
        self.add((host as u64) << 32 | kind << 16 | u64::from(packet.dscp) << 8 | u64::from(packet.ecn.bits()));
        self.add(packet.payload_len() as u64);
        // Received packets were hashed when sent, so eight bytes suffice to identify them.
        let hashed = if kind == 2 { 8 } else { HASHED };
        let header = packet.payload.get(..hashed).unwrap_or(&packet.payload);
        let (words, rest) = header.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
    }
}

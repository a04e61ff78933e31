//! Watching what passes.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_units::Time;

use crate::packet::Packet;

/// Where a packet was seen. Hosts are named by their nodes. What becomes of a packet on the way a
/// [hook](crate::Sim::set_hook) of a link knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// This host sends it.
    Sent(usize),
    /// Somebody else put it on the wire to this host.
    Injected(usize),
    /// This host is about to receive it.
    Received(usize),
}

/// Sees every packet: a checker, a capture file.
pub trait Tap {
    /// A packet passes.
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet);
}

/// For taps that are looked at while the simulation goes on.
impl<T: Tap> Tap for Rc<RefCell<T>> {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        self.borrow_mut().see(now, sighting, packet);
    }
}

/// Bytes of a datagram that are hashed: any header, 12 bytes and 40 of options.
const HASHED: usize = 52;

/// A hash of all that was seen, in order: times, places, marks, sizes and headers. For comparing runs, not for security.
/// FNV-1a (Fowler, Noll and Vo) over words of eight bytes, with a rotation that brings high bits down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl TraceHash {
    /// The hash so far.
    #[must_use]
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
        // It was seen when it was sent: eight bytes tell which it is.
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

//! Watching what passes.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_units::Time;

use crate::link::Fate;
use crate::packet::Packet;

/// Where a packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// Host `0` or `1` sent it, and this is what becomes of it.
    Sent(usize, Fate),
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

/// A hash of all that was seen, in order: 64-bit FNV-1a (Fowler, Noll and Vo). For comparing runs, not for security.
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

    /// Mixes in bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Tap for TraceHash {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let place = match sighting {
            Sighting::Sent(host, fate) => [0, host as u8, fate as u8],
            Sighting::Injected(host) => [1, host as u8, 0],
            Sighting::Received(host) => [2, host as u8, 0],
        };
        self.add(&now.as_nanos().to_le_bytes());
        self.add(&place);
        self.add(&[packet.ecn as u8, packet.dscp]);
        self.add(&(packet.payload.len() as u64).to_le_bytes());
        self.add(&packet.payload);
    }
}

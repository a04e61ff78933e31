//! Per-address accounting of passively opened connections and of their memory.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use super::{Endpoint, Slot};
use crate::config::EndpointConfig;
use crate::connection::Pressure;
use crate::keys::Keys;
use crate::tuple::Tuple;

/// Granularity of memory charged to an address, in bytes: most connections are idle and use less.
const UNIT: usize = 64 << 10;

/// Share of one address.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    connections: u32,
    memory: usize,
}

/// Shares by address. IPv6 addresses count by their /64 prefix, because a host can choose among all addresses of its
/// subnet (RFC 4291, section 2.5.1; RFC 8981).
#[derive(Debug)]
pub(super) struct Tally(HashMap<IpAddr, Share, Keys>);

impl Tally {
    pub(super) fn new(keys: Keys) -> Self {
        Self(HashMap::with_hasher(keys))
    }

    pub(super) fn count(&self, address: IpAddr) -> usize {
        self.0.get(&who(address)).map_or(0, |share| share.connections as usize)
    }

    pub(super) fn add(&mut self, slot: &Slot) {
        if slot.passive {
            self.raise(slot.tuple.remote.ip());
        }
    }

    pub(super) fn remove(&mut self, slot: &Slot) {
        if slot.passive {
            self.lower(slot.tuple.remote.ip(), slot.charged);
        }
    }

    /// Charges the current memory of a connection to its address and returns the memory of all connections of that
    /// address. Returns 0 if the connection uses less than one unit, and for connections that we opened.
    pub(super) fn charge(&mut self, slot: &mut Slot) -> usize {
        let charge = slot.memory - slot.memory % UNIT;
        if !slot.passive || (charge, slot.charged) == (0, 0) {
            return 0;
        }
        let Some(share) = self.0.get_mut(&who(slot.tuple.remote.ip())) else { return 0 };
        share.memory = share.memory.saturating_add(charge).saturating_sub(slot.charged);
        slot.charged = charge;
        share.memory
    }

    fn raise(&mut self, address: IpAddr) {
        let share = self.0.entry(who(address)).or_default();
        share.connections = share.connections.saturating_add(1);
    }

    fn lower(&mut self, address: IpAddr, memory: usize) {
        let address = who(address);
        let Some(share) = self.0.get_mut(&address) else { return };
        share.connections = share.connections.saturating_sub(1);
        share.memory = share.memory.saturating_sub(memory);
        if share.connections == 0 {
            self.0.remove(&address);
        }
    }
}

impl Endpoint {
    /// Returns whether SYNs are answered.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.listener.is_some()
    }

    /// Replaces the limits, for another listener on the same socket. Connections above a new limit stay until they
    /// end. The secret, the number of TIME-WAIT records and the initial sequence number for tests are kept.
    pub fn set_limits(&mut self, config: &EndpointConfig) {
        let EndpointConfig { secret, max_time_wait, initial_sequence, .. } = self.config;
        self.config = EndpointConfig { secret, max_time_wait, initial_sequence, ..config.clone() };
    }

    /// Returns whether the limit of all connections, or that of the peer address, leaves no room for another
    /// connection.
    pub(super) fn is_full_for(&self, tuple: &Tuple) -> bool {
        self.live >= self.config.max_connections || self.tally.count(tuple.remote.ip()) >= self.config.max_per_address
    }
}

/// Returns the memory pressure at `taken` of `limit` bytes.
pub(super) fn pressure(taken: usize, limit: usize) -> Pressure {
    if taken >= limit {
        Pressure::Hard
    } else if taken >= (limit >> 2).saturating_mul(3) {
        Pressure::Soft
    } else {
        Pressure::None
    }
}

fn who(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let mut tally = Tally::new(Keys::new(&[1; 32]));
        for address in ["2001:db8::1", "2001:db8::ffff:1:2", "2001:db8:0:1::1", "192.0.2.1", "::ffff:192.0.2.1"] {
            tally.raise(ip(address));
        }
        assert_eq!(
            ["2001:db8::9", "2001:db8:0:1::9", "192.0.2.1", "192.0.2.2"].map(|a| tally.count(ip(a))),
            [2, 1, 2, 0]
        );
        for _ in 0..3 {
            tally.lower(ip("192.0.2.1"), 0);
        }
        assert_eq!((tally.count(ip("192.0.2.1")), tally.0.len()), (0, 2), "its share is removed");
    }
}

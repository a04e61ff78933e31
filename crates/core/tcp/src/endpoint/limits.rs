//! Limits of an endpoint and its group on connections and memory.

use std::sync::Arc;

use longhaul_units::Time;
use longhaul_wire::{CheshireCodec, Codec, Flags};

use super::group::{EndpointGroup, Membership, Share, UNIT};
use super::slots::Slot;
use crate::connection::Pressure;
use crate::{Endpoint, EndpointConfig, Tuple};

impl Endpoint {
    /// Creates an endpoint without connections. The limits of `config` apply to all endpoints of `group` together.
    ///
    /// If all endpoints of the group have the same address, `index` is the number of this endpoint in the directory of
    /// the group, and all must use the same secret. With `None`, the endpoint is not in the directory: endpoints with
    /// different addresses may each have a connection to the same peer.
    #[must_use]
    pub fn in_group(config: EndpointConfig, now: Time, group: EndpointGroup, index: Option<u32>) -> Self {
        Self::with(config, now, Membership::new(group, index))
    }

    /// Returns the number of another endpoint of this group to which `datagram` should be passed: it has the connection
    /// between these addresses, or the connection that the datagram would move there.
    #[must_use]
    pub fn owner(&mut self, tuple: &Tuple, datagram: &[u8]) -> Option<u32> {
        if self.membership.index.is_none() || self.find_slot(tuple).is_some() {
            return None;
        }
        let moving = || CheshireCodec::parse(datagram).ok()?.0.options.moving;
        self.membership.owner(tuple).or_else(|| self.membership.owner(&moving()?.value))
    }

    /// Returns the flags of `datagram` if this endpoint would drop it or answer it with a RST, although another host
    /// with the same address may have its connection. This includes a SYN that opens a connection only if the endpoint
    /// does not listen.
    #[must_use]
    pub fn stray(&mut self, now: Time, tuple: &Tuple, datagram: &[u8]) -> Option<Flags> {
        if !tuple.joins_two_hosts() || self.find_slot(tuple).is_some() {
            return None;
        }
        let (header, offset) = CheshireCodec::parse(datagram).ok()?;
        let flags = header.flags;
        if flags.contains(Flags::SYN) {
            return (!flags.contains(Flags::ACK) && self.listener.is_none()).then_some(flags);
        }
        let now = self.advance(now);
        let moves = || header.options.moving.is_some_and(|moving| self.table.find_number(&moving.value).is_some());
        // The first data of a connection that another host has opened by a cookie returns the cookie, too.
        let opens = || datagram.len() == offset && self.returns_cookie(now, tuple, &header);
        let is_ours = moves() || self.time_wait.get(tuple).is_some() || opens();
        (!is_ours).then_some(flags)
    }

    /// Returns whether SYNs are answered.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.listener.is_some()
    }

    /// Replaces the limits, for another listener on the same socket. Connections above a new limit are kept until they
    /// end. The secret, its clock, the number of TIME-WAIT records and the initial sequence number for tests are kept.
    pub fn set_limits(&mut self, config: &EndpointConfig) {
        let EndpointConfig { secret, shared_clock, max_time_wait, initial_sequence, .. } = self.config;
        self.config = EndpointConfig { secret, shared_clock, max_time_wait, initial_sequence, ..config.clone() };
    }

    pub(super) fn is_full_for(&self, tuple: &Tuple) -> bool {
        let limits = &self.config;
        self.is_out_of_memory()
            || self.membership.is_full(tuple.remote.ip(), limits.max_connections, limits.max_per_address)
    }

    pub(super) fn is_out_of_memory(&self) -> bool {
        self.membership.memory(self.memory) >= self.config.max_memory
    }

    /// Counts a passive open, unless a limit on the number of connections is reached.
    pub(super) fn admit(&self, tuple: &Tuple) -> Option<Arc<Share>> {
        self.membership.open_from(tuple.remote.ip(), self.config.max_connections, self.config.max_per_address)
    }

    /// Updates the memory accounting of a connection, and the memory pressure on it.
    pub(super) fn charge(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let memory = slot.connection.status().memory();
        self.memory = self.memory.saturating_add(memory).saturating_sub(slot.memory);
        slot.memory = memory;
        self.membership.publish(self.memory);
        let all = pressure(self.membership.memory(self.memory), self.config.max_memory);
        let its = pressure(slot.charge(), self.config.max_memory_per_address);
        slot.connection.set_pressure(all.max(its));
    }

    /// Removes a connection that is being forgotten from all counts.
    pub(super) fn discharge(&mut self, slot: &Slot) {
        self.memory = self.memory.saturating_sub(slot.memory);
        self.membership.publish(self.memory);
        self.membership.close(slot.tuple.remote.ip(), slot.share.as_deref(), slot.charged);
        if slot.pending {
            self.membership.counts().pending.subtract(1);
        }
    }
}

impl Slot {
    /// Charges the current memory to the peer's address and returns the memory of all connections of that address.
    /// Returns 0 if the connection uses less than one unit, and for connections that we opened.
    fn charge(&mut self) -> usize {
        let charge = self.memory - self.memory % UNIT;
        let Some(share) = self.share.as_deref().filter(|_| (charge, self.charged) != (0, 0)) else { return 0 };
        let old = std::mem::replace(&mut self.charged, charge);
        share.charge(old, charge)
    }
}

/// The other endpoints of the group continue without this one.
impl Drop for Endpoint {
    fn drop(&mut self) {
        if !self.membership.shared {
            return;
        }
        for slot in self.slots.take_all() {
            self.membership.strike_out(&slot.tuple);
            if let Some(anchor) = &slot.anchor {
                self.membership.strike_out(anchor.number());
            }
            self.discharge(&slot);
        }
        if let Some(listener) = self.listener.take() {
            self.membership.counts().ready.subtract(listener.ready.len());
        }
    }
}

fn pressure(taken: usize, limit: usize) -> Pressure {
    if taken >= limit {
        Pressure::Hard
    } else if taken >= (limit >> 2).saturating_mul(3) {
        Pressure::Soft
    } else {
        Pressure::None
    }
}

//! Receive path: passes datagrams to the endpoint of the shard that owns their connection.

use bytes::Bytes;
use longhaul_tcp::{DatagramMeta, Ecn, Tuple};
use longhaul_units::Time;

use super::{Shared, State};
use crate::io::{Incoming, Io};
use crate::roaming::Roaming;
use crate::sync::MutexGuard;

/// Datagrams that the kernel delivered to this shard for a connection of another shard, which happens after the number
/// of sockets with this address has changed.
pub(crate) struct Forwarded {
    shard: u32,
    meta: DatagramMeta,
    data: Bytes,
}

impl State {
    /// Passes a received message to the endpoint, or to another shard or host.
    pub(crate) fn receive(&mut self, shared: &Shared, now: Time, incoming: &Incoming<'_>, drops: Option<u32>) {
        if let Some(drops) = drops {
            self.stats.kernel_drops += u64::from(drops.wrapping_sub(self.kernel_drops_seen));
            self.kernel_drops_seen = drops;
        }
        if !self.hands_over(shared, now, incoming) {
            self.take_in(shared, now, incoming);
        }
    }

    /// Passes a message to the endpoint, or sets it aside for another shard.
    pub(crate) fn take_in(&mut self, shared: &Shared, now: Time, incoming: &Incoming<'_>) {
        let tuple = shared.tuple(incoming.source, incoming.dst_ip);
        let mut meta = DatagramMeta::new(incoming.source, incoming.stride);
        meta.tuple = tuple;
        meta.tos = incoming.tos;
        meta.segment.rx_time = incoming.rx_time;
        meta.segment.coalesced = incoming.coalesced;
        meta.segment.ecn = Ecn::from_bits(incoming.ecn);
        meta.segment.ttl = incoming.ttl;
        for capture in &self.captures {
            capture.lock().received(now, Roaming::local(self.roaming.as_deref(), shared), incoming);
        }
        if let Some(shard) = self.other_shard(&tuple, incoming.data) {
            // The buffer of a large message need not be copied.
            let data = incoming.shared.map_or_else(|| Bytes::copy_from_slice(incoming.data), Bytes::clone);
            self.forwarded_messages += 1;
            self.forwarded.push(Forwarded { shard, meta, data });
            return;
        }
        self.endpoint.handle_datagram(now, &meta, incoming.data, incoming.shared);
    }

    /// Returns the number of the shard to which a message belongs if it is not this one.
    pub(crate) fn other_shard(&mut self, tuple: &Tuple, data: &[u8]) -> Option<u32> {
        let owner = self.endpoint.owner(tuple, data);
        // Segments after the answer that moves a connection belong to the same shard.
        let follows = || self.forwarded.last().filter(|last| last.meta.tuple == *tuple).map(|last| last.shard);
        owner.or_else(follows)
    }
}

impl Shared {
    /// Ends a receive call of the driver: completes the call for this shard, and then forwards messages for other
    /// shards. Two shards are never locked at the same time.
    ///
    /// Returns whether sending is deferred to the next poll of the driver, because a woken task is likely to write
    /// immediately: the ACK of the handshake or of a FIN is then sent with this data or FIN, which saves the peer a
    /// datagram and a wake-up.
    pub(crate) fn settle_received(&self, mut state: MutexGuard<'_, State>, now: Time) -> bool {
        let mut forwarded = std::mem::take(&mut state.forwarded);
        (state.reply_expected, state.is_behind) = (false, false);
        state.finish();
        let defers = state.reply_expected;
        if defers {
            State::wake(state);
        } else {
            self.settle(state, now);
        }
        // Datagrams for the same shard are processed together, in the order of arrival.
        forwarded.sort_by_key(|forwarded| forwarded.shard);
        for group in forwarded.chunk_by(|one, next| one.shard == next.shard) {
            let shard = group.first().and_then(|first| self.shards.as_ref()?.get(first.shard));
            let Some(other) = shard else { continue };
            let mut state = other.lock();
            let now = Io::now();
            for Forwarded { meta, data, .. } in group {
                state.endpoint.handle_datagram(now, meta, data, Some(data));
            }
            other.settle(state, now);
        }
        defers
    }
}

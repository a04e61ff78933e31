//! Connections of an endpoint by number.

use std::sync::Arc;

use super::group::Share;
use super::moving::Anchor;
use crate::{ConnId, Connection, PathCache, Tuple};

/// Connection of an endpoint.
pub(super) struct Slot {
    pub(super) id: ConnId,
    pub(super) tuple: Tuple,
    pub(super) connection: Connection,
    /// Position among the slots in use.
    place: u32,
    /// Whether the slot is in the queue of connections that may have data to send.
    pub(super) queued: bool,
    /// Whether the application holds the connection or will get it from `accept`.
    pub(super) held: bool,
    /// Whether this is a passive open that the application has not accepted yet.
    pub(super) pending: bool,
    /// Per-address count of the peer's connections, if the peer opened this connection.
    pub(super) share: Option<Arc<Share>>,
    pub(super) memory: usize,
    /// Memory charged to the peer's address.
    pub(super) charged: usize,
    /// Metrics cache to update when the connection has finished sending.
    pub(super) path_cache: Option<PathCache>,
    /// State of moves, for a server's connection that can move.
    pub(super) anchor: Option<Box<Anchor>>,
}

/// Slots of connections, some of which are free.
#[derive(Default)]
pub(super) struct Slots {
    all: Vec<Option<Box<Slot>>>,
    /// The handles of the next connections in free slots.
    free: Vec<ConnId>,
    /// The numbers of the slots in use.
    live: Vec<u32>,
}

impl Slots {
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Slot> {
        self.all.get(index as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.all.get_mut(index as usize)?.as_deref_mut()
    }

    /// Returns a connection unless the endpoint has forgotten it.
    #[inline]
    pub(super) fn of(&self, id: ConnId) -> Option<&Slot> {
        self.get(id.slot).filter(|slot| slot.id == id)
    }

    #[inline]
    pub(super) fn of_mut(&mut self, id: ConnId) -> Option<&mut Slot> {
        self.get_mut(id.slot).filter(|slot| slot.id == id)
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// Iterates over the connections in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.all.iter().filter_map(Option::as_deref)
    }

    /// Iterates over the connections in any order, without visiting free slots.
    pub(super) fn live(&self) -> impl Iterator<Item = &Slot> {
        self.live.iter().filter_map(|index| self.get(*index))
    }

    /// Adds a connection, with the `share` of its peer's address if the peer opened it.
    pub(super) fn insert(&mut self, tuple: Tuple, connection: Connection, share: Option<Arc<Share>>) -> ConnId {
        let id = self.free.pop().unwrap_or(ConnId { slot: self.all.len() as u32, generation: 0 });
        let path_cache = connection.config.path_cache.clone();
        let (place, pending) = (self.live.len() as u32, share.is_some());
        let (memory, charged, queued, held) = (0, 0, false, true);
        let anchor = None;
        let slot =
            Slot { id, tuple, connection, place, queued, held, pending, share, memory, charged, path_cache, anchor };
        let index = id.slot as usize;
        if index == self.all.len() {
            self.all.push(None);
        }
        if let Some(free) = self.all.get_mut(index) {
            *free = Some(Box::new(slot));
        }
        self.live.push(id.slot);
        id
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Box<Slot>> {
        let slot = self.all.get_mut(index as usize)?.take()?;
        self.live.swap_remove(slot.place as usize);
        if let Some(moved) = self.live.get(slot.place as usize).copied().and_then(|moved| self.get_mut(moved)) {
            moved.place = slot.place;
        }
        self.free.push(ConnId { generation: slot.id.generation.wrapping_add(1), ..slot.id });
        Some(slot)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Box<Slot>> + use<> {
        std::mem::take(self).all.into_iter().flatten()
    }

    #[cfg(test)]
    pub(super) fn are_in_their_places(&self) -> bool {
        self.live().zip(0..).all(|(slot, place)| slot.place == place)
    }
}

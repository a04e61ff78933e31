//! Connection table.

use std::collections::HashMap;
use std::hash::BuildHasher;

use super::prehashed::Prehashed;
use crate::keys::Keys;
use crate::{ConnId, Endpoint, Tuple};

/// Slots by a keyed 64-bit hash of the addresses. The slot itself contains the addresses, so that an entry takes 16
/// bytes instead of 56. If the hashes of two connections collide, the older connection is no longer found; the
/// probability is 2^-64 per pair, and a collision cannot be provoked without the key. The last result is cached,
/// because datagrams arrive in trains; most of them then need no hash.
#[derive(Debug)]
pub(super) struct Table {
    keys: Keys,
    slots: HashMap<u64, u32, Prehashed>,
    latest: Option<(Tuple, u32)>,
}

impl Table {
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, slots: HashMap::default(), latest: None }
    }

    /// Returns the slot of the connection between these addresses; `matches` compares them with those of a slot.
    #[inline]
    pub(super) fn find(&mut self, tuple: &Tuple, matches: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some((latest, slot)) = &self.latest
            && latest == tuple
        {
            return Some(*slot);
        }
        let slot = self.slots.get(&self.keys.hash_one(tuple)).copied().filter(|slot| matches(*slot))?;
        self.latest = Some((*tuple, slot));
        Some(slot)
    }

    pub(super) fn insert(&mut self, tuple: Tuple, slot: u32) {
        self.slots.insert(self.keys.hash_one(tuple), slot);
        self.latest = Some((tuple, slot));
    }

    /// Removes the entry of a slot with these addresses.
    pub(super) fn remove(&mut self, tuple: &Tuple, slot: u32) {
        let hash = self.keys.hash_one(tuple);
        if self.slots.get(&hash) == Some(&slot) {
            self.slots.remove(&hash);
        }
        self.latest = self.latest.take_if(|(latest, _)| latest != tuple);
    }

    /// Returns the slot entered under this number of a connection that can move.
    pub(super) fn find_number(&self, number: &[u8; 8]) -> Option<u32> {
        self.slots.get(&self.keys.hash_one(number)).copied()
    }

    /// Enters a slot under a number, too. Addresses are never found by its hash, because they are compared.
    pub(super) fn insert_number(&mut self, number: &[u8; 8], slot: u32) {
        self.slots.insert(self.keys.hash_one(number), slot);
    }

    pub(super) fn remove_number(&mut self, number: &[u8; 8]) {
        self.slots.remove(&self.keys.hash_one(number));
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Returns the connection between these addresses.
    #[must_use]
    pub fn find(&mut self, tuple: &Tuple) -> Option<ConnId> {
        let index = self.find_slot(tuple)?;
        Some(self.slots.get(index)?.id)
    }

    #[inline]
    pub(super) fn find_slot(&mut self, tuple: &Tuple) -> Option<u32> {
        let slots = &self.slots;
        self.table.find(tuple, |index| slots.get(index).is_some_and(|slot| slot.tuple == *tuple))
    }

    pub(super) fn unmap(&mut self, index: u32, tuple: &Tuple) {
        self.table.remove(tuple, index);
        self.membership.strike_out(tuple);
        self.unlist(index);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;

    #[test]
    fn the_cached_result_follows_removal_and_replacement() {
        let tuple =
            |port: u16| Tuple { remote: SocketAddr::from(([192, 0, 2, 1], port)), local: IpAddr::from([192, 0, 2, 2]) };
        let mut table = Table::new(Keys::new(&[1; 32]));
        let find = |table: &mut Table, port: u16| table.find(&tuple(port), |slot| slot >= 7);
        assert_eq!(find(&mut table, 1), None);
        table.insert(tuple(1), 7);
        table.insert(tuple(2), 8);
        assert_eq!(
            [1, 1, 2, 2, 1, 3].map(|port| find(&mut table, port)),
            [Some(7), Some(7), Some(8), Some(8), Some(7), None]
        );
        table.remove(&tuple(1), 7);
        assert_eq!([1, 2].map(|port| find(&mut table, port)), [None, Some(8)]);
        table.insert(tuple(2), 9);
        table.remove(&tuple(1), 7);
        assert_eq!(find(&mut table, 2), Some(9));
        // An entry that belongs to another slot by now stays, and one whose slot has other addresses is not returned.
        table.remove(&tuple(2), 8);
        assert_eq!(find(&mut table, 2), Some(9));
        table.insert(tuple(3), 5);
        find(&mut table, 2);
        assert_eq!(find(&mut table, 3), None);
    }
}

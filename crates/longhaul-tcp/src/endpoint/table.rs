//! Connection table.

use std::collections::HashMap;

use super::{ConnId, Endpoint};

use crate::keys::Keys;
use crate::tuple::Tuple;

/// Slots by addresses. The last result is cached, because datagrams arrive in trains; this saves most of them the
/// hash.
#[derive(Debug)]
pub(super) struct Table {
    slots: HashMap<Tuple, u32, Keys>,
    latest: Option<(Tuple, u32)>,
}

impl Table {
    pub(super) fn new(keys: Keys) -> Self {
        Self { slots: HashMap::with_hasher(keys), latest: None }
    }

    /// Returns the slot of the connection between these addresses.
    #[inline]
    pub(super) fn find(&mut self, tuple: &Tuple) -> Option<u32> {
        if let Some((latest, slot)) = &self.latest
            && latest == tuple
        {
            return Some(*slot);
        }
        let slot = self.slots.get(tuple).copied()?;
        self.latest = Some((*tuple, slot));
        Some(slot)
    }

    pub(super) fn insert(&mut self, tuple: Tuple, slot: u32) {
        self.slots.insert(tuple, slot);
        self.latest = Some((tuple, slot));
    }

    pub(super) fn remove(&mut self, tuple: &Tuple) {
        self.slots.remove(tuple);
        self.latest = self.latest.take_if(|(latest, _)| latest != tuple);
    }
}

impl Endpoint {
    /// Returns the connection between these addresses.
    #[must_use]
    pub fn find(&mut self, tuple: &Tuple) -> Option<ConnId> {
        let index = self.table.find(tuple)?;
        let slot = self.slots.get(index as usize)?.as_deref()?;
        Some(ConnId { slot: index, generation: slot.generation })
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
        assert_eq!(table.find(&tuple(1)), None);
        table.insert(tuple(1), 7);
        table.insert(tuple(2), 8);
        assert_eq!(
            [1, 1, 2, 2, 1, 3].map(|port| table.find(&tuple(port))),
            [Some(7), Some(7), Some(8), Some(8), Some(7), None]
        );
        table.remove(&tuple(1));
        assert_eq!([1, 2].map(|port| table.find(&tuple(port))), [None, Some(8)]);
        table.insert(tuple(2), 9);
        table.remove(&tuple(1));
        assert_eq!(table.find(&tuple(2)), Some(9));
    }
}

//! Directory of the connections of a group of endpoints.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::prehashed::Prehashed;
use crate::keys::Keys;

/// Number of parts, each with its lock. A lock is held for one lookup, and no other lock is taken during that time.
const PARTS: usize = 16;

/// Endpoint numbers by a keyed hash of the address pair, or of the number of a connection that can move. A collision of
/// hashes names the wrong endpoint, which then handles the segment as one without a connection.
#[derive(Debug)]
pub(super) struct Directory {
    keys: Keys,
    parts: [Mutex<Part>; PARTS],
}

type Part = HashMap<u64, u32, Prehashed>;

impl Directory {
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, parts: Default::default() }
    }

    pub(super) fn find(&self, name: &impl Hash) -> Option<u32> {
        let hash = self.keys.hash_one(name);
        self.part(hash)?.get(&hash).copied()
    }

    pub(super) fn insert(&self, name: &impl Hash, index: u32) {
        let hash = self.keys.hash_one(name);
        if let Some(mut part) = self.part(hash) {
            part.insert(hash, index);
        }
    }

    /// Removes the entry, unless another endpoint has a connection of this name by now.
    pub(super) fn remove(&self, name: &impl Hash, index: u32) {
        let hash = self.keys.hash_one(name);
        if let Some(mut part) = self.part(hash)
            && part.get(&hash) == Some(&index)
        {
            part.remove(&hash);
        }
    }

    /// Locks the part that contains entries with `hash`. It uses bits 32 to 35, which the hash table does not use.
    fn part(&self, hash: u64) -> Option<MutexGuard<'_, Part>> {
        let part = self.parts.get((hash >> 32) as usize % PARTS)?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;
    use crate::Tuple;

    #[test]
    fn an_entry_belongs_to_the_endpoint_that_made_it_last() {
        let tuple =
            |port: u16| Tuple { remote: SocketAddr::from(([192, 0, 2, 1], port)), local: IpAddr::from([192, 0, 2, 2]) };
        let directory = Directory::new(Keys::new(&[1; 32]));
        for port in 0..10_000 {
            directory.insert(&tuple(port), u32::from(port) % 7);
        }
        assert!((0..10_000).all(|port| directory.find(&tuple(port)) == Some(u32::from(port) % 7)));
        assert_eq!(directory.find(&tuple(10_000)), None);
        directory.insert(&tuple(3), 5);
        directory.remove(&tuple(3), 3);
        assert_eq!(directory.find(&tuple(3)), Some(5), "of another endpoint");
        directory.remove(&tuple(3), 5);
        assert_eq!(directory.find(&tuple(3)), None);
        let sizes = directory.parts.each_ref().map(|part| part.lock().unwrap().len());
        assert!(sizes.iter().all(|size| (500..750).contains(size)), "{sizes:?}");
    }
}

//! Connections per key, up to a limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use longhaul_tls::Fingerprint;

use crate::sync::lock;

/// Counts the connections of each key up to a limit, and stores their shared state.
pub(super) struct Places<T> {
    keys: Keys<T>,
    limit: usize,
}

type Keys<T> = Arc<Mutex<HashMap<Fingerprint, (usize, T)>>>;

/// Counted connection of a key, released when dropped.
pub(super) struct Place<T> {
    keys: Keys<T>,
    key: Fingerprint,
    pub(super) shared: T,
}

impl<T: Clone> Places<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { keys: Arc::default(), limit }
    }

    /// Returns a place, or `None` if all places of the key are taken. The first connection of a key creates the state
    /// shared with later ones.
    pub(super) fn take(&self, key: Fingerprint, create: impl FnOnce() -> T) -> Option<Place<T>> {
        let mut keys = lock(&self.keys);
        let (count, shared) = keys.entry(key).or_insert_with(|| (0, create()));
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Place { keys: Arc::clone(&self.keys), key, shared: shared.clone() })
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        let mut keys = lock(&self.keys);
        if let Some((count, _)) = keys.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                keys.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_tls::Identity;

    use super::*;

    #[test]
    fn a_key_has_a_limited_number_of_places() {
        let places = Places::new(3);
        let [one, other] = [(); 2].map(|()| Identity::generate().unwrap().fingerprint());
        let mut taken: Vec<_> = (0..3).map(|number| places.take(one, || number).unwrap()).collect();
        assert_eq!(taken.iter().map(|place| place.shared).collect::<Vec<_>>(), [0; 3]);
        assert!(places.take(one, || 3).is_none());
        assert!(places.take(other, || 4).is_some());
        taken.pop();
        assert!(places.take(one, || 5).is_some());
        drop(taken);
        assert!(places.keys.lock().unwrap().is_empty());
    }
}

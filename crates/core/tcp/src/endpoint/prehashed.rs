//! Hash tables whose keys are already keyed hashes.

use std::hash::{BuildHasherDefault, Hasher};

/// Hasher of keys of type `u64` that are already hashes.
pub(super) type Prehashed = BuildHasherDefault<Hashed>;

#[derive(Debug, Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

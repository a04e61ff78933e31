//! BLAKE3 by groups of 1 MiB, so that a prefix of a file can be verified before the whole file has arrived.
//!
//! A group is a subtree of BLAKE3's tree. Its chaining value verifies the group, and the chaining values of all groups
//! yield the hash of the file, so that each byte is hashed once.

use std::io::{self, Read};

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use blake3::{Hash, Hasher};

/// Length of a group in bytes, which is BLAKE3's chunk length times a power of two.
pub(crate) const GROUP: u64 = 1 << 20;

/// Hashes a file from its beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupHasher {
    /// Chaining values of the groups before the current one.
    before: Vec<ChainingValue>,
    /// The current group, which is empty only if the file is.
    current: Box<Hasher>,
}

impl GroupHasher {
    /// Appends `data`, and calls `complete` with the chaining value of each group that becomes complete.
    /// Returns the error of `complete`. The hasher cannot be used any further then.
    pub(crate) fn update<E>(
        &mut self,
        mut data: &[u8],
        mut complete: impl FnMut(&ChainingValue) -> Result<(), E>,
    ) -> Result<(), E> {
        while !data.is_empty() {
            if self.current.count() == GROUP {
                self.before.push(self.current.finalize_non_root());
                *self.current = Hasher::new();
                self.current.set_input_offset(self.before.len() as u64 * GROUP);
            }
            let room = (GROUP - self.current.count()) as usize;
            let (now, later) = data.split_at(room.min(data.len()));
            self.current.update(now);
            if self.current.count() == GROUP {
                complete(&self.current.finalize_non_root())?;
            }
            data = later;
        }
        Ok(())
    }

    /// Hashes the first `bytes` bytes of `file`, or as many as there are.
    pub(crate) fn read(file: impl Read, bytes: u64) -> io::Result<Self> {
        let (mut hasher, mut buffer, mut file) = (Self::default(), vec![0; GROUP as usize], file.take(bytes));
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(hasher),
                Ok(read) => hasher.update(buffer.get(..read).unwrap_or_default(), |_| io::Result::Ok(()))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.before.len() as u64 * GROUP + self.current.count()
    }

    pub(crate) fn finalize(&self) -> Hash {
        if self.before.is_empty() {
            return self.current.finalize();
        }
        let mut groups = self.before.clone();
        groups.push(self.current.finalize_non_root());
        let (left, right) = groups.split_at(left_len(groups.len()));
        merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash)
    }
}

/// The complete groups at the beginning of a file.
#[derive(Debug, Default)]
pub(crate) struct Prefix {
    pub(crate) groups: u64,
    /// Hash of their chaining values.
    pub(crate) digest: Box<blake3::Hasher>,
    pub(crate) hasher: GroupHasher,
}

impl Prefix {
    /// Hashes the first `groups` groups of `file`, or as many as there are.
    pub(crate) fn read(file: impl Read, groups: u64) -> io::Result<Self> {
        Self::read_while(file, groups, |_| Ok(true))
    }

    /// As [`read`](Self::read), up to the first group for whose chaining value `is_right` returns false.
    /// Returns the system's error if the file cannot be read, or that of `is_right`.
    pub(crate) fn read_while(
        mut file: impl Read,
        groups: u64,
        mut is_right: impl FnMut(&ChainingValue) -> io::Result<bool>,
    ) -> io::Result<Self> {
        let mut prefix = Self::default();
        let mut buffer = Vec::new();
        while prefix.groups < groups {
            buffer.clear();
            if (&mut file).take(GROUP).read_to_end(&mut buffer)? < GROUP as usize {
                break;
            }
            let (mut hasher, mut group) = (prefix.hasher.clone(), ChainingValue::default());
            hasher.update(&buffer, |value| {
                group = *value;
                io::Result::Ok(())
            })?;
            if !is_right(&group)? {
                break;
            }
            prefix.digest.update(&group);
            prefix.hasher = hasher;
            prefix.groups += 1;
        }
        Ok(prefix)
    }
}

/// Returns the number of groups in the left subtree of a tree of `groups` groups: the largest power of two below
/// (BLAKE3 paper, section 2.1).
fn left_len(groups: usize) -> usize {
    groups.next_power_of_two() / 2
}

/// Returns the chaining value of a tree that is part of another one.
fn subtree(groups: &[ChainingValue]) -> ChainingValue {
    match groups {
        [] => ChainingValue::default(),
        [only] => *only,
        _ => {
            let (left, right) = groups.split_at(left_len(groups.len()));
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_hash_is_that_of_blake3_for_all_shapes_of_the_tree() {
        let all: Vec<u8> = (0..9 * GROUP as u32 + 1025).map(|i| (i ^ i >> 7 ^ i >> 15) as u8).collect();
        for groups in 0..=9 {
            for more in [0, 1, 1024, 1025] {
                let data = &all[..groups * GROUP as usize + more];
                for step in [data.len().max(1), 300_000] {
                    let (mut hasher, mut complete) = (GroupHasher::default(), 0);
                    for part in data.chunks(step) {
                        let count = |_: &ChainingValue| {
                            complete += 1;
                            Ok::<_, Infallible>(())
                        };
                        hasher.update(part, count).unwrap();
                    }
                    assert_eq!((hasher.finalize(), hasher.len()), (blake3::hash(data), data.len() as u64));
                    assert_eq!(complete, groups, "{} bytes", data.len());
                }
            }
        }
    }
}

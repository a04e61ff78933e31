//! BLAKE3 by groups of 1 MiB, so that a prefix of a file can be verified before the whole file has arrived.
//!
//! A group is a subtree of BLAKE3's tree. Its chaining value verifies the group, and the chaining values of all groups
//! yield the hash of the file, so that each byte is hashed only once.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use blake3::{Hash, Hasher};

/// Length of a group in bytes, which is BLAKE3's chunk length times a power of two.
pub(crate) const GROUP: u64 = 1 << 20;

/// Hashes a file from its beginning, or after groups that are hashed elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupHasher {
    /// Number of leading groups whose chaining values are not known yet.
    missing: u64,
    /// Chaining values of the groups between the leading groups and the current one.
    before: Vec<ChainingValue>,
    /// The current group, which is empty only if nothing follows `before`.
    current: Box<Hasher>,
}

impl GroupHasher {
    /// Continues after groups with these chaining values.
    pub(crate) fn after(groups: Vec<ChainingValue>) -> Self {
        let mut hasher = Self { before: groups, ..Self::default() };
        hasher.begin_group();
        hasher
    }

    /// Creates a hasher that continues after `groups` groups, whose chaining values have to be [supplied](Self::supply)
    /// before the hash is final.
    pub(crate) fn without(groups: u64) -> Self {
        let mut hasher = Self { missing: groups, ..Self::default() };
        hasher.begin_group();
        hasher
    }

    /// Supplies the chaining values that are missing.
    pub(crate) fn supply(&mut self, mut groups: Vec<ChainingValue>) {
        groups.append(&mut self.before);
        (self.missing, self.before) = (0, groups);
    }

    fn begin_group(&mut self) {
        *self.current = Hasher::new();
        self.current.set_input_offset((self.missing + self.before.len() as u64) * GROUP);
    }

    /// Returns the chaining values of the groups before the current one.
    pub(crate) fn into_groups(self) -> Vec<ChainingValue> {
        self.before
    }

    /// Appends `data`, and calls `complete` with the chaining value of each group that becomes complete. Returns the
    /// error of `complete`. After an error, the hasher can no longer be used.
    pub(crate) fn update<E>(
        &mut self,
        mut data: &[u8],
        mut complete: impl FnMut(&ChainingValue) -> Result<(), E>,
    ) -> Result<(), E> {
        while !data.is_empty() {
            if self.current.count() == GROUP {
                self.before.push(self.current.finalize_non_root());
                self.begin_group();
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

    /// Hashes the first `bytes` bytes of `file`, or up to its end.
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
        (self.missing + self.before.len() as u64) * GROUP + self.current.count()
    }

    pub(crate) fn finalize(&self) -> Hash {
        if self.before.is_empty() {
            return self.current.finalize();
        }
        let mut groups = self.before.clone();
        if self.current.count() > 0 {
            groups.push(self.current.finalize_non_root());
        }
        let (left, right) = groups.split_at(left_len(groups.len()));
        merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash)
    }
}

/// Returns the chaining values of the first `groups` groups of `file`, of which the last may be incomplete, or of those
/// before the first one for which `is_right` returns false.
/// Returns the system's error if the file cannot be read.
pub(crate) fn chaining_values(
    mut file: impl Read,
    groups: u64,
    is_right: impl Fn(usize, &ChainingValue) -> bool,
) -> io::Result<Vec<ChainingValue>> {
    let (mut found, mut buffer) = (Vec::new(), Vec::new());
    while (found.len() as u64) < groups {
        buffer.clear();
        (&mut file).take(GROUP).read_to_end(&mut buffer)?;
        if buffer.is_empty() {
            break;
        }
        let group = chaining_value(found.len() as u64, &buffer);
        if !is_right(found.len(), &group) {
            break;
        }
        found.push(group);
    }
    Ok(found)
}

/// Returns the chaining value of the group with this number.
pub(crate) fn chaining_value(number: u64, contents: &[u8]) -> ChainingValue {
    Hasher::new().set_input_offset(number * GROUP).update(contents).finalize_non_root()
}

/// Returns the hash of the chaining values of groups, by which both ends compare what they have.
pub(crate) fn digest(groups: &[ChainingValue]) -> Hash {
    blake3::hash(groups.as_flattened())
}

/// Reads a file from its beginning without changing the position of other handles.
pub(crate) struct Beside(File, u64);

impl Beside {
    pub(crate) fn open(file: &File) -> io::Result<Self> {
        Ok(Self(file.try_clone()?, 0))
    }
}

impl Read for Beside {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(buffer, self.1)?;
        self.1 += read as u64;
        Ok(read)
    }
}

/// Returns the number of groups in the left subtree of a tree of `groups` groups: the largest power of two below
/// `groups` (BLAKE3 paper, section 2.1).
fn left_len(groups: usize) -> usize {
    groups.next_power_of_two() / 2
}

/// Returns the chaining value of a tree that is part of a larger tree.
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
                    // The same after groups that are known at once, or later.
                    for first in (0..=groups).filter(|first| *first > 1 || data.len() > first * GROUP as usize) {
                        let (before, rest) = data.split_at(first * GROUP as usize);
                        let known = chaining_values(before, u64::MAX, |_, _| true).unwrap();
                        let mut late = GroupHasher::without(first as u64);
                        let mut early = GroupHasher::after(known.clone());
                        for hasher in [&mut late, &mut early] {
                            hasher.update(rest, |_| Ok::<_, Infallible>(())).unwrap();
                        }
                        late.supply(known);
                        assert_eq!([late, early].map(|hasher| hasher.finalize()), [blake3::hash(data); 2]);
                    }
                }
            }
        }
    }

    #[test]
    fn the_last_chaining_value_is_that_of_the_rest() {
        let all: Vec<u8> = (0..2 * GROUP as u32 + 77).map(|i| (i ^ i >> 9) as u8).collect();
        let mut complete = Vec::new();
        let keep = |value: &ChainingValue| {
            complete.push(*value);
            Ok::<_, Infallible>(())
        };
        GroupHasher::default().update(&all, keep).unwrap();
        let values = |contents: &[u8]| chaining_values(contents, u64::MAX, |_, _| true).unwrap();
        assert_eq!((values(&all).len(), &values(&all)[..2]), (3, &complete[..]));
        assert_ne!(values(&all)[2], values(&all[..all.len() - 1])[2]);
        assert!(values(b"").is_empty());
    }
}

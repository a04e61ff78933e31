//! Limits on the bytes that a receiver accepts, in total and per peer, and a record of what a connection has placed.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::{fmt, io};

use longhaul_tls::Fingerprint;
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::names::Name;
use crate::sync::lock;

/// Minimum number of bytes that a file, a directory or a link counts as: even an empty one takes space.
const LEAST: u64 = 4096;

/// Message to a sender that exceeds a limit.
pub(super) const EXCEEDED: &str = "it exceeds what the receiver accepts";

/// Message to a sender if an entry would replace another one of the same connection.
pub(super) const SAME: &str = "the file system does not distinguish its name from that of a file sent before";

/// Maximum number of entries that a connection remembers: a table of 18 MB has room for them.
const MAX_PLACED: usize = 7 << 17;

/// Maximum total number of bytes of all files, and of the files of each peer. Clones share the same budget.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    limit: Option<u64>,
    per_peer: Option<u64>,
    ledger: Arc<Mutex<Ledger>>,
    /// What a connection that may replace entries has placed.
    placed: Option<Arc<Mutex<Placed>>>,
}

/// Hashes of the device and the inode of entries, with hashes of their paths.
type Placed = HashMap<u64, u64>;

/// Bytes that count towards the limits.
#[derive(Debug, Default)]
struct Ledger {
    all: u64,
    peers: HashMap<Fingerprint, u64>,
    /// The part of these bytes that belongs to parts on the disk.
    parts: HashMap<(Fingerprint, Name), u64>,
}

/// A limit that a file would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// The option that sets the limit.
    pub(crate) option: &'static str,
    /// The limit in bytes.
    pub(crate) bytes: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.option, self.bytes)
    }
}

/// Sender on whose behalf files, directories and links are created.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owner {
    budget: Budget,
    peer: Option<Fingerprint>,
}

impl Owner {
    pub(crate) fn peer(&self) -> Option<Fingerprint> {
        self.peer
    }

    /// Creates an entry that counts as [`LEAST`] bytes.
    pub(crate) fn pay<R>(&self, create: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let mut share = Share { owner: self.clone(), taken: 0, covered: 0, spare: 0, part: None };
        let exceeded = |_| io::Error::new(io::ErrorKind::QuotaExceeded, EXCEEDED);
        share.take(LEAST).map_err(exceeded)?;
        let created = create()?;
        share.keep();
        Ok(created)
    }

    /// Checks that the existing `entry` may be replaced by `path`. If the same connection has placed it at another path, the
    /// file system does not distinguish the two, and an entry that was confirmed would be lost.
    pub(crate) fn check_replaced(&self, path: &Name, entry: impl FnOnce() -> Result<Stat, Errno>) -> io::Result<()> {
        let Some((mut placed, entry, path)) = self.placed(path, entry) else { return Ok(()) };
        if placed.get(&entry).is_some_and(|placed| *placed != path) {
            return Err(io::Error::other(SAME));
        }
        // The inode becomes free for another entry.
        placed.remove(&entry);
        Ok(())
    }

    /// Records that `entry` was placed at `path`.
    pub(crate) fn record(&self, path: &Name, entry: impl FnOnce() -> Result<Stat, Errno>) {
        if let Some((mut placed, entry, path)) = self.placed(path, entry).filter(|(all, ..)| all.len() < MAX_PLACED) {
            placed.insert(entry, path);
        }
    }

    /// Returns what the connection has placed, unless it never replaces anything, with the hashes of `entry` and of `path`.
    fn placed(
        &self,
        path: &Name,
        entry: impl FnOnce() -> Result<Stat, Errno>,
    ) -> Option<(MutexGuard<'_, Placed>, u64, u64)> {
        let placed = self.budget.placed.as_ref()?;
        let Stat { st_dev, st_ino, .. } = entry().ok()?;
        let placed = lock(placed);
        let (entry, path) = (placed.hasher().hash_one((st_dev, st_ino)), placed.hasher().hash_one(path));
        Some((placed, entry, path))
    }

    /// Checks that `bytes` more bytes are within the common limit, and within that of the peer.
    fn check(&self, ledger: &Ledger, bytes: u64) -> [Result<(), Exceeded>; 2] {
        let within = |option, limit: Option<u64>, taken: u64| match limit {
            Some(limit) if taken.saturating_add(bytes) > limit => Err(Exceeded { option, bytes: limit }),
            _ => Ok(()),
        };
        let own = self.peer.and_then(|peer| ledger.peers.get(&peer)).copied().unwrap_or(0);
        let per_peer = self.budget.per_peer.filter(|_| self.peer.is_some());
        [within("--max-bytes", self.budget.limit, ledger.all), within("--max-bytes-per-peer", per_peer, own)]
    }

    /// Changes the numbers of bytes that are counted.
    fn count(&self, ledger: &mut Ledger, change: impl Fn(u64) -> u64) {
        ledger.all = change(ledger.all);
        if let (Some(_), Some(peer)) = (self.budget.per_peer, self.peer) {
            let own = ledger.peers.entry(peer).or_default();
            *own = change(*own);
        }
    }

    fn give_back(&self, bytes: u64) {
        self.count(&mut lock(&self.budget.ledger), |taken| taken.saturating_sub(bytes));
    }
}

/// Share of the budget used by one file. It is returned when dropped, except by [`keep`](Self::keep) and
/// [`leave`](Self::leave).
#[derive(Debug)]
pub(super) struct Share {
    owner: Owner,
    taken: u64,
    /// Bytes of the file still covered by [`LEAST`], which was taken at its beginning.
    covered: u64,
    /// Bytes that are counted for the file's part, but not in use.
    spare: u64,
    part: Option<(Fingerprint, Name)>,
}

impl Budget {
    /// Creates a budget of at most `limit` bytes; `None` is unlimited.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Limits the files of each peer, by its key, to `limit` bytes.
    pub(crate) fn per_peer(self, limit: Option<u64>) -> Self {
        Self { per_peer: limit, ..self }
    }

    /// Returns this budget for one connection, which remembers what it has placed if it `overwrites`.
    pub(super) fn connection(&self, overwrites: bool) -> Self {
        Self { placed: overwrites.then(Arc::default), ..self.clone() }
    }

    /// Counts a part of `bytes` bytes that an earlier process left, regardless of the limits.
    pub(crate) fn add_part(&self, peer: Fingerprint, name: &Name, bytes: u64) {
        let mut ledger = lock(&self.ledger);
        self.owner(Some(peer)).count(&mut ledger, |taken| taken.saturating_add(bytes));
        let held = ledger.parts.entry((peer, name.clone())).or_default();
        *held = held.saturating_add(bytes);
    }

    /// Starts a file of announced size `size`. Only received bytes are taken from the budget, so that a peer that
    /// announces large files and sends little leaves room for others.
    pub(super) fn begin(&self, peer: Option<Fingerprint>, name: &Name, size: u64) -> Result<Share, Exceeded> {
        let owner = self.owner(peer);
        let part = peer.map(|peer| (peer, name.clone()));
        let ledger = lock(&self.ledger);
        // A part of this file left by the peer is already counted.
        let held = part.as_ref().and_then(|part| ledger.parts.get(part)).copied().unwrap_or(0);
        let covered = if held == 0 { LEAST } else { 0 };
        let [all, own] = owner.check(&ledger, size.saturating_sub(held).max(covered));
        drop(ledger);
        // Reports the peer's own limit first, because the peer can act on it.
        own.and(all)?;
        let mut share = Share { owner, taken: 0, covered, spare: 0, part };
        share.take(covered)?;
        Ok(share)
    }

    pub(crate) fn owner(&self, peer: Option<Fingerprint>) -> Owner {
        Owner { budget: self.clone(), peer }
    }
}

impl Share {
    pub(super) fn add(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let spare = self.spare.min(bytes);
        self.spare -= spare;
        let covered = self.covered.min(bytes - spare);
        self.covered -= covered;
        self.take(bytes - spare - covered)
    }

    fn give_back_spare(&mut self) {
        let spare = std::mem::take(&mut self.spare);
        self.owner.give_back(spare);
        self.taken -= spare;
    }

    fn take(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let mut ledger = lock(&self.owner.budget.ledger);
        let [all, own] = self.owner.check(&ledger, bytes);
        all.and(own)?;
        self.owner.count(&mut ledger, |taken| taken.saturating_add(bytes));
        self.taken += bytes;
        Ok(())
    }

    /// Takes over the counted bytes of the file's part. The first `resumed` bytes are in use; the others are removed.
    pub(super) fn resume(&mut self, resumed: u64) {
        let mut ledger = lock(&self.owner.budget.ledger);
        let held = self.part.as_ref().and_then(|part| ledger.parts.remove(part)).unwrap_or(0);
        self.taken += held;
        self.spare += held.saturating_sub(resumed);
    }

    /// Keeps the file's bytes counted as those of a part, until a later connection continues it.
    pub(super) fn leave(mut self) {
        self.give_back_spare();
        if let Some(part) = self.part.take() {
            *lock(&self.owner.budget.ledger).parts.entry(part).or_default() += self.taken;
        }
        self.taken = 0;
    }

    /// Keeps the file's bytes counted, because they remain on the disk.
    pub(super) fn keep(mut self) {
        self.give_back_spare();
        self.taken = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.owner.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_created_counts_and_failures_do_not() {
        let budget = Budget::new(Some(10_000));
        let owner = budget.owner(None);
        assert!(owner.pay(|| Err::<(), _>(io::ErrorKind::AlreadyExists.into())).is_err());
        owner.pay(|| Ok(())).unwrap();
        owner.pay(|| Ok(())).unwrap();
        assert_eq!(owner.pay(|| Ok(())).unwrap_err().to_string(), EXCEEDED);
        assert!(budget.begin(None, &"file".into(), 0).is_err());
    }

    #[test]
    fn complete_files_count_and_abandoned_ones_do_not() {
        let budget = Budget::new(Some(100_000));
        let begin = |size| budget.begin(None, &"file".into(), size);
        assert_eq!(begin(100_001).unwrap_err().bytes, 100_000);
        let mut failed = begin(90_000).unwrap();
        failed.add(50_000).unwrap();
        let mut liar = begin(50_000).unwrap();
        liar.add(50_000).unwrap();
        assert_eq!(liar.add(1).unwrap_err().to_string(), "--max-bytes (100000 bytes)");
        drop(failed);
        liar.add(50_000).unwrap();
        drop(liar);
        let mut whole = begin(90_000).unwrap();
        whole.add(90_000).unwrap();
        whole.keep();
        // An empty file takes 4096 bytes.
        begin(0).unwrap().keep();
        begin(0).unwrap().keep();
        assert_eq!(begin(0).unwrap_err().bytes, 100_000);
        assert!(Budget::new(None).begin(None, &"file".into(), u64::MAX).is_ok());
    }

    #[test]
    fn each_peer_has_its_own_limit_within_that_of_all() {
        let [one, other] = [(); 2].map(|()| longhaul_tls::Identity::generate().unwrap().fingerprint());
        let budget = Budget::new(Some(100_000)).per_peer(Some(60_000));
        let mut first = budget.begin(Some(one), &"file".into(), 50_000).unwrap();
        first.add(50_000).unwrap();
        first.keep();
        let exceeded = budget.begin(Some(one), &"file".into(), 20_000).unwrap_err();
        assert_eq!(exceeded.to_string(), "--max-bytes-per-peer (60000 bytes)");
        // Bytes that a peer failed to deliver count for nobody.
        assert_eq!(
            budget.begin(Some(other), &"file".into(), 60_000).unwrap_err().to_string(),
            "--max-bytes (100000 bytes)"
        );
        let mut second = budget.begin(Some(other), &"file".into(), 40_000).unwrap();
        second.add(40_000).unwrap();
        assert_eq!(second.add(15_000).unwrap_err().option, "--max-bytes");
        drop(second);
        assert!(budget.begin(Some(other), &"file".into(), 50_000).is_ok());
        assert!(budget.begin(None, &"file".into(), 50_000).is_ok());
    }

    #[test]
    fn a_part_counts_once_whoever_left_it() {
        let [one, other] = [(); 2].map(|()| longhaul_tls::Identity::generate().unwrap().fingerprint());
        let budget = Budget::new(Some(100_000)).per_peer(Some(90_000));
        budget.add_part(one, &"file".into(), 60_000);
        assert_eq!(budget.begin(Some(other), &"file".into(), 50_000).unwrap_err().option, "--max-bytes");
        assert_eq!(budget.begin(Some(one), &"other".into(), 40_000).unwrap_err().option, "--max-bytes-per-peer");
        // Continued after 50,000 bytes: the other 10,000 are replaced.
        let mut rest = budget.begin(Some(one), &"file".into(), 85_000).unwrap();
        rest.resume(50_000);
        rest.add(30_000).unwrap();
        assert_eq!(budget.begin(Some(other), &"x".into(), 20_001).unwrap_err().option, "--max-bytes");
        rest.leave();
        assert!(budget.begin(Some(other), &"x".into(), 20_000).is_ok());
        // The file is received again from its beginning, and completely.
        let mut anew = budget.begin(Some(one), &"file".into(), 70_000).unwrap();
        anew.resume(0);
        anew.add(70_000).unwrap();
        anew.keep();
        assert!(budget.begin(Some(other), &"x".into(), 30_001).is_err());
        assert!(
            budget.begin(Some(other), &"x".into(), 30_000).is_ok(),
            "what the part had more is not counted any more"
        );
        // The part of 60,000 bytes is removed: the new connection ends without leaving one.
        let budget = Budget::new(Some(100_000));
        budget.add_part(one, &"file".into(), 60_000);
        let mut gone = budget.begin(Some(one), &"file".into(), 60_000).unwrap();
        gone.resume(0);
        drop(gone);
        assert!(budget.begin(Some(other), &"x".into(), 100_000).is_ok());
    }
}

//! Limits on the bytes that a receiver accepts, in total and per peer.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_tls::Fingerprint;

/// Minimum number of bytes that a file counts as: an empty file takes room too.
const LEAST: u64 = 4096;

/// Maximum number of bytes of all files together, and of those of each peer. Clones share the same budget.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    all: Account,
    per_peer: Option<u64>,
    /// One account per key that may send.
    peers: Arc<Mutex<HashMap<Fingerprint, Account>>>,
}

/// A limit that a file would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The option that sets the limit.
    pub option: &'static str,
    /// The limit in bytes.
    pub bytes: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.option, self.bytes)
    }
}

/// Bytes counted towards one limit.
#[derive(Clone, Debug, Default)]
struct Account {
    limit: Option<Exceeded>,
    taken: Arc<AtomicU64>,
}

impl Account {
    fn new(option: &'static str, limit: Option<u64>) -> Self {
        Self { limit: limit.map(|bytes| Exceeded { option, bytes }), taken: Arc::default() }
    }

    /// Returns whether `bytes` more bytes are within the limit at present.
    fn has_room(&self, bytes: u64) -> Result<(), Exceeded> {
        let taken = self.taken.load(Ordering::Relaxed);
        match self.limit {
            Some(limit) if taken.saturating_add(bytes) > limit.bytes => Err(limit),
            _ => Ok(()),
        }
    }

    fn take(&self, bytes: u64) -> Result<(), Exceeded> {
        let limit = self.limit.map_or(u64::MAX, |limit| limit.bytes);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= limit)
        });
        match (taken, self.limit) {
            (Err(_), Some(limit)) => Err(limit),
            _ => Ok(()),
        }
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The part of the budget that one file takes. It is returned when dropped before [`keep`](Self::keep).
#[derive(Debug, Default)]
pub(super) struct Share {
    accounts: Vec<Account>,
    taken: u64,
    /// Bytes of the file still covered by [`LEAST`], which was taken at its beginning.
    covered: u64,
}

impl Budget {
    /// Creates a budget of at most `limit` bytes; `None` is unlimited.
    #[must_use]
    pub fn new(limit: Option<u64>) -> Self {
        Self { all: Account::new("--max-bytes", limit), ..Self::default() }
    }

    /// Limits the files of each peer, by its key, to `limit` bytes.
    #[must_use]
    pub fn per_peer(self, limit: Option<u64>) -> Self {
        Self { per_peer: limit, ..self }
    }

    /// Starts a file of announced size `size`. Only received bytes are taken from the budget, so a peer that
    /// announces much and sends little leaves room for others.
    pub(super) fn begin(&self, peer: Option<Fingerprint>, size: u64) -> Result<Share, Exceeded> {
        let mut accounts = vec![self.all.clone()];
        if let (Some(_), Some(peer)) = (self.per_peer, peer) {
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            let account = peers.entry(peer).or_insert_with(|| Account::new("--max-bytes-per-peer", self.per_peer));
            accounts.push(account.clone());
        }
        // The limit of the peer is the one that it can do something about.
        accounts.iter().rev().try_for_each(|account| account.has_room(size.max(LEAST)))?;
        let mut share = Share { accounts, taken: 0, covered: 0 };
        share.take(LEAST)?;
        share.covered = LEAST;
        Ok(share)
    }
}

impl Share {
    /// Counts received bytes.
    pub(super) fn add(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let covered = self.covered.min(bytes);
        self.covered -= covered;
        self.take(bytes - covered)
    }

    fn take(&mut self, bytes: u64) -> Result<(), Exceeded> {
        for (index, account) in self.accounts.iter().enumerate() {
            if let Err(exceeded) = account.take(bytes) {
                self.accounts.iter().take(index).for_each(|account| account.give_back(bytes));
                return Err(exceeded);
            }
        }
        self.taken += bytes;
        Ok(())
    }

    /// Keeps the file's bytes counted: they stay on the disk.
    pub(super) fn keep(mut self) {
        self.taken = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.accounts.iter().for_each(|account| account.give_back(self.taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_files_count_and_abandoned_ones_do_not() {
        let budget = Budget::new(Some(100_000));
        let begin = |size| budget.begin(None, size);
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
        assert!(Budget::new(None).begin(None, u64::MAX).is_ok());
    }

    #[test]
    fn each_peer_has_its_own_limit_within_that_of_all() {
        let [one, other] = [(); 2].map(|()| longhaul_tls::Identity::generate().unwrap().fingerprint());
        let budget = Budget::new(Some(100_000)).per_peer(Some(60_000));
        let mut first = budget.begin(Some(one), 50_000).unwrap();
        first.add(50_000).unwrap();
        first.keep();
        let exceeded = budget.begin(Some(one), 20_000).unwrap_err();
        assert_eq!(exceeded.to_string(), "--max-bytes-per-peer (60000 bytes)");
        // What one peer failed to send counts for nobody.
        assert_eq!(budget.begin(Some(other), 60_000).unwrap_err().to_string(), "--max-bytes (100000 bytes)");
        let mut second = budget.begin(Some(other), 40_000).unwrap();
        second.add(40_000).unwrap();
        assert_eq!(second.add(15_000).unwrap_err().option, "--max-bytes");
        drop(second);
        assert!(budget.begin(Some(other), 50_000).is_ok());
        assert!(budget.begin(None, 50_000).is_ok());
    }
}

//! Limit on the bytes that a receiver accepts in total.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum number of bytes that a file counts as: an empty file takes room too.
const LEAST: u64 = 4096;

/// Maximum number of bytes of all files together. Clones share the same budget.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    limit: Option<u64>,
    taken: Arc<AtomicU64>,
}

/// The part of the budget that one file takes. It is returned when dropped before [`keep`](Self::keep).
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    taken: u64,
    /// Bytes of the file still covered by [`LEAST`], which was taken at its beginning.
    covered: u64,
}

impl Budget {
    /// Creates a budget of at most `limit` bytes; `None` is unlimited.
    #[must_use]
    pub fn new(limit: Option<u64>) -> Self {
        Self { limit, taken: Arc::default() }
    }

    /// Starts a file of announced size `size`. Only received bytes are taken from the budget, so a peer that
    /// announces much and sends little leaves room for others.
    pub(super) fn begin(&self, size: u64) -> Result<Share, u64> {
        let taken = self.taken.load(Ordering::Relaxed);
        if let Some(limit) = self.limit.filter(|limit| taken.saturating_add(size.max(LEAST)) > *limit) {
            return Err(limit);
        }
        let mut share = Share { budget: self.clone(), taken: 0, covered: 0 };
        share.take(LEAST)?;
        share.covered = LEAST;
        Ok(share)
    }
}

impl Share {
    /// Counts received bytes.
    pub(super) fn add(&mut self, bytes: u64) -> Result<(), u64> {
        let covered = self.covered.min(bytes);
        self.covered -= covered;
        self.take(bytes - covered)
    }

    fn take(&mut self, bytes: u64) -> Result<(), u64> {
        let Some(limit) = self.budget.limit else { return Ok(()) };
        let taken = self.budget.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= limit)
        });
        taken.map_err(|_| limit)?;
        self.taken += bytes;
        Ok(())
    }

    /// Keeps the file's bytes counted: the file is complete.
    pub(super) fn keep(mut self) {
        self.taken = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_files_count_and_abandoned_ones_do_not() {
        let budget = Budget::new(Some(100_000));
        assert_eq!(budget.begin(100_001).unwrap_err(), 100_000);
        let mut failed = budget.begin(90_000).unwrap();
        failed.add(50_000).unwrap();
        let mut liar = budget.begin(50_000).unwrap();
        liar.add(50_000).unwrap();
        assert_eq!(liar.add(1), Err(100_000));
        drop(failed);
        liar.add(50_000).unwrap();
        drop(liar);
        let mut whole = budget.begin(90_000).unwrap();
        whole.add(90_000).unwrap();
        whole.keep();
        // An empty file takes 4096 bytes.
        budget.begin(0).unwrap().keep();
        budget.begin(0).unwrap().keep();
        assert_eq!(budget.begin(0).unwrap_err(), 100_000);
        assert!(Budget::new(None).begin(u64::MAX).is_ok());
    }
}

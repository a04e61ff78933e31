//! Per-destination metrics cache: connections store path metrics for later connections to the same host (temporal
//! sharing; RFC 9040, section 6).

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_cc::SavedPath;
use longhaul_units::{Bytes, Span, Time};

#[cfg(test)]
mod tests;
mod text;

pub use text::{LoadError, LoadReason};

/// Settings of a [`PathCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathCacheConfig {
    /// Maximum number of entries; zero is treated as 1. The least recently updated entry is evicted.
    pub capacity: usize,
    /// Maximum age of a value. Older values are ignored, because the path may have changed (RFC 9040, section 8.1).
    pub max_age: Span,
}

impl Default for PathCacheConfig {
    /// Returns a capacity of 4,096 entries, which take about 1 MB, and an age of 1 hour, as in Linux
    /// (`TCP_METRICS_TIMEOUT`) and FreeBSD (`net.inet.tcp.hostcache.expire`).
    fn default() -> Self {
        Self { capacity: 4096, max_age: Span::from_secs(3600) }
    }
}

/// Metrics of the path to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathMetrics {
    /// Slow-start threshold at the end of earlier connections.
    pub ssthresh: Option<Bytes>,
    /// Smoothed round-trip time.
    pub srtt: Option<Span>,
    /// Round-trip time variation; meaningless without `srtt`.
    pub rttvar: Span,
    /// Window and rate that the path delivered: the starting point of Careful Resume (RFC 9959) and Fast Start.
    pub saved: Option<SavedPath>,
    /// Whether the path drops packets that are marked as ECN-capable (ECT) and forwards others.
    pub drops_ect: bool,
}

/// Per-destination metrics cache for [`Config::path_cache`](crate::Config::path_cache) (RFC 9040). Clones share one
/// cache, so that all sockets and listeners that use it learn from each other.
///
/// There is one entry for each pair of remote IP address (without port) and congestion controller. A connection updates
/// its entry when all data that it sent is acknowledged, or when it fails; `docs/decisions/0012-path-cache.md` says by
/// what. A saved path is checked out by the connection that starts from it, so that no two connections jump at once
/// (RFC 9959, section 3.1). The stored slow-start threshold ends a new connection's first slow start; its initial window
/// is not enlarged. Until it has its own round-trip time sample, its retransmission timeout covers the stored SRTT and
/// RTTVAR, within 1 s to 3 s.
///
/// A SYN neither updates an entry nor protects it from eviction, because anyone can forge it. All users of a cache
/// must measure time from the same origin, as the sockets of one process do.
#[derive(Clone)]
pub struct PathCache(Arc<Shared>);

struct Shared {
    config: PathCacheConfig,
    entries: Mutex<Entries>,
}

/// Remote address and name of the congestion controller.
type Key = (IpAddr, String);

#[derive(Clone, Default)]
struct Entries {
    by_key: BTreeMap<Arc<Key>, Entry>,
    /// Keys in the order of their last update.
    by_turn: BTreeMap<u64, Arc<Key>>,
    turns: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    ssthresh: Option<Learnt<Bytes>>,
    rtt: Option<Learnt<Rtt>>,
    saved: Option<Learnt<SavedPath>>,
    drops_ect: Option<Learnt<()>>,
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Learnt<T> {
    pub(crate) value: T,
    at: Time,
    /// Age of the value at `at`: a value from another process may be older than the clock of this one.
    age: Span,
}

/// Result of checking out a saved path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Taken {
    Nothing,
    /// The saved path was implausible and has been removed.
    Damaged,
    /// The saved path was too old and has been removed.
    TooOld,
    /// The saved path. It is not available to other connections until it is [returned](PathCache::give_back).
    CheckedOut(Learnt<SavedPath>),
}

#[derive(Clone, Copy)]
struct Rtt {
    srtt: Span,
    rttvar: Span,
}

#[expect(clippy::multiple_inherent_impl, reason = "its text form")]
impl PathCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(config: PathCacheConfig) -> Self {
        Self(Arc::new(Shared { config, entries: Mutex::default() }))
    }

    /// Returns the metrics of the path to `remote` that are valid at `now`, for the congestion controller of this
    /// [name](longhaul_cc::Congestion::name).
    #[must_use]
    pub fn find(&self, now: Time, remote: IpAddr, congestion: &str) -> Option<PathMetrics> {
        let entry = *self.lock().by_key.get(&key(remote, congestion))?;
        let rtt = self.fresh(now, entry.rtt);
        let ssthresh = self.fresh(now, entry.ssthresh);
        let saved = self.fresh(now, entry.saved);
        let drops_ect = self.fresh(now, entry.drops_ect).is_some();
        let rttvar = rtt.map_or(Span::ZERO, |r| r.rttvar);
        let known = PathMetrics { ssthresh, srtt: rtt.map(|r| r.srtt), rttvar, saved, drops_ect };
        (known != PathMetrics::default()).then_some(known)
    }

    /// Checks out the saved path: it is not available to other connections until the caller stores one again. An
    /// impossible or expired saved path is removed.
    pub(crate) fn take_saved(&self, now: Time, remote: IpAddr, congestion: &str) -> Taken {
        let key = key(remote, congestion);
        let Some(saved) = self.lock().by_key.get_mut(&key).and_then(|entry| entry.saved.take()) else {
            return Taken::Nothing;
        };
        if !saved.value.is_possible() {
            return Taken::Damaged;
        }
        if self.is_fresh(now, &saved) { Taken::CheckedOut(saved) } else { Taken::TooOld }
    }

    /// Returns whether a value is still valid.
    pub(crate) fn is_fresh<T>(&self, now: Time, learnt: &Learnt<T>) -> bool {
        now - learnt.at + learnt.age <= self.0.config.max_age
    }

    /// Returns a checked-out saved path with its old age, unless another connection has stored one in the meantime.
    pub(crate) fn give_back(&self, remote: IpAddr, congestion: &str, checked_out: Learnt<SavedPath>) {
        self.update(remote, congestion, |old| Entry { saved: old.saved.or(Some(checked_out)), ..old });
    }

    /// Stores metrics of the path to `remote` at `now` for the congestion controller of this name, as a connection does
    /// at its end, by merging them into the entry. Intended for applications that know the path from other sources.
    pub fn seed(&self, now: Time, remote: IpAddr, congestion: &str, metrics: &PathMetrics) {
        if *metrics == PathMetrics::default() {
            return;
        }
        let rtt = metrics.srtt.map(|srtt| Rtt { srtt, rttvar: metrics.rttvar });
        self.update(remote, congestion, |old| Entry {
            ssthresh: self.merge(now, old.ssthresh, metrics.ssthresh, mean),
            rtt: self.merge(now, old.rtt, rtt, Rtt::after),
            saved: self.merge(now, old.saved, metrics.saved, |_, new| new),
            drops_ect: self.merge(now, old.drops_ect, metrics.drops_ect.then_some(()), |(), ()| ()),
            turn: 0,
        });
    }

    /// Replaces the entry of a path, which is then the most recently updated one.
    fn update(&self, remote: IpAddr, congestion: &str, change: impl FnOnce(Entry) -> Entry) {
        let key = key(remote, congestion);
        let entries = &mut *self.lock();
        let old = entries.remove(&key).unwrap_or_default();
        entries.insert(key, change(old), self.0.config.capacity);
    }

    /// Returns the number of entries, including those that are too old.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Returns whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries. Intended for applications that know that the network has changed.
    pub fn clear(&self) {
        *self.lock() = Entries::default();
    }

    /// Returns an independent copy.
    #[must_use]
    pub fn copied(&self) -> Self {
        let entries = Mutex::new(self.lock().clone());
        Self(Arc::new(Shared { config: self.0.config, entries }))
    }

    fn merge<T: Copy>(
        &self,
        now: Time,
        old: Option<Learnt<T>>,
        new: Option<T>,
        merge: impl Fn(T, T) -> T,
    ) -> Option<Learnt<T>> {
        let Some(new) = new else { return old };
        let value = self.fresh(now, old).map_or(new, |old| merge(old, new));
        Some(Learnt { value, at: now, age: Span::ZERO })
    }

    fn fresh<T: Copy>(&self, now: Time, learnt: Option<Learnt<T>>) -> Option<T> {
        learnt.filter(|learnt| self.is_fresh(now, learnt)).map(|learnt| learnt.value)
    }

    /// A poisoned lock is safe to use: a panic while it was held can have lost one entry at most.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for PathCache {
    fn default() -> Self {
        Self::new(PathCacheConfig::default())
    }
}

impl fmt::Debug for PathCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathCache").field("config", &self.0.config).field("len", &self.len()).finish()
    }
}

impl Entries {
    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.by_key.remove(key)?;
        self.by_turn.remove(&entry.turn);
        Some(entry)
    }

    /// Adds a new entry, and makes room for it by removing the least recently updated ones.
    fn insert(&mut self, key: Key, entry: Entry, capacity: usize) {
        while self.by_key.len() >= capacity.max(1)
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.by_key.remove(&oldest);
        }
        let (key, turn) = (Arc::new(key), self.turns);
        self.turns = turn.wrapping_add(1);
        self.by_turn.insert(turn, Arc::clone(&key));
        self.by_key.insert(key, Entry { turn, ..entry });
    }
}

impl Rtt {
    /// Merges the stored values with new ones. They determine the timeout before the first sample, which should rather
    /// be too long than too short. Therefore they increase at once and decrease with the gain of RFC 6298, 1/8.
    fn after(self, new: Self) -> Self {
        let towards = |old: Span, new: Span| if new >= old { new } else { old - (old - new) / 8 };
        Self { srtt: towards(self.srtt, new.srtt), rttvar: towards(self.rttvar, new.rttvar) }
    }
}

fn mean(old: Bytes, new: Bytes) -> Bytes {
    Bytes(old.0.midpoint(new.0))
}

/// IPv4-mapped IPv6 addresses count as IPv4 addresses.
fn key(remote: IpAddr, congestion: &str) -> Key {
    (remote.to_canonical(), congestion.to_owned())
}

//! What connections leave behind for later ones to the same host (RFC 9040, section 6: temporal sharing).

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
    /// Entries at most; zero is one. The one that was learnt longest ago makes room.
    pub capacity: usize,
    /// What was learnt longer ago than this counts for nothing: the path may be another by now (RFC 9040, section 8.1).
    pub max_age: Span,
}

impl Default for PathCacheConfig {
    /// 4,096 entries, about a megabyte; and an hour, after which Linux (`TCP_METRICS_TIMEOUT`) and FreeBSD
    /// (`net.inet.tcp.hostcache.expire`) forget as well.
    fn default() -> Self {
        Self { capacity: 4096, max_age: Span::from_secs(3600) }
    }
}

/// What is known of the path to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathMetrics {
    /// The slow-start threshold that connections came to, bytes.
    pub ssthresh: Option<Bytes>,
    /// Smoothed round-trip time.
    pub srtt: Option<Span>,
    /// Its variation; means nothing without `srtt`.
    pub rttvar: Span,
    /// What the path delivered in a round trip: Careful Resume and Fast Start begin there (RFC 9959).
    pub saved: Option<SavedPath>,
}

/// A memory of paths, for [`Config::path_cache`](crate::Config::path_cache). Clones are the same memory: whoever is given
/// one, sockets and listeners alike, learns from all the others.
///
/// There is an entry for each remote IP address, whatever the port, and congestion control: thresholds of one law say
/// little to another, since a loss by chance leaves NewReno a small one and Westwood a large one. It is written when all
/// that a connection sent has been acknowledged, or the connection has failed:
///
/// * the threshold that was in force when the window was last the limit, if the connection was in congestion avoidance
///   then, and the window or its pace had been the limit for 16 round trips and three quarters of its time. Short
///   connections, and long ones that send by fits and starts, leave none: what they lose says little of the path (RFC
///   9040, section 8). The mean of old and new is kept;
/// * the window that the path's greatest delivery rate fills in its least round trip, and that round trip, for launches that
///   begin there. A connection that begins there takes it away, so that no two jump at once (RFC 9959, section 3.1), and leaves
///   what it found itself, or the same again, as old as it was, if nothing of its own was lost. What was too old, or of another
///   path by its round trip, or is no path's at all, is gone with that: [`SavedPathInfo`](crate::SavedPathInfo) counts it;
/// * SRTT and RTTVAR, if there were 8 samples. A longer one replaces the old at once, a shorter one counts an eighth.
///
/// A new connection begins with the threshold, so that its first slow start ends there; its initial window is no
/// larger than any other's. Until it has a sample of its own its retransmission timeout covers SRTT and RTTVAR, from
/// 1 s to 3 s.
///
/// A SYN, which anybody can forge, writes nothing and keeps nothing from being forgotten. All who share a memory must
/// count time from the same moment, as the sockets of a process do.
#[derive(Clone)]
pub struct PathCache(Arc<Shared>);

struct Shared {
    config: PathCacheConfig,
    entries: Mutex<Entries>,
}

/// The remote address and the name of the congestion control.
type Key = (IpAddr, String);

#[derive(Clone, Default)]
struct Entries {
    by_key: BTreeMap<Arc<Key>, Entry>,
    /// The same by when they were learnt last.
    by_turn: BTreeMap<u64, Arc<Key>>,
    turns: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    ssthresh: Option<Learnt<Bytes>>,
    rtt: Option<Learnt<Rtt>>,
    saved: Option<Learnt<SavedPath>>,
    turn: u64,
}

/// Something that was learnt, as old as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Learnt<T> {
    value: T,
    at: Time,
    /// How old it was then: what another process learnt may be older than this one's clock.
    age: Span,
}

impl<T: Copy> Learnt<T> {
    /// What it was.
    pub(crate) fn value(&self) -> T {
        self.value
    }
}

/// What there was for a connection to begin with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Taken {
    /// Nothing.
    #[default]
    Nothing,
    /// What no connection can have come to.
    Damaged,
    /// What was learnt too long ago.
    TooOld,
    /// A path, which nobody else has until it is [given back](PathCache::give_back).
    Loan(Learnt<SavedPath>),
}

/// SRTT and RTTVAR.
#[derive(Clone, Copy)]
struct Rtt {
    srtt: Span,
    rttvar: Span,
}

impl PathCache {
    /// An empty one.
    #[must_use]
    pub fn new(config: PathCacheConfig) -> Self {
        Self(Arc::new(Shared { config, entries: Mutex::default() }))
    }

    /// What is known at `now` of the path to `remote` under the congestion control of this
    /// [name](longhaul_cc::Congestion::name).
    #[must_use]
    pub fn find(&self, now: Time, remote: IpAddr, congestion: &str) -> Option<PathMetrics> {
        let entry = *self.lock().by_key.get(&key(remote, congestion))?;
        let rtt = self.fresh(now, entry.rtt);
        let ssthresh = self.fresh(now, entry.ssthresh);
        let saved = self.fresh(now, entry.saved);
        let known = ssthresh.is_some() || rtt.is_some() || saved.is_some();
        let rttvar = rtt.map_or(Span::ZERO, |r| r.rttvar);
        known.then(|| PathMetrics { ssthresh, srtt: rtt.map(|r| r.srtt), rttvar, saved })
    }

    /// Takes away what a connection may begin with: nobody else has it until that connection leaves word again. What it may not
    /// begin with is gone.
    pub(crate) fn take_saved(&self, now: Time, remote: IpAddr, congestion: &str) -> Taken {
        let key = key(remote, congestion);
        let Some(saved) = self.lock().by_key.get_mut(&key).and_then(|entry| entry.saved.take()) else {
            return Taken::Nothing;
        };
        if !saved.value.is_possible() {
            return Taken::Damaged;
        }
        if self.is_fresh(now, &saved) { Taken::Loan(saved) } else { Taken::TooOld }
    }

    /// Whether something counts still.
    pub(crate) fn is_fresh<T>(&self, now: Time, learnt: &Learnt<T>) -> bool {
        now - learnt.at + learnt.age <= self.0.config.max_age
    }

    /// Puts back what a connection took away and found nothing better than: no younger than it was, and only where nobody has left
    /// another since.
    pub(crate) fn give_back(&self, remote: IpAddr, congestion: &str, loan: Learnt<SavedPath>) {
        let key = key(remote, congestion);
        let entries = &mut *self.lock();
        let old = entries.remove(&key).unwrap_or_default();
        entries.make_room(self.0.config.capacity);
        entries.insert(key, Entry { saved: old.saved.or(Some(loan)), ..old });
    }

    /// Notes at `now` what is known of the path to `remote` under the congestion control of this name, as a connection does at its
    /// end: for who knows the path already.
    pub fn seed(&self, now: Time, remote: IpAddr, congestion: &str, metrics: &PathMetrics) {
        self.learn(now, remote, congestion, metrics);
    }

    /// Entries, those that are too old included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all: for who knows that the network has become another.
    pub fn clear(&self) {
        *self.lock() = Entries::default();
    }

    /// A memory of its own that knows what this one knows now.
    #[must_use]
    pub fn copied(&self) -> Self {
        let entries = Mutex::new(self.lock().clone());
        Self(Arc::new(Shared { config: self.0.config, entries }))
    }

    /// A connection to `remote` has come to `new`.
    pub(crate) fn learn(&self, now: Time, remote: IpAddr, congestion: &str, new: &PathMetrics) {
        if *new == PathMetrics::default() {
            return;
        }
        let key = key(remote, congestion);
        let entries = &mut *self.lock();
        let old = entries.remove(&key).unwrap_or_default();
        let rtt = new.srtt.map(|srtt| Rtt { srtt, rttvar: new.rttvar });
        entries.make_room(self.0.config.capacity);
        entries.insert(
            key,
            Entry {
                ssthresh: self.merge(now, old.ssthresh, new.ssthresh, mean),
                rtt: self.merge(now, old.rtt, rtt, Rtt::after),
                saved: self.merge(now, old.saved, new.saved, |_, new| new),
                turn: 0,
            },
        );
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

    /// A panic elsewhere while the lock was held can have cost an entry and nothing more.
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

    fn make_room(&mut self, capacity: usize) {
        while self.by_key.len() >= capacity.max(1) {
            let Some((_, oldest)) = self.by_turn.pop_first() else { return };
            self.by_key.remove(&oldest);
        }
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        let (key, turn) = (Arc::new(key), self.turns);
        self.turns = turn.wrapping_add(1);
        self.by_turn.insert(turn, Arc::clone(&key));
        self.by_key.insert(key, Entry { turn, ..entry });
    }
}

impl Rtt {
    /// What is kept of both. It is for a timeout that no sample of its own supports yet, where too short is worse than
    /// too long; an eighth is the gain of RFC 6298.
    fn after(self, new: Self) -> Self {
        let towards = |old: Span, new: Span| if new >= old { new } else { old - (old - new) / 8 };
        Self { srtt: towards(self.srtt, new.srtt), rttvar: towards(self.rttvar, new.rttvar) }
    }
}

fn mean(old: Bytes, new: Bytes) -> Bytes {
    Bytes(old.0.midpoint(new.0))
}

/// An IPv4 address may be written in two ways.
fn key(remote: IpAddr, congestion: &str) -> Key {
    (remote.to_canonical(), congestion.to_owned())
}

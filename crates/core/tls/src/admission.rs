//! Limits on the number of concurrent connections of a server, in total and per address.
//!
//! A new connection counts as a *stranger* until the peer has sent its first message, because the server does not know
//! its purpose before. If the limit is reached, a stranger is evicted in favour of a new connection, so that peers who
//! open connections without using them cannot exclude others (`docs/decisions/0067-who-makes-room.md`). Strangers are
//! evicted in this order:
//!
//! 1. strangers from hosts that have not been authenticated before, then those from hosts that have;
//! 2. strangers whose first four round trips have passed, then the others;
//! 3. strangers who have not sent their first message in a tenth of a second, then the others.
//!
//! Among equals, the network with the most of them is selected, and one of the older half of its connections is evicted
//! at random. A network is an IPv4 prefix of 24 bits or an IPv6 prefix of 48 bits. A stranger of the last class is
//! evicted only in favour of a host that has been authenticated, or of a network with fewer such strangers.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

mod prefix;

pub use prefix::Prefix;

/// Number of round trips within which a stranger has to complete the exchange of first messages.
const GRACE: u32 = 4;
/// Time within which even a busy machine has read a first message that arrived together with the connection.
const FRESH: Duration = Duration::from_millis(100);
/// Round-trip time to assume for a connection whose round-trip time is unknown.
const UNKNOWN_RTT: Duration = Duration::from_millis(250);
const REMEMBERED: usize = 1024;

/// Maximum numbers of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a caller sets both limits")]
pub struct Limits {
    /// Number of connections in total.
    pub all: usize,
    /// Maximum number of connections per IPv4 address or IPv6 /64 prefix, the usual assignment to a host.
    pub per_address: usize,
}

/// Connection count of a server, shared by its clones.
#[derive(Clone)]
pub struct Admission {
    limits: Limits,
    entries: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    next: u64,
    /// Seed for random choices among equals, which peers must not be able to predict.
    seed: u64,
    /// Connections, oldest first.
    list: Vec<Entry>,
    /// Hosts that have been authenticated, each with the sequence number of the next connection at that time.
    remembered: HashMap<IpAddr, u64>,
}

struct Entry {
    number: u64,
    host: IpAddr,
    stage: Stage,
    returning: bool,
    /// Time until which a missing first message is not counted against the connection.
    fresh: Instant,
    /// Time at which the first [`GRACE`] round trips have passed.
    grace: Instant,
    evicted: Arc<Notify>,
}

/// Order of eviction, lowest first: whether the host is remembered, whether the first round trips have not passed, and
/// whether the first message has arrived or is not overdue.
type Rank = (bool, bool, bool);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Silent,
    Spoken,
    Known,
}

/// A connection's place within the limits. It is released when the ticket is dropped.
pub struct Ticket {
    number: u64,
    evicted: Arc<Notify>,
    entries: Arc<Mutex<Entries>>,
}

fn lock(entries: &Mutex<Entries>) -> MutexGuard<'_, Entries> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Admission {
    /// Creates an empty set of connections with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let seed = RandomState::new().hash_one(());
        Self { limits, entries: Arc::new(Mutex::new(Entries { seed, ..Entries::default() })) }
    }

    /// Returns a place for a connection from `peer`, whose round-trip time is `rtt` if known. If the limit is reached,
    /// a stranger is evicted and notified. Returns `None` if no stranger can be evicted.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the entries themselves get the time as an argument")]
    pub fn admit(&self, peer: IpAddr, rtt: Option<Duration>) -> Option<Ticket> {
        let (number, evicted) = lock(&self.entries).admit(self.limits, peer, rtt, Instant::now())?;
        Some(Ticket { number, evicted, entries: Arc::clone(&self.entries) })
    }

    /// Remembers that the host `peer` has been authenticated. Its later connections have precedence over others. At
    /// most 1,024 hosts are remembered; the host that was authenticated longest ago is forgotten first.
    pub fn remember(&self, peer: IpAddr) {
        lock(&self.entries).remember(host(peer));
    }
}

impl Entries {
    fn admit(
        &mut self,
        limits: Limits,
        peer: IpAddr,
        rtt: Option<Duration>,
        now: Instant,
    ) -> Option<(u64, Arc<Notify>)> {
        let host = host(peer);
        let returning = self.remembered.contains_key(&host);
        let of_address = self.list.iter().filter(|entry| entry.host == host).count();
        if of_address >= limits.per_address {
            let evicted = self.evict((host, returning), now, |entry| entry.host == host);
            evicted.or_else(|| self.evict_silent(host))?;
        }
        if self.list.len() >= limits.all {
            self.evict((host, returning), now, |_| true)?;
        }
        let number = self.next;
        self.next += 1;
        let evicted = Arc::new(Notify::new());
        let grace = rtt.unwrap_or(UNKNOWN_RTT).saturating_mul(GRACE).max(FRESH);
        let [fresh, grace] = [FRESH, grace].map(|time| now.checked_add(time).unwrap_or(now));
        let entry =
            Entry { number, host, stage: Stage::Silent, returning, fresh, grace, evicted: Arc::clone(&evicted) };
        self.list.push(entry);
        Some((number, evicted))
    }

    /// Evicts a stranger for which `fits` returns true in favour of a connection from `host`, which may be a
    /// `returning` one.
    fn evict(&mut self, (host, returning): (IpAddr, bool), now: Instant, fits: impl Fn(&Entry) -> bool) -> Option<()> {
        let strangers = self.list.iter().enumerate().filter(|(_, entry)| entry.stage != Stage::Known && fits(entry));
        let is_prompt = |entry: &Entry| entry.stage == Stage::Spoken || now < entry.fresh;
        let rank = |entry: &Entry| (entry.returning, now < entry.grace, is_prompt(entry));
        let mut strangers: Vec<_> = strangers.map(|(at, entry)| (rank(entry), network(entry.host), at)).collect();
        strangers.sort_unstable();
        let mut equals = strangers.chunk_by(|a, b| a.0 == b.0);
        let at = self.choose(equals.next()?, (network(host), returning))?;
        self.remove(at);
        Some(())
    }

    /// Evicts a stranger from `host` that has not sent its first message. In favour of another connection from the same
    /// host, such a stranger is evicted even before its message is overdue.
    fn evict_silent(&mut self, host: IpAddr) -> Option<()> {
        let silent =
            self.list.iter().enumerate().filter(|(_, entry)| entry.host == host && entry.stage == Stage::Silent);
        let silent: Vec<_> = silent.map(|(at, _)| at).collect();
        let at = *silent.get(self.random(0, silent.len().div_ceil(2)))?;
        self.remove(at);
        Some(())
    }

    fn remove(&mut self, at: usize) {
        // `Notify` stores the notification if no task waits for it yet.
        self.list.remove(at).evicted.notify_one();
    }

    /// Returns the position in the list of the connection to evict. It is one of `equals`, which are sorted by network
    /// and age.
    fn choose(&self, equals: &[(Rank, IpAddr, usize)], (network, returning): (IpAddr, bool)) -> Option<usize> {
        let ((theirs, in_grace, prompt), ..) = *equals.first()?;
        let networks = || equals.chunk_by(|a, b| a.1 == b.1);
        let most = networks().map(<[_]>::len).max()?;
        let own = networks().find(|group| group.first().is_some_and(|first| first.1 == network));
        let is_fair = (returning && !theirs) || most > own.map_or(0, <[_]>::len) + 1;
        if in_grace && prompt && !is_fair {
            return None;
        }
        let largest: Vec<_> = networks().filter(|group| group.len() == most).collect();
        let group = largest.get(self.random(0, largest.len()))?;
        group.get(self.random(1, most.div_ceil(2))).map(|(.., at)| *at)
    }

    /// Returns a pseudo-random number below `limit`. Each `index` and each new connection yield a different number.
    fn random(&self, index: u64, limit: usize) -> usize {
        let random = BuildHasherDefault::<DefaultHasher>::default().hash_one((self.seed, self.next, index));
        usize::try_from(random % limit.max(1) as u64).unwrap_or_default()
    }

    /// Advances a connection to `stage`, unless it has reached a later stage.
    fn advance(&mut self, number: u64, stage: Stage) {
        if let Some(entry) = self.list.iter_mut().find(|entry| entry.number == number) {
            entry.stage = entry.stage.max(stage);
        }
    }

    fn remember(&mut self, host: IpAddr) {
        self.remembered.insert(host, self.next);
        if self.remembered.len() > REMEMBERED {
            let oldest = self.remembered.iter().min_by_key(|(_, before)| **before).map(|(host, _)| *host);
            oldest.map(|host| self.remembered.remove(&host));
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Ticket {
    /// Records that the peer has sent its complete first message.
    pub fn has_spoken(&self) {
        lock(&self.entries).advance(self.number, Stage::Spoken);
    }

    /// Records that the purpose of the connection is known, which protects its place from eviction.
    pub fn is_known(&self) {
        lock(&self.entries).advance(self.number, Stage::Known);
    }

    /// Waits until the place has been given to another connection.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.entries).list.retain(|entry| entry.number != self.number);
    }
}

/// Returns the address or prefix under which a host is counted.
pub(crate) fn host(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// Returns the prefix that is usually assigned to one customer: of 48 bits with IPv6, and 24 bits with IPv4.
fn network(host: IpAddr) -> IpAddr {
    match host {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 80)).into(),
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << 8)).into(),
    }
}

#[cfg(test)]
mod tests;

//! Limits on the connections that a server has at a time, in total and from one address.
//!
//! A connection starts as a stranger: the server does not know its purpose until the peer has sent its first message.
//! When all places are taken, the oldest stranger is evicted for a new connection, so that silent peers keep nobody
//! out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum numbers of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a caller sets both limits")]
pub struct Limits {
    /// Connections in total.
    pub all: usize,
    /// Connections from one address; with IPv6, from one /64 prefix, which is what a host is usually assigned.
    pub per_address: usize,
}

/// The connections of a server. Clones share the same count.
#[derive(Clone)]
pub struct Admission {
    limits: Limits,
    entries: Arc<Mutex<Entries>>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    /// The connections, oldest first.
    list: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    address: IpAddr,
    stranger: bool,
    evicted: Arc<Notify>,
}

/// A connection's place, which is released when this is dropped.
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
        Self { limits, entries: Arc::default() }
    }

    /// Returns a place for a connection from `peer`. If all places are taken, the oldest stranger is evicted and
    /// notified. `None` if all places are taken by known connections.
    #[must_use]
    pub fn admit(&self, peer: IpAddr) -> Option<Ticket> {
        let address = host(peer);
        let mut entries = lock(&self.entries);
        let of_address = entries.list.iter().filter(|entry| entry.address == address).count();
        if of_address >= self.limits.per_address {
            entries.evict(|entry| entry.address == address)?;
        }
        if entries.list.len() >= self.limits.all {
            entries.evict(|_| true)?;
        }
        let number = entries.next;
        entries.next += 1;
        let evicted = Arc::new(Notify::new());
        entries.list.push(Entry { number, address, stranger: true, evicted: Arc::clone(&evicted) });
        Some(Ticket { number, evicted, entries: Arc::clone(&self.entries) })
    }
}

impl Entries {
    /// Evicts the oldest stranger for which `fits` returns true.
    fn evict(&mut self, fits: impl Fn(&Entry) -> bool) -> Option<()> {
        let at = self.list.iter().position(|entry| entry.stranger && fits(entry))?;
        // `Notify` stores a permit if nobody waits yet.
        self.list.remove(at).evicted.notify_one();
        Some(())
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Ticket {
    /// Marks the connection as known, which protects its place from eviction.
    pub fn is_known(&self) {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.list.iter_mut().find(|entry| entry.number == self.number) {
            entry.stranger = false;
        }
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

/// Returns the address or prefix that counts as one address.
pub(crate) fn host(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// An address prefix; a full-length prefix is a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Returns whether `peer` has this prefix.
    #[must_use]
    pub fn contains(&self, peer: IpAddr) -> bool {
        // A shift by the whole width (prefix length 0) yields `None`: all addresses match.
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differ = ours.to_bits() ^ theirs.to_bits();
                differ.checked_shr(32 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differ = ours.to_bits() ^ theirs.to_bits();
                differ.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl Prefix {
    /// Returns the length of the prefix in bits.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Returns the lowest address with this prefix.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        self.extend(false)
    }

    /// Returns the highest address with this prefix.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        self.extend(true)
    }

    /// Sets all bits after the prefix to `ones`.
    fn extend(&self, ones: bool) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shr(self.bits.into()).unwrap_or(0);
                let bits = address.to_bits();
                Ipv4Addr::from_bits(if ones { bits | mask } else { bits & !mask }).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shr(self.bits.into()).unwrap_or(0);
                let bits = address.to_bits();
                Ipv6Addr::from_bits(if ones { bits | mask } else { bits & !mask }).into()
            }
        }
    }
}

impl std::str::FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is not an address or a prefix such as 192.0.2.0/24");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| fault())?;
        if bits > most { Err(fault()) } else { Ok(Self { address, bits }) }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const LIMITS: Limits = Limits { all: 4, per_address: 2 };

    fn is_evicted(ticket: &Ticket) -> bool {
        pin!(ticket.evicted()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    fn host_number(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    #[test]
    fn only_the_oldest_stranger_is_evicted() {
        let admission = Admission::new(LIMITS);
        let mut places: Vec<_> = (1..=4).map(|number| admission.admit(host_number(number)).unwrap()).collect();
        places[0].is_known();
        places.push(admission.admit(host_number(5)).unwrap());
        let evicted: Vec<_> = places.iter().map(is_evicted).collect();
        assert_eq!(evicted, [false, true, false, false, false]);
        for place in &places {
            place.is_known();
        }
        assert!(admission.admit(host_number(6)).is_none());
        places.pop();
        assert!(admission.admit(host_number(6)).is_some());
    }

    #[test]
    fn an_address_cannot_take_all_places() {
        let admission = Admission::new(LIMITS);
        let greedy = host_number(1);
        let (first, second) = (admission.admit(greedy).unwrap(), admission.admit(greedy).unwrap());
        let third = admission.admit(greedy).unwrap();
        assert_eq!([&first, &second, &third].map(is_evicted), [true, false, false]);
        second.is_known();
        third.is_known();
        assert!(admission.admit(greedy).is_none());
        assert!(admission.admit(host_number(2)).is_some());
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        let [one, other, elsewhere] =
            ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"].map(|a| a.parse().unwrap());
        assert_eq!(host(one), host(other));
        assert_ne!(host(one), host(elsewhere));
        assert_eq!(host("::ffff:192.0.2.1".parse().unwrap()), host_number(1));
    }

    #[test]
    fn prefixes_contain_what_begins_alike() {
        let contains = |prefix: &str, peer: &str| prefix.parse::<Prefix>().unwrap().contains(peer.parse().unwrap());
        for (prefix, inside, outside) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.128/25", "::ffff:192.0.2.129", "192.0.2.127"),
            ("0.0.0.0/0", "203.0.113.1", "::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::/0", "2001:db8::", "192.0.2.1"),
            ("::1", "::1", "::2"),
        ] {
            assert!(contains(prefix, inside) && !contains(prefix, outside), "{prefix}");
        }
        for (prefix, first, last) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.7"),
            ("192.0.2.130/25", "192.0.2.128", "192.0.2.255"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
            ("2001:db8::1/32", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("::1", "::1", "::1"),
        ] {
            let parsed: Prefix = prefix.parse().unwrap();
            assert_eq!(
                [parsed.first(), parsed.last()],
                [first, last].map(|a| a.parse::<IpAddr>().unwrap()),
                "{prefix}"
            );
        }
        for bad in ["", "x", "192.0.2.0/33", "::/129", "192.0.2.0/", "/24", "192.0.2/24", "192.0.2.0/-1"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }
}

//! Counters and addresses of connections shared by the endpoints on several sockets.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_units::Time;

use super::directory::Directory;
use crate::keys::Keys;

/// State shared by the endpoints on several sockets with one address: the counters behind the limits of
/// [`EndpointConfig`](crate::EndpointConfig), and a directory of their connections. Clones refer to the same group. An
/// endpoint of [`Endpoint::new`](super::Endpoint::new) has a group of its own.
#[derive(Clone)]
pub struct EndpointGroup(Arc<Group>);

/// Counters shared and changed by all endpoints of a group.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Number of connections, without TIME-WAIT records.
    live: Count,
    /// Number of passive opens that are in progress or wait for `accept`.
    pub(super) pending: Count,
    /// Number of connections that wait for `accept`.
    pub(super) ready: Count,
    /// Memory in bytes that the endpoints have published; see [`Membership::publish`].
    memory: Count,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, more: usize) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Subtracts without wrapping below zero.
    pub(super) fn subtract(&self, less: usize) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| Some(value.saturating_sub(less)));
    }

    /// Replaces the amount `old` in a sum by `new`.
    fn replace(&self, old: usize, new: usize) {
        match new.checked_sub(old) {
            Some(0) => {}
            Some(more) => self.add(more),
            None => self.subtract(old.saturating_sub(new)),
        }
    }
}

struct Group {
    counts: Counts,
    /// Time in nanoseconds until which ACKs without a connection may return a SYN cookie; 0 if there are no cookies.
    cookies_until: AtomicU64,
    addresses: Mutex<HashMap<IpAddr, Arc<Share>, Keys>>,
    directory: Directory,
}

/// Connections and memory of one peer address, which is an IPv4 address or an IPv6 /64 prefix, because a host can
/// choose among all addresses of its subnet (RFC 4291, section 2.5.1; RFC 8981).
#[derive(Debug, Default)]
pub(super) struct Share {
    connections: Count,
    memory: Count,
}

/// An endpoint's membership in its group.
#[derive(Debug)]
pub(super) struct Membership {
    group: EndpointGroup,
    pub(super) shared: bool,
    /// Number of the endpoint in the directory, if it is registered there.
    pub(super) index: Option<u32>,
    /// Memory of this endpoint that is contained in the group's sum.
    published: usize,
}

impl EndpointGroup {
    /// Creates a group whose hash tables are keyed with `secret`.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        let keys = Keys::new(secret);
        Self(Arc::new(Group {
            counts: Counts::default(),
            cookies_until: AtomicU64::new(0),
            addresses: Mutex::new(HashMap::with_hasher(keys.clone())),
            directory: Directory::new(keys),
        }))
    }

    /// Returns the number of connections of all endpoints, including those that are closing.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.counts.live.get()
    }

    /// Returns the number of connections of all endpoints in the handshake or waiting for `accept`.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.0.counts.pending.get()
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Arc<Share>, Keys>> {
        self.0.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    pub(super) fn new(group: EndpointGroup, index: Option<u32>) -> Self {
        Self { group, shared: true, index, published: 0 }
    }

    /// Returns the membership of an endpoint with a group of its own.
    pub(super) fn alone(secret: &[u8; 32]) -> Self {
        Self { group: EndpointGroup::new(secret), shared: false, index: None, published: 0 }
    }

    /// Counts a connection unless there already are `limit` of them. Returns whether it was counted.
    pub(super) fn open(&self, limit: usize) -> bool {
        let more = |live: usize| live.checked_add(1).filter(|more| *more <= limit);
        self.counts().live.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts a passive open like [`open`](Self::open), and also counts it for the peer's address.
    pub(super) fn open_from(&self, address: IpAddr, limit: usize, limit_per_address: usize) -> Option<Arc<Share>> {
        let mut addresses = self.group.addresses();
        let key = prefix(address);
        let taken = addresses.get(&key).map_or(0, |share| share.connections.get());
        if taken >= limit_per_address || !self.open(limit) {
            return None;
        }
        let share = addresses.entry(key).or_default();
        share.connections.add(1);
        Some(Arc::clone(share))
    }

    /// Removes a connection from `address` from the counts, and its `charged` bytes from the share of that address.
    pub(super) fn close(&self, address: IpAddr, share: Option<&Share>, charged: usize) {
        self.counts().live.subtract(1);
        let Some(share) = share else { return };
        share.memory.subtract(charged);
        // The number of connections changes only under the lock of the map.
        let mut addresses = self.group.addresses();
        share.connections.subtract(1);
        if share.connections.get() == 0 {
            addresses.remove(&prefix(address));
        }
    }

    /// Returns whether a passive open would be refused because of these limits.
    pub(super) fn is_full(&self, address: IpAddr, limit: usize, limit_per_address: usize) -> bool {
        let count = || self.group.addresses().get(&prefix(address)).map_or(0, |share| share.connections.get());
        self.group.connections() >= limit || count() >= limit_per_address
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.group.0.counts
    }

    /// Returns the memory of all endpoints in bytes, given that this endpoint uses `own` bytes. For every other
    /// endpoint, the result is accurate to one [`UNIT`].
    pub(super) fn memory(&self, own: usize) -> usize {
        self.counts().memory.get().saturating_sub(self.published).saturating_add(own)
    }

    /// Adds a change of this endpoint's memory to the sum of the group, unless it is small: the endpoints run on
    /// several cores, and each write to a shared counter slows down all of them.
    pub(super) fn publish(&mut self, own: usize) {
        if self.shared && own.abs_diff(self.published) >= UNIT {
            self.publish_all(own);
        }
    }

    fn publish_all(&mut self, own: usize) {
        self.counts().memory.replace(self.published, own);
        self.published = own;
    }

    /// Returns the time until which ACKs without a connection may return a SYN cookie.
    pub(super) fn cookies_until(&self) -> Option<Time> {
        Some(self.group.0.cookies_until.load(Ordering::Relaxed)).filter(|nanos| *nanos > 0).map(Time::from_nanos)
    }

    pub(super) fn set_cookies_until(&self, until: Option<Time>) {
        self.group.0.cookies_until.store(until.map_or(0, Time::as_nanos), Ordering::Relaxed);
    }

    /// Enters a connection of this endpoint in the directory, by its addresses or its number.
    pub(super) fn enter(&self, name: &impl Hash) {
        if let Some(index) = self.index {
            self.group.0.directory.insert(name, index);
        }
    }

    pub(super) fn strike_out(&self, name: &impl Hash) {
        if let Some(index) = self.index {
            self.group.0.directory.remove(name, index);
        }
    }

    pub(super) fn owner(&self, name: &impl Hash) -> Option<u32> {
        let index = self.index?;
        self.group.0.directory.find(name).filter(|owner| *owner != index)
    }

    /// Counts a connection for another address of its peer from now on, whatever the limit of that is.
    pub(super) fn transfer(&self, from: IpAddr, to: IpAddr, share: &mut Option<Arc<Share>>, charged: usize) {
        let (from, to) = (prefix(from), prefix(to));
        let Some(share) = share.as_mut().filter(|_| from != to) else { return };
        let mut addresses = self.group.addresses();
        let next = Arc::clone(addresses.entry(to).or_default());
        next.connections.add(1);
        next.memory.add(charged);
        let former = std::mem::replace(share, next);
        former.memory.subtract(charged);
        former.connections.subtract(1);
        if former.connections.get() == 0 {
            addresses.remove(&from);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.publish_all(0);
    }
}

/// Granularity of memory charged to an address or published to the group, in bytes: most connections are idle and
/// use less.
pub(super) const UNIT: usize = 64 << 10;

impl Share {
    /// Replaces a charge of `old` bytes by one of `new` bytes, and returns the memory of all connections of the address.
    pub(super) fn charge(&self, old: usize, new: usize) -> usize {
        self.memory.replace(old, new);
        self.memory.get()
    }
}

/// Returns the address or prefix under which a peer's connections are counted.
fn prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn member(group: &EndpointGroup, index: u32) -> Membership {
        Membership::new(group.clone(), Some(index))
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let group = EndpointGroup::new(&[1; 32]);
        let all = ["2001:db8::1", "2001:db8::ffff:1:2", "2001:db8:0:1::1", "192.0.2.1", "::ffff:192.0.2.1"];
        let shares = all.map(|address| member(&group, 0).open_from(ip(address), 9, 9).unwrap());
        for (address, count) in [("2001:db8::9", 2), ("2001:db8:0:1::9", 1), ("192.0.2.1", 2), ("192.0.2.2", 0)] {
            assert!(!member(&group, 1).is_full(ip(address), 9, count + 1), "{address}");
            assert!(member(&group, 1).is_full(ip(address), 9, count), "{address}");
        }
        for (address, share) in all.into_iter().zip(&shares).skip(3) {
            member(&group, 1).close(ip(address), Some(share), 0);
        }
        assert_eq!((group.connections(), group.addresses().len()), (3, 2), "the share of an unused address is removed");
    }

    #[test]
    fn a_limit_holds_for_all_members_together() {
        let group = EndpointGroup::new(&[1; 32]);
        let (a, b) = (member(&group, 0), member(&group, 1));
        let share = a.open_from(ip("192.0.2.1"), 3, 1).unwrap();
        assert!(b.open_from(ip("192.0.2.1"), 3, 1).is_none(), "the address has its share");
        assert!(b.open_from(ip("192.0.2.2"), 3, 1).is_some() && a.open(3));
        assert!(!b.open(3) && b.open_from(ip("192.0.2.3"), 3, 1).is_none(), "all of them");
        a.close(ip("192.0.2.1"), Some(&share), 0);
        assert!(b.open_from(ip("192.0.2.1"), 3, 1).is_some());
    }

    /// Threads open and close at the same time; there are never more connections than the limit, and none is left.
    #[test]
    fn counts_are_exact_when_members_run_in_parallel() {
        let group = EndpointGroup::new(&[1; 32]);
        std::thread::scope(|scope| {
            for index in 0..4 {
                let member = member(&group, index);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let address = ip("192.0.2.1");
                        if let Some(share) = member.open_from(address, 3, 2) {
                            assert!(member.group.connections() <= 3);
                            assert!(share.connections.get() <= 2);
                            member.close(address, Some(&share), 0);
                        }
                    }
                });
            }
        });
        assert_eq!((group.connections(), group.addresses().len()), (0, 0));
    }

    #[test]
    fn memory_is_published_in_steps_and_withdrawn_at_the_end() {
        let group = EndpointGroup::new(&[1; 32]);
        let (mut a, mut b) = (member(&group, 0), member(&group, 1));
        a.publish(UNIT - 1);
        assert_eq!((a.memory(UNIT - 1), b.memory(0)), (UNIT - 1, 0), "own memory is exact");
        a.publish(3 * UNIT);
        b.publish(UNIT);
        assert_eq!((a.memory(3 * UNIT), b.memory(UNIT + 5)), (4 * UNIT, 4 * UNIT + 5));
        drop(a);
        assert_eq!(b.memory(UNIT), UNIT);
        let mut alone = Membership::alone(&[1; 32]);
        alone.publish(5 * UNIT);
        assert_eq!(alone.memory(UNIT), UNIT);
    }
}

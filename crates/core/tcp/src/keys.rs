//! Unpredictable values: initial sequence numbers, timestamp offsets, SYN cookies and hash table keys.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use longhaul_units::Time;
use siphasher::sip::{SipHasher13, SipHasher24};

use crate::Tuple;

/// Keyed hashes under one secret, with a separate domain for each use.
#[derive(Clone)]
pub(crate) struct Keys {
    key: [u8; 16],
    table: [u8; 16],
}

#[derive(Clone, Copy, Hash)]
#[repr(u8)]
enum Domain {
    Sequence,
    Timestamp,
    Cookie,
    CookieStamp,
    Bucket,
    Socket,
    ProbeClock,
    Nonce,
    Move,
}

impl Keys {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        let (mut key, mut table) = ([0; 16], [0; 16]);
        let (first, second) = secret.split_at(16);
        key.copy_from_slice(first);
        table.copy_from_slice(second);
        Self { key, table }
    }

    fn hash(&self, domain: Domain, value: impl Hash) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        domain.hash(&mut hasher);
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the initial sequence number M + F(addresses, secret), where M is a clock with ticks of 4 us (RFC 9293,
    /// section 3.4.1).
    pub(crate) fn initial_sequence(&self, tuple: &Tuple, now: Time) -> u32 {
        let clock = (now.as_nanos() / 4_000) as u32;
        (self.hash(Domain::Sequence, tuple) as u32).wrapping_add(clock)
    }

    /// Returns the timestamp offset for a pair of addresses (RFC 7323, section 7.1).
    pub(crate) fn timestamp_offset(&self, tuple: &Tuple) -> u32 {
        self.hash(Domain::Timestamp, tuple) as u32
    }

    /// Returns the MAC of a SYN cookie over all values that must be returned unchanged.
    pub(crate) fn cookie(&self, tuple: &Tuple, peer_isn: u32, slot: u64, options: (u32, u32)) -> u32 {
        self.hash(Domain::Cookie, (tuple, peer_isn, slot, options)) as u32
    }

    /// Returns the second MAC, which is sent as timestamp.
    pub(crate) fn cookie_stamp(&self, tuple: &Tuple, peer_isn: u32, slot: u64, options: u32) -> u32 {
        self.hash(Domain::CookieStamp, (tuple, peer_isn, slot, options)) as u32
    }

    /// Returns the origin of the clock reported to a prober, in nanoseconds: at most 36 years, so that the clock does
    /// not wrap around.
    pub(crate) fn probe_clock_origin(&self, tuple: &Tuple) -> u64 {
        self.hash(Domain::ProbeClock, tuple) >> 4
    }

    /// Returns the seed of a connection's Quick-Start nonces.
    pub(crate) fn nonces(&self, tuple: &Tuple, now: Time) -> u64 {
        self.hash(Domain::Nonce, (tuple, now.as_nanos()))
    }

    /// Returns the challenge for a claim of a connection from these addresses.
    pub(crate) fn challenge(&self, tuple: &Tuple, number: [u8; 8], counter: u32) -> u64 {
        self.hash(Domain::Move, (tuple, number, counter))
    }

    /// Returns a bucket for the address; outsiders cannot predict which.
    pub(crate) fn bucket(&self, address: IpAddr, buckets: usize) -> usize {
        self.hash(Domain::Bucket, address).checked_rem(buckets as u64).unwrap_or(0) as usize
    }
}

/// Derives the secret of the socket at an address: each quarter is a keyed hash of the address.
pub(crate) fn socket_secret(secret: &[u8; 32], local: SocketAddr) -> [u8; 32] {
    let mut derived = [0; 32];
    let keys = Keys::new(secret);
    for (quarter, part) in derived.chunks_mut(8).zip(0u8..) {
        let mut hasher = SipHasher24::new_with_key(if part < 2 { &keys.key } else { &keys.table });
        (Domain::Socket, part, local).hash(&mut hasher);
        quarter.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    derived
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// Hash tables use a keyed hash because the peer chooses the table keys (hash flooding).
impl BuildHasher for Keys {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_units::Span;

    fn tuple(port: u16) -> Tuple {
        Tuple { remote: SocketAddr::from(([192, 0, 2, 1], port)), local: IpAddr::from([192, 0, 2, 2]) }
    }

    #[test]
    fn sequence_numbers_grow_with_the_clock_and_differ_by_address_and_secret() {
        let keys = Keys::new(&[7; 32]);
        let later = Time::ZERO + Span::from_millis(1);
        let first = keys.initial_sequence(&tuple(1), Time::ZERO);
        assert_eq!(keys.initial_sequence(&tuple(1), later).wrapping_sub(first), 250);
        assert_ne!(keys.initial_sequence(&tuple(2), Time::ZERO), first);
        assert_ne!(Keys::new(&[8; 32]).initial_sequence(&tuple(1), Time::ZERO), first);
    }

    #[test]
    fn each_socket_has_a_secret_of_its_own_and_keeps_it() {
        let local = |port: u16| SocketAddr::from(([192, 0, 2, 2], port));
        let first = socket_secret(&[7; 32], local(1));
        assert_eq!(socket_secret(&[7; 32], local(1)), first);
        let quarters: std::collections::HashSet<_> =
            [first, socket_secret(&[7; 32], local(2)), socket_secret(&[8; 32], local(1))]
                .iter()
                .flat_map(|secret| secret.chunks(8).map(<[u8]>::to_vec).collect::<Vec<_>>())
                .collect();
        assert_eq!(quarters.len(), 12);
    }

    /// Pearson's chi-squared test over the top byte of a million sequence numbers of consecutive ports and hosts:
    /// with 255 degrees of freedom, 99.99 % of uniform samples are below 346.
    #[test]
    fn sequence_numbers_of_neighbouring_addresses_are_uniform() {
        let keys = Keys::new(&[3; 32]);
        let mut counts = [0u32; 256];
        let total = 1_000_000u32;
        for i in 0..total {
            let host = [192, 0, 2, (i >> 16) as u8];
            let t = Tuple { remote: SocketAddr::from((host, i as u16)), local: IpAddr::from([192, 0, 2, 2]) };
            counts[(keys.initial_sequence(&t, Time::ZERO) >> 24) as usize] += 1;
        }
        let expected = f64::from(total) / 256.0;
        let chi: f64 = counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
        assert!(chi < 346.0, "{chi}");
    }
}

//! Messages between the members of a group of gateways, in UDP datagrams.
//!
//! | bytes | |
//! |---|---|
//! | 0-3 | `LHG1` |
//! | 4 | kind |
//! | 5 | ECN field in bits 0-1; bit 2: TTL known, 3: service address known, 4: the sender drains |
//! | 6, 7 | TTL; 0 |
//! | 8-15 | nonce of a question, which its answer repeats |
//! | 16-17 | UDP port of the client |
//! | 18-33, 34-49 | IP address of the client, service address; IPv4 as IPv4-mapped |
//! | 50- | datagram of the client |
//! | last 16 | BLAKE3 of all before, keyed with the secret of the group |

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use longhaul::Stray;

const MAGIC: &[u8; 4] = b"LHG1";
const HEADER: usize = 50;
const TAG: usize = 16;

/// Key of the tags.
pub(super) type Key = [u8; 32];

/// A connection of a client: its address, and the service address if that is known.
pub(super) type Flow = (SocketAddr, Option<IpAddr>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The sender is alive.
    Beat,
    /// A stray. The receiver says whether it has the connection.
    Question,
    /// A stray for the receiver, which answers only if it does not have the connection.
    Stray,
    /// The sender has the connection.
    Owner,
    /// The sender does not have the connection.
    Stranger,
}

const KINDS: [Kind; 5] = [Kind::Beat, Kind::Question, Kind::Stray, Kind::Owner, Kind::Stranger];

#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) kind: Kind,
    /// Whether the sender accepts no new connections.
    pub(super) is_draining: bool,
    pub(super) nonce: u64,
    /// The addresses of the connection, and the client's datagram in a question or a stray.
    pub(super) stray: Stray<'a>,
}

impl<'a> Message<'a> {
    pub(super) const fn about(kind: Kind, nonce: u64, stray: Stray<'a>) -> Self {
        Self { kind, is_draining: false, nonce, stray }
    }

    pub(super) const fn flow(&self) -> Flow {
        (self.stray.remote, self.stray.local)
    }

    /// Writes the message with its tag.
    pub(super) fn encode(&self, key: &Key, out: &mut Vec<u8>) {
        let stray = &self.stray;
        let kind = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or_default();
        let known = u8::from(stray.ttl.is_some()) << 2 | u8::from(stray.local.is_some()) << 3;
        let bits = stray.ecn & 3 | known | u8::from(self.is_draining) << 4;
        out.clear();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[kind as u8, bits, stray.ttl.unwrap_or_default(), 0]);
        out.extend_from_slice(&self.nonce.to_be_bytes());
        out.extend_from_slice(&stray.remote.port().to_be_bytes());
        for address in [stray.remote.ip(), stray.local.unwrap_or(Ipv6Addr::UNSPECIFIED.into())] {
            out.extend_from_slice(&mapped(address));
        }
        out.extend_from_slice(stray.data);
        let tag = blake3::keyed_hash(key, out);
        out.extend_from_slice(&tag.as_bytes()[..TAG]);
    }

    /// Reads a message from a member; `None` if it is from somebody else or damaged.
    pub(super) fn decode(key: &Key, datagram: &'a [u8]) -> Option<Self> {
        let (message, tag) = datagram.split_at_checked(datagram.len().checked_sub(TAG)?)?;
        let (header, data) = message.split_first_chunk::<HEADER>()?;
        let expected = blake3::keyed_hash(key, message);
        // The comparison of two integers takes constant time.
        let expected = u128::from_ne_bytes(*expected.as_bytes().first_chunk()?);
        if !header.starts_with(MAGIC) || expected ^ u128::from_ne_bytes(tag.try_into().ok()?) != 0 {
            return None;
        }
        let field = |at: usize| -> Option<[u8; 16]> { header.get(at..at + 16)?.try_into().ok() };
        let bits = header[5];
        let remote = SocketAddr::new(unmapped(field(18)?), u16::from_be_bytes([header[16], header[17]]));
        let local = (bits & 8 != 0).then_some(unmapped(field(34)?));
        let mut stray = Stray::new(remote, local, data);
        (stray.ecn, stray.ttl) = (bits & 3, (bits & 4 != 0).then_some(header[6]));
        let nonce = u64::from_be_bytes(header.get(8..16)?.try_into().ok()?);
        Some(Self { kind: *KINDS.get(usize::from(header[4]))?, is_draining: bits & 16 != 0, nonce, stray })
    }
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

fn unmapped(octets: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(octets).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Kind) -> Message<'static> {
        let remote = SocketAddr::from(([198, 51, 100, 7], 4000));
        let mut stray = Stray::new(remote, Some(IpAddr::from([192, 0, 2, 1])), b"a datagram");
        (stray.ecn, stray.ttl) = (3, Some(61));
        Message { is_draining: true, ..Message::about(kind, 0x0123_4567_89ab_cdef, stray) }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        for kind in KINDS {
            message(kind).encode(&[7; 32], &mut bytes);
            let read = Message::decode(&[7; 32], &bytes).unwrap();
            assert_eq!(format!("{read:?}"), format!("{:?}", message(kind)));
            assert_eq!(read.stray.data, message(kind).stray.data);
        }
        let six: IpAddr = "2001:db8::9".parse().unwrap();
        let plain = Message::about(Kind::Beat, 0, Stray::new(SocketAddr::new(six, 1), None, &[]));
        plain.encode(&[7; 32], &mut bytes);
        assert_eq!(format!("{:?}", Message::decode(&[7; 32], &bytes).unwrap()), format!("{plain:?}"));
    }

    #[test]
    fn what_is_damaged_or_forged_is_not_read() {
        let mut bytes = Vec::new();
        message(Kind::Stray).encode(&[7; 32], &mut bytes);
        assert!(Message::decode(&[8; 32], &bytes).is_none());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Message::decode(&[7; 32], &damaged).is_none(), "{at}");
            assert!(Message::decode(&[7; 32], &bytes[..at]).is_none(), "{at}");
        }
        // With the right tag, too.
        for (at, value) in [(0, b'X'), (4, 5), (4, 255)] {
            let mut other = bytes[..bytes.len() - TAG].to_vec();
            other[at] = value;
            let tag = blake3::keyed_hash(&[7; 32], &other);
            other.extend_from_slice(&tag.as_bytes()[..TAG]);
            assert!(Message::decode(&[7; 32], &other).is_none(), "{at}");
        }
    }
}

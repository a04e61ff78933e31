//! Encoding of socket addresses for the kernel.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::filled::Filled;
use crate::canonical;

const V4_LEN: usize = size_of::<libc::sockaddr_in>();
const V6_LEN: usize = size_of::<libc::sockaddr_in6>();

/// Bytes of a `sockaddr_in` or `sockaddr_in6`: family (native byte order), port (network byte order), and then the
/// address for IPv4, or flow information, address and scope (native byte order) for IPv6.
pub(super) type RawAddr = Filled<V6_LEN>;

impl RawAddr {
    /// Encodes `addr` for a socket. For an IPv6 socket, IPv4 addresses are encoded as IPv4-mapped ones; for an IPv4
    /// socket, IPv4-mapped addresses are encoded as IPv4 ones.
    pub(super) fn encode(addr: SocketAddr, v6_socket: bool) -> Self {
        let mut raw = Self::default();
        let port = addr.port().to_be_bytes();
        let (ip, flow, scope) = match (canonical(addr), v6_socket) {
            (SocketAddr::V4(v4), false) => {
                raw.bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                raw.bytes[2..4].copy_from_slice(&port);
                raw.bytes[4..8].copy_from_slice(&v4.ip().octets());
                raw.len = V4_LEN;
                return raw;
            }
            (SocketAddr::V4(v4), true) => (v4.ip().to_ipv6_mapped(), 0, 0),
            (SocketAddr::V6(v6), _) => (*v6.ip(), v6.flowinfo(), v6.scope_id()),
        };
        raw.bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        raw.bytes[2..4].copy_from_slice(&port);
        raw.bytes[4..8].copy_from_slice(&flow.to_be_bytes());
        raw.bytes[8..24].copy_from_slice(&ip.octets());
        raw.bytes[24..28].copy_from_slice(&scope.to_ne_bytes());
        raw.len = V6_LEN;
        raw
    }

    /// Decodes the address without flow information. IPv4-mapped addresses become IPv4 ones. Returns `None` if the
    /// kernel provided no address.
    pub(super) fn decode(&self) -> Option<SocketAddr> {
        let family = i32::from(u16::from_ne_bytes(array(&self.bytes, 0)));
        let port = u16::from_be_bytes(array(&self.bytes, 2));
        if family == libc::AF_INET && self.len >= V4_LEN {
            let ip = Ipv4Addr::from(array::<4>(&self.bytes, 4));
            return Some(SocketAddrV4::new(ip, port).into());
        }
        if family == libc::AF_INET6 && self.len >= V6_LEN {
            let ip = Ipv6Addr::from(array::<16>(&self.bytes, 8));
            let scope = u32::from_ne_bytes(array(&self.bytes, 24));
            return Some(canonical(SocketAddrV6::new(ip, port, 0, scope).into()));
        }
        None
    }
}

/// Returns the `N` bytes at offset `at`, or zeros if the slice is too short.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str, v6_socket: bool) -> (usize, Option<SocketAddr>) {
        let raw = RawAddr::encode(text.parse().unwrap(), v6_socket);
        (raw.as_bytes().len(), raw.decode())
    }

    #[test]
    fn each_family_of_socket_gets_its_form() {
        let v4: SocketAddr = "192.0.2.1:7000".parse().unwrap();
        assert_eq!(round_trip("192.0.2.1:7000", false), (16, Some(v4)));
        assert_eq!(round_trip("192.0.2.1:7000", true), (28, Some(v4)));
        assert_eq!(round_trip("[::ffff:192.0.2.1]:7000", false), (16, Some(v4)));
        assert_eq!(round_trip("[::ffff:192.0.2.1]:7000", true), (28, Some(v4)));
        let v6 = "[fe80::1%3]:7000";
        assert_eq!(round_trip(v6, true), (28, Some(v6.parse().unwrap())));
    }

    #[test]
    fn ports_and_addresses_are_in_network_order() {
        let raw = RawAddr::encode("192.0.2.1:258".parse().unwrap(), false);
        assert_eq!(raw.as_bytes()[2..8], [1, 2, 192, 0, 2, 1]);
        let raw = RawAddr::encode("192.0.2.1:258".parse().unwrap(), true);
        assert_eq!(raw.as_bytes()[18..24], [0xff, 0xff, 192, 0, 2, 1]);
    }

    #[test]
    fn empty_and_short_addresses_do_not_decode() {
        assert_eq!(RawAddr::default().decode(), None);
        let mut short = RawAddr::encode("192.0.2.1:258".parse().unwrap(), false);
        short.set_len(8);
        assert_eq!(short.decode(), None);
    }
}

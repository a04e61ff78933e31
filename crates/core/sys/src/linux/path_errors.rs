//! ICMP errors reported for sent datagrams, and the TTL of sent datagrams.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET, SOL_UDP};

use super::addr::{RawAddr, array};
use super::recv::timespec;
use super::socket::UdpSocket;
use super::syscall::{InMessage, recvmmsg, set_option};

/// Largest number of quoted bytes to keep, which is more than enough to identify a datagram.
const QUOTED: usize = 128;
/// Offset of the reporter's address, which follows the kernel's `struct sock_extended_err`.
const OFFENDER: usize = size_of::<libc::sock_extended_err>();
/// Type and code of "time exceeded in transit" in ICMP (RFC 792) and ICMPv6 (RFC 4443, section 3.3).
const EXPIRED: [(u8, u8); 2] = [(11, 0), (3, 0)];
/// Type and code of "port unreachable" in ICMP (RFC 792) and ICMPv6 (RFC 4443, section 3.1).
const NO_PORT: [(u8, u8); 2] = [(3, 3), (1, 4)];

/// Kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathErrorKind {
    /// The TTL or hop limit of the datagram reached zero at the reporter.
    Expired,
    /// The datagram reached the host, but the port is closed.
    NoPort,
    /// Any other error, with its ICMP or ICMPv6 type and code.
    Other(u8, u8),
}

/// ICMP error for a datagram sent by this socket. An attacker who can guess the ports can forge one.
#[derive(Clone, PartialEq, Eq)]
pub struct PathError {
    /// Kind of the error.
    pub kind: PathErrorKind,
    /// Address of the router or host that reported the error.
    pub from: Option<IpAddr>,
    /// Destination of the datagram.
    pub destination: Option<SocketAddr>,
    /// Quoted part of the datagram's UDP payload: up to 128 bytes from its start, possibly none.
    pub quoted: Vec<u8>,
    /// Time at which the error was received, as in [`Meta::timestamp`](super::Meta::timestamp).
    pub timestamp: Option<Duration>,
}

/// Omits the quoted data.
impl fmt::Debug for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, from, destination, quoted, timestamp } = self;
        f.debug_struct("PathError")
            .field("kind", kind)
            .field("from", from)
            .field("destination", destination)
            .field("quoted", &quoted.len())
            .field("timestamp", timestamp)
            .finish()
    }
}

impl UdpSocket {
    /// Queues ICMP errors for this socket's datagrams, to be read by [`recv_path_error`](Self::recv_path_error).
    ///
    /// From then on, each error also makes the next send or receive call fail without any other effect. The caller
    /// should repeat that call.
    ///
    /// # Errors
    /// Returns an error if the system does not support this.
    pub fn report_path_errors(&self) -> io::Result<()> {
        // On an IPv6 socket, the IPv4 option applies to IPv4-mapped peers.
        set_option(self.as_fd(), IPPROTO_IP, libc::IP_RECVERR, 1)?;
        if self.v6 { set_option(self.as_fd(), IPPROTO_IPV6, libc::IPV6_RECVERR, 1) } else { Ok(()) }
    }

    /// Sets the TTL or hop limit (1 to 255) of sent datagrams.
    ///
    /// # Errors
    /// Returns `InvalidInput` if `ttl` is zero.
    pub fn set_ttl(&self, ttl: u8) -> io::Result<()> {
        set_option(self.as_fd(), IPPROTO_IP, libc::IP_TTL, ttl.into())?;
        if !self.v6 {
            return Ok(());
        }
        set_option(self.as_fd(), IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, ttl.into())
    }

    /// Disables GRO, so that each datagram is received separately with its own timestamp.
    ///
    /// # Errors
    /// Returns an error if [`features`](Self::features) lacks `gro`, in which case datagrams are never coalesced.
    pub fn refuse_merged(&self) -> io::Result<()> {
        set_option(self.as_fd(), SOL_UDP, libc::UDP_GRO, 0)
    }

    /// Returns the oldest queued ICMP error, or `None` if there is none.
    pub fn recv_path_error(&self) -> io::Result<Option<PathError>> {
        let mut slots = [InMessage::default()];
        let mut quoted = vec![0; QUOTED];
        loop {
            let buffers = std::iter::once(quoted.as_mut_slice());
            match recvmmsg(self.as_fd(), libc::MSG_ERRQUEUE, buffers, &mut slots) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            let [slot] = &slots;
            quoted.truncate(slot.len);
            if let Some(report) = read(slot, &quoted) {
                return Ok(Some(report));
            }
            // Ignore errors of local origin, such as a datagram that is larger than the interface's MTU.
            quoted.resize(QUOTED, 0);
        }
    }
}

pub(super) fn read(message: &InMessage, quoted: &[u8]) -> Option<PathError> {
    let mut timestamp = None;
    let mut error = None;
    for control in message.control.messages() {
        match (control.level, control.kind) {
            (SOL_SOCKET, libc::SCM_TIMESTAMPNS) => timestamp = timespec(control.data),
            (IPPROTO_IP, libc::IP_RECVERR) | (IPPROTO_IPV6, libc::IPV6_RECVERR) => error = reported(control.data),
            _ => {}
        }
    }
    let (kind, from) = error?;
    Some(PathError { kind, from, destination: message.name.decode(), quoted: quoted.to_vec(), timestamp })
}

/// Decodes a `struct sock_extended_err` (error number, then one byte each for origin, type and code) and the reporter's
/// address, which follows the struct. Returns `None` if the error is not an ICMP error.
fn reported(data: &[u8]) -> Option<(PathErrorKind, Option<IpAddr>)> {
    let [origin, kind, code, _] = array(data, 4);
    let family = match origin {
        libc::SO_EE_ORIGIN_ICMP => 0,
        libc::SO_EE_ORIGIN_ICMP6 => 1,
        _ => return None,
    };
    let kind = match (kind, code) {
        what if EXPIRED.get(family) == Some(&what) => PathErrorKind::Expired,
        what if NO_PORT.get(family) == Some(&what) => PathErrorKind::NoPort,
        (kind, code) => PathErrorKind::Other(kind, code),
    };
    let offender = data.get(OFFENDER..).unwrap_or_default();
    let mut address = RawAddr::default();
    let mut len = 0;
    for (room, byte) in address.storage().iter_mut().zip(offender) {
        *room = *byte;
        len += 1;
    }
    address.set_len(len);
    Some((kind, address.decode().map(|address| address.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(origin: u8, kind: u8, code: u8, from: &str) -> Vec<u8> {
        let mut data = vec![0; OFFENDER];
        data[4..7].copy_from_slice(&[origin, kind, code]);
        let from = RawAddr::encode(SocketAddr::new(from.parse().unwrap(), 0), from.contains(':'));
        data.extend(from.as_bytes());
        data
    }

    #[test]
    fn types_and_codes_are_those_of_the_family() {
        let read = |origin, kind, code| reported(&report(origin, kind, code, "192.0.2.1")).unwrap().0;
        assert_eq!(read(libc::SO_EE_ORIGIN_ICMP, 11, 0), PathErrorKind::Expired);
        assert_eq!(read(libc::SO_EE_ORIGIN_ICMP, 3, 3), PathErrorKind::NoPort);
        assert_eq!(read(libc::SO_EE_ORIGIN_ICMP, 11, 1), PathErrorKind::Other(11, 1), "of a fragment");
        assert_eq!(read(libc::SO_EE_ORIGIN_ICMP6, 3, 0), PathErrorKind::Expired);
        assert_eq!(read(libc::SO_EE_ORIGIN_ICMP6, 1, 4), PathErrorKind::NoPort);
        assert_eq!(read(libc::SO_EE_ORIGIN_ICMP6, 11, 0), PathErrorKind::Other(11, 0));
        assert_eq!(reported(&report(libc::SO_EE_ORIGIN_LOCAL, 11, 0, "192.0.2.1")), None);
    }

    #[test]
    fn the_reporter_is_read_or_unknown() {
        for from in ["192.0.2.1", "2001:db8::1"] {
            let (_, read) = reported(&report(libc::SO_EE_ORIGIN_ICMP, 11, 0, from)).unwrap();
            assert_eq!(read, Some(from.parse().unwrap()));
        }
        let nobody = &report(libc::SO_EE_ORIGIN_ICMP, 11, 0, "192.0.2.1")[..OFFENDER];
        assert_eq!(reported(nobody), Some((PathErrorKind::Expired, None)));
        assert_eq!(reported(&[]), None);
    }

    /// A datagram to a closed loopback port causes an ICMP "port unreachable" (RFC 1122, section 4.1.3.1) that quotes
    /// the datagram.
    #[test]
    fn a_closed_port_is_reported_with_what_was_sent() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            if local.starts_with('[') && !needs::ipv6() {
                continue;
            }
            let bound = std::net::UdpSocket::bind(local).unwrap();
            let closed = std::net::UdpSocket::bind(local).unwrap().local_addr().unwrap();
            bound.connect(closed).unwrap();
            let socket = UdpSocket::new(bound).unwrap();
            socket.report_path_errors().unwrap();
            socket.set_ttl(7).unwrap();
            assert!(socket.set_ttl(0).is_err());
            assert_eq!(socket.recv_path_error().unwrap(), None);
            let payload = [5; 300];
            socket.io.send(&payload).unwrap();
            let report = (0..2000).find_map(|_| {
                std::thread::sleep(Duration::from_millis(1));
                socket.recv_path_error().unwrap()
            });
            let report = report.unwrap();
            assert_eq!((report.kind, report.from), (PathErrorKind::NoPort, Some(closed.ip())));
            assert_eq!(report.destination, Some(closed));
            assert_eq!(report.quoted, [5; QUOTED]);
            assert!(report.timestamp.is_some());
            assert_eq!(socket.recv_path_error().unwrap(), None);
        }
    }
}

//! UDP socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::AtomicBool;

use libc::{IPPROTO_IP, IPPROTO_IPV6};

use super::options::{self, Features};
use super::syscall::{disconnect, option};
use crate::canonical;

/// UDP socket for IPv4, IPv6 or both, with the control messages that a transport needs.
///
/// Calls never block. All of them take `&self`; the kernel serializes concurrent calls. IPv4 peers of an IPv6 socket
/// are represented by IPv4 addresses when sending and receiving.
#[derive(Debug)]
pub struct UdpSocket {
    pub(super) io: std::net::UdpSocket,
    local: SocketAddr,
    pub(super) v6: bool,
    /// Whether a connected socket has an IPv4 peer.
    pub(super) peer_is_v4: bool,
    /// TOS and traffic class of datagrams sent without a control message.
    pub(super) default_tos: [u8; 2],
    pub(super) gso: AtomicBool,
    features: Features,
}

impl UdpSocket {
    /// Wraps a bound socket. A socket that needs a connected peer must be connected before.
    ///
    /// # Errors
    /// Returns an error if the socket has no local address. Options refused by the kernel are not an error; see
    /// [`features`](Self::features).
    pub fn new(io: std::net::UdpSocket) -> io::Result<Self> {
        let bound = io.local_addr()?;
        let (v6, local) = (bound.is_ipv6(), canonical(bound));
        let peer_is_v4 = !v6 || io.peer_addr().is_ok_and(|peer| canonical(peer).is_ipv4());
        let fd = io.as_fd();
        let features = options::set_up(fd, v6, local.ip().is_unspecified());
        let byte = |level, name| option(fd, level, name).ok().and_then(|tos| u8::try_from(tos).ok()).unwrap_or(0);
        let default_tos = [byte(IPPROTO_IP, libc::IP_TOS), if v6 { byte(IPPROTO_IPV6, libc::IPV6_TCLASS) } else { 0 }];
        Ok(Self { io, local, v6, peer_is_v4, default_tos, gso: AtomicBool::new(features.gso), features })
    }

    /// Returns the features granted by the kernel.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// Returns the address to which the socket was bound when this value was created.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns whether `peer` has the address family of the connected socket's peer.
    #[must_use]
    pub fn has_family_of(&self, peer: SocketAddr) -> bool {
        self.peer_is_v4 == peer.is_ipv4()
    }

    /// Connects the socket to `peer` again, from the local address that the routing table chooses now, and from another
    /// port. An address or port to which the application has bound the socket is kept.
    /// `prepare` is called in between, when the socket is disconnected and no longer bound to an interface; it can bind
    /// the socket, unless the application has chosen a port.
    ///
    /// # Errors
    /// Returns the error of `prepare`, or the system's.
    pub fn reconnect(
        &self,
        peer: SocketAddr,
        prepare: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        disconnect(self.as_fd())?;
        prepare(self.as_fd())?;
        match peer {
            SocketAddr::V4(v4) if self.v6 => self.io.connect((v4.ip().to_ipv6_mapped(), v4.port())),
            _ => self.io.connect(peer),
        }
    }

    /// Returns the destination address that all received datagrams have, or `None` if the kernel reports the address of
    /// each.
    pub(super) fn only_ip(&self) -> Option<IpAddr> {
        Some(self.local.ip()).filter(|ip| !ip.is_unspecified())
    }

    /// Requests a send buffer of `bytes`, which may exceed `net.core.wmem_max` if the process is privileged. Returns
    /// the granted size, which may be smaller.
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<usize> {
        options::set_buffer(self.as_fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
    }

    /// Requests a receive buffer of `bytes`, which may exceed `net.core.rmem_max` if the process is privileged. Returns
    /// the granted size, which may be smaller.
    pub fn set_recv_buffer(&self, bytes: usize) -> io::Result<usize> {
        options::set_buffer(self.as_fd(), libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
    }

    /// Returns the size of the send buffer, in the units of [`set_send_buffer`](Self::set_send_buffer).
    pub fn send_buffer(&self) -> io::Result<usize> {
        options::buffer(self.as_fd(), libc::SO_SNDBUF)
    }

    /// Returns the size of the receive buffer, in the units of [`set_recv_buffer`](Self::set_recv_buffer).
    pub fn recv_buffer(&self) -> io::Result<usize> {
        options::buffer(self.as_fd(), libc::SO_RCVBUF)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

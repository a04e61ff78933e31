//! The UDP socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::AtomicBool;

use libc::{IPPROTO_IP, IPPROTO_IPV6};

use super::addr::canonical;
use super::options::{self, Features};
use super::syscall::option;

/// A UDP socket, IPv4, IPv6 or both, with everything that a transport wants to know and say about a datagram.
///
/// Calls never block. All take `&self`; the kernel orders concurrent ones. IPv4 peers of an IPv6 socket appear as IPv4
/// addresses, in both directions.
#[derive(Debug)]
pub struct UdpSocket {
    pub(super) io: std::net::UdpSocket,
    pub(super) v6: bool,
    /// Where a message without a destination goes: to an IPv4 peer?
    pub(super) peer_is_v4: bool,
    /// The TOS byte and the traffic class of datagrams sent without control message.
    pub(super) default_tos: [u8; 2],
    pub(super) gso: AtomicBool,
    features: Features,
}

impl UdpSocket {
    /// Prepares a bound socket (connected or not; connect it before). It becomes non-blocking.
    ///
    /// # Errors
    /// When the socket has no local address or cannot be made non-blocking. Options that the kernel refuses are no
    /// error: see [`features`](Self::features).
    pub fn new(io: std::net::UdpSocket) -> io::Result<Self> {
        io.set_nonblocking(true)?;
        let v6 = io.local_addr()?.is_ipv6();
        let peer_is_v4 = io.peer_addr().is_ok_and(|peer| canonical(peer).is_ipv4());
        let fd = io.as_fd();
        let features = options::set_up(fd, v6);
        let byte = |level, name| option(fd, level, name).ok().and_then(|tos| u8::try_from(tos).ok()).unwrap_or(0);
        let default_tos = [byte(IPPROTO_IP, libc::IP_TOS), if v6 { byte(IPPROTO_IPV6, libc::IPV6_TCLASS) } else { 0 }];
        Ok(Self { io, v6, peer_is_v4, default_tos, gso: AtomicBool::new(features.gso), features })
    }

    /// What the kernel granted.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// The address the socket is bound to.
    ///
    /// # Errors
    /// None that a bound socket is known to give.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(canonical)
    }

    /// Asks for a send buffer of `bytes` (beyond `net.core.wmem_max` if privileged) and returns the size granted,
    /// which may be less.
    ///
    /// # Errors
    /// None that a valid socket is known to give.
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<usize> {
        options::set_buffer(self.as_fd(), libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
    }

    /// Asks for a receive buffer of `bytes` (beyond `net.core.rmem_max` if privileged) and returns the size granted,
    /// which may be less.
    ///
    /// # Errors
    /// None that a valid socket is known to give.
    pub fn set_recv_buffer(&self, bytes: usize) -> io::Result<usize> {
        options::set_buffer(self.as_fd(), libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
    }

    /// The size of the send buffer, in the units of [`set_send_buffer`](Self::set_send_buffer).
    ///
    /// # Errors
    /// None that a valid socket is known to give.
    pub fn send_buffer(&self) -> io::Result<usize> {
        options::buffer(self.as_fd(), libc::SO_SNDBUF)
    }

    /// The size of the receive buffer, in the units of [`set_recv_buffer`](Self::set_recv_buffer).
    ///
    /// # Errors
    /// None that a valid socket is known to give.
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

//! Socket options.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET, SOL_UDP};

use super::syscall::{option, set_option};

/// Features granted by the kernel to [`UdpSocket::new`](super::UdpSocket::new). Linux grants all of them since 5.0;
/// sandboxes and emulations of Linux may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Receive offload: equally sized datagrams of a peer are coalesced (`UDP_GRO`).
    pub gro: bool,
    /// Segmentation offload: batches are segmented by the kernel or the network card (`UDP_SEGMENT`).
    pub gso: bool,
    /// Receive timestamps (`SO_TIMESTAMPNS`).
    pub timestamps: bool,
    /// Received TOS or traffic class (`IP_RECVTOS`, `IPV6_RECVTCLASS`), which is required for ECN.
    pub tos: bool,
    /// Received TTL or hop limit (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    pub ttl: bool,
    /// Destination address of received datagrams (`IP_PKTINFO`, `IPV6_RECVPKTINFO`). If a socket is bound to one
    /// address, the destination is known without this option.
    pub dst_ip: bool,
    /// Number of datagrams dropped because the receive buffer was full (`SO_RXQ_OVFL`).
    pub drops: bool,
    /// The host never fragments datagrams, and the kernel sends datagrams up to the interface's MTU regardless of ICMP
    /// (`IP_PMTUDISC_PROBE`), so that a forged "packet too big" message has no effect.
    pub dont_fragment: bool,
}

/// Whether the kernel supports `UDP_SEGMENT`, which does not depend on the socket.
static SEGMENTS: OnceLock<bool> = OnceLock::new();
/// Smallest size in bytes that the kernel grants exactly if it is forced. Smaller buffers may be rounded up to
/// `SOCK_MIN_SNDBUF` or `SOCK_MIN_RCVBUF`.
const EXACT: i32 = 1 << 16;

/// Sets all options. The option for destination addresses is set only on a socket that `is_wildcard`. Returns the
/// options that the kernel supports.
pub(super) fn set_up(fd: BorrowedFd<'_>, v6: bool, is_wildcard: bool) -> Features {
    let on = |level, name| set_option(fd, level, name, 1).is_ok();
    // On an IPv6 socket, the IPv4 options apply to IPv4-mapped peers. IPv6-only sockets also accept them.
    let both = |v4_name, v6_name| on(IPPROTO_IP, v4_name) & (!v6 || on(IPPROTO_IPV6, v6_name));
    // IPV6_RECVPKTINFO applies to IPv4-mapped peers as well.
    let dst_ip = if v6 { (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (IPPROTO_IP, libc::IP_PKTINFO) };
    let probe = |level, name, value| set_option(fd, level, name, value).is_ok();
    Features {
        gro: on(SOL_UDP, libc::UDP_GRO),
        gso: *SEGMENTS.get_or_init(|| option(fd, SOL_UDP, libc::UDP_SEGMENT).is_ok()),
        timestamps: on(SOL_SOCKET, libc::SO_TIMESTAMPNS),
        tos: both(libc::IP_RECVTOS, libc::IPV6_RECVTCLASS),
        ttl: both(libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT),
        dst_ip: !is_wildcard || on(dst_ip.0, dst_ip.1),
        drops: on(SOL_SOCKET, libc::SO_RXQ_OVFL),
        dont_fragment: probe(IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
            & (!v6 || probe(IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)),
    }
}

/// Requests a buffer of `bytes`, which may exceed the system's limit if the process is privileged. Returns the granted
/// size.
///
/// The kernel doubles the requested size to allow for bookkeeping overhead and reports the doubled size (socket(7)).
pub(super) fn set_buffer(fd: BorrowedFd<'_>, forced: i32, plain: i32, bytes: usize) -> io::Result<usize> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    if set_option(fd, SOL_SOCKET, forced, bytes).is_err() {
        set_option(fd, SOL_SOCKET, plain, bytes)?;
    } else if bytes >= EXACT {
        return Ok(usize::try_from(bytes).unwrap_or(0));
    }
    buffer(fd, plain)
}

/// Returns the size of a buffer, in the units of [`set_buffer`].
pub(super) fn buffer(fd: BorrowedFd<'_>, plain: i32) -> io::Result<usize> {
    let doubled = option(fd, SOL_SOCKET, plain)?;
    Ok(usize::try_from(doubled / 2).unwrap_or(0))
}

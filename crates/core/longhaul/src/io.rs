//! The UDP socket and the timer of an endpoint.
//!
//! There are two implementations, selected by [`UdpBackend`]. Sending never waits: the task that holds the endpoint's
//! lock sends. Only the driver task waits for readiness.

mod clock;
#[cfg(target_os = "linux")]
mod linux;
mod portable;

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use longhaul_sys::pool::RecvPool;
pub(crate) use longhaul_sys::{ErrorClass, canonical};
use longhaul_tcp::HostError;
use longhaul_units::{Span, Time};

use crate::local_path::LocalPath;

#[cfg(shuttle)]
pub use self::linux::{a_dropped_timer_does_not_fire_for_its_successor, each_timer_fires_once};

/// Number of unused receive buffers that are kept for reuse: 16 MiB.
const SPARE_BUFFERS: usize = 256;
/// Maximum number of receive buffers that unread data may occupy: 512 MiB. Beyond this, data is copied out of them.
const KEPT_BUFFERS: usize = 8192;

fn pool() -> &'static RecvPool {
    static POOL: OnceLock<RecvPool> = OnceLock::new();
    POOL.get_or_init(|| RecvPool::new(SPARE_BUFFERS, KEPT_BUFFERS))
}

/// The implementation of a UDP socket, chosen by [`TcpSocket::set_udp_backend`](crate::TcpSocket::set_udp_backend).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UdpBackend {
    /// [`System`](Self::System) on Linux and [`Quinn`](Self::Quinn) elsewhere.
    #[default]
    Default,
    /// longhaul's own system calls, which exist on Linux only: gather writes, DSCP, ECN of merged datagrams, received
    /// TTL, ICMP errors with their destination, and a timer with a resolution of some tens of microseconds.
    System,
    /// The crate `quinn-udp`, on every system that it supports.
    Quinn,
}

impl UdpBackend {
    /// Returns whether this is the implementation with longhaul's own system calls.
    ///
    /// # Errors
    /// Returns `Unsupported` if that is requested and does not exist.
    fn is_system(self) -> io::Result<bool> {
        let exists = cfg!(target_os = "linux");
        match self {
            Self::Default => Ok(exists && !tests_want_quinn()),
            Self::System if !exists => Err(io::ErrorKind::Unsupported.into()),
            Self::System => Ok(true),
            Self::Quinn => Ok(false),
        }
    }
}

/// Returns whether the tests of this repository run over `quinn-udp`: `.ci/run` runs those of sockets twice. No other
/// build reads the environment.
fn tests_want_quinn() -> bool {
    cfg!(feature = "_internals") && std::env::var_os("LONGHAUL_UDP").is_some_and(|name| name == "quinn")
}

/// A UDP socket and the timer of its endpoint.
pub(crate) struct Io {
    socket: Arc<dyn Socket>,
    pub(crate) role: Role,
    #[cfg(test)]
    pub(crate) is_system: bool,
}

/// Interface of both implementations.
pub(crate) trait Socket: Send + Sync {
    #[cfg(unix)]
    fn descriptor(&self) -> std::os::fd::BorrowedFd<'_>;

    /// Returns a reference for setting options of the UDP socket.
    fn options(&self) -> socket2::SockRef<'_>;

    /// Returns how many datagrams segmentation offload sends at once.
    fn max_segments(&self) -> usize;

    /// Requests socket buffer sizes and returns those that were granted.
    fn set_buffers(&self, wanted: Buffers) -> io::Result<Buffers>;

    /// Sends datagrams; fails with `WouldBlock` if the send buffer is full.
    fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()>;

    /// Returns whether [`reconnect`](Self::reconnect) is possible.
    fn reconnects(&self) -> bool {
        false
    }

    /// Connects the socket to its peer from the local address that the system chooses now, or from `_over`. For a peer
    /// address of the other family, another UDP socket takes the place of the current one.
    fn reconnect(&self, _peer: SocketAddr, _over: Option<&LocalPath>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Passes errors reported on the path since the last call to `each`, with the destination of the datagram concerned
    /// where it is known. Returns whether there were any.
    fn take_errors(&self, each: &mut dyn FnMut(Option<SocketAddr>, HostError)) -> bool;

    /// Sets the endpoint's only timer.
    fn arm(&self, at: Time);

    fn poll_timer(&self, cx: &mut Context<'_>) -> Poll<()>;

    fn class(&self, error: &io::Error) -> ErrorClass;

    fn receiver(self: Arc<Self>) -> Box<dyn Receiver>;
}

/// Receive side of a socket, which only the driver task uses.
pub(crate) trait Receiver: Send {
    /// Receives available data and calls `each` for every message, with the number of datagrams that the kernel has
    /// dropped, if known. Returns whether there may be more, or an error. `at_once` receives even if the runtime has
    /// not reported the socket as readable.
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        at_once: bool,
        each: &mut dyn FnMut(Incoming<'_>, Option<u32>),
    ) -> Poll<io::Result<bool>>;

    /// Monitors the socket after [`poll_recv`](Self::poll_recv) has found it empty, so that arriving data wakes the
    /// driver. Ready if there already is data, or with an error. By default, receive calls monitor the socket.
    fn poll_watch(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    /// Stops monitoring the socket, so that arriving data does not wake the driver. Returns whether this is possible.
    fn stop_watching(&mut self) -> bool {
        false
    }

    /// Ready when the socket may accept datagrams again, which `retry` checks.
    fn poll_writable(&mut self, cx: &mut Context<'_>, retry: &mut dyn FnMut() -> bool) -> Poll<Writable>;

    /// Ends the wait for room in the send buffer.
    fn unblock(&mut self) {}

    /// Ready when the system has reported an error on the path, which [`Socket::take_errors`] fetches.
    fn poll_error(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

impl Io {
    /// Takes over a socket. Must be called within a tokio runtime.
    pub(crate) fn new(socket: UdpSocket, role: Role, backend: UdpBackend) -> io::Result<Self> {
        let is_system = backend.is_system()?;
        let socket: Arc<dyn Socket> = match is_system {
            #[cfg(target_os = "linux")]
            true => Arc::new(linux::Socket::new(socket, role)?),
            _ => Arc::new(portable::Socket::new(socket, role)?),
        };
        Ok(Self {
            socket,
            role,
            #[cfg(test)]
            is_system,
        })
    }

    /// Takes over a simulated socket of a model test.
    #[cfg(shuttle)]
    pub(crate) fn over(socket: Arc<dyn Socket>, role: Role) -> Self {
        Self { socket, role }
    }

    pub(crate) fn now() -> Time {
        clock::now()
    }

    /// Returns the times of the monotonic and the wall clock at the same moment.
    pub(crate) fn clocks() -> (Time, Duration) {
        let pair = clock::pair();
        (Time::from_nanos(pair.monotonic), pair.realtime)
    }

    /// Returns the lead of the wall clock over the monotonic clock in a reading of both, or `None` if the wall clock is
    /// unset (zero) or behind.
    pub(crate) fn ahead((now, wall): (Time, Duration)) -> Option<Span> {
        u64::try_from(wall.as_nanos()).ok().filter(|wall| *wall > 0)?.checked_sub(now.as_nanos()).map(Span::from_nanos)
    }

    pub(crate) fn receiver(&self) -> Box<dyn Receiver> {
        Arc::clone(&self.socket).receiver()
    }
}

impl Deref for Io {
    type Target = dyn Socket;

    fn deref(&self) -> &Self::Target {
        &*self.socket
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Not connected: serves a listener and its connections.
    Listener,
    /// Connected to its only peer.
    Connected,
    /// Not connected: opens connections to several peers.
    Connector,
}

impl Role {
    pub(crate) const fn is_client(self) -> bool {
        matches!(self, Self::Connected | Self::Connector)
    }
}

/// Whether a socket whose send buffer was full accepts datagrams again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writable {
    Yes,
    /// The last attempt failed, and readiness does not show when the next one will succeed.
    Unknown,
}

/// The datagrams of one send call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) destination: SocketAddr,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub(crate) tos: u8,
    pub(crate) src_ip: Option<IpAddr>,
    /// UDP payload length of every datagram except the last; `None` for a single datagram.
    pub(crate) segment_size: Option<u16>,
    pub(crate) slices: &'a [IoSlice<'a>],
}

/// A received message: one datagram, or several from the same sender, each `stride` bytes long except possibly the last
/// one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) dst_ip: Option<IpAddr>,
    /// Length of each datagram in `data`; the last one may be shorter.
    pub(crate) stride: usize,
    /// The two bits of the ECN field; zero if unknown.
    pub(crate) ecn: u8,
    /// TOS or traffic class, if the system reports it.
    pub(crate) tos: Option<u8>,
    pub(crate) ttl: Option<u8>,
    /// The kernel's receive timestamp, mapped to the clock of [`Io::now`].
    pub(crate) rx_time: Option<Time>,
    pub(crate) coalesced: bool,
    pub(crate) data: &'a [u8],
    /// The buffer that contains `data`, if the receiver may keep a reference to it.
    pub(crate) shared: Option<&'a Bytes>,
}

/// Socket buffer sizes in bytes, requested or granted by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers {
    pub(crate) send: usize,
    pub(crate) recv: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_quinn(backend: UdpBackend) -> bool {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        !Io::new(socket, Role::Listener, backend).unwrap().is_system
    }

    /// CI runs this with and without `LONGHAUL_UDP=quinn`: tests of sockets would pass if the variable were ignored.
    #[tokio::test]
    async fn the_backend_is_the_chosen_one() {
        let wants_quinn = std::env::var_os("LONGHAUL_UDP").is_some_and(|name| name == "quinn");
        assert_eq!(is_quinn(UdpBackend::Default), wants_quinn || !cfg!(target_os = "linux"));
        assert!(is_quinn(UdpBackend::Quinn));
        if cfg!(target_os = "linux") {
            assert!(!is_quinn(UdpBackend::System));
        }
        let socket = crate::TcpSocket::new_v4().unwrap();
        socket.set_udp_backend(UdpBackend::Quinn);
        assert!(!socket.listen(1).unwrap().first().io.is_system);
    }
}

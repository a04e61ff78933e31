//! The UDP socket and the timer under an endpoint.
//!
//! Both implementations have the same methods. Sending never waits: whoever holds the endpoint's lock sends; only the
//! driver task waits for readiness.

#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub(crate) use linux::{Io, Receiver as IoReceiver};

#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod portable;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub(crate) use portable::{Io, Receiver as IoReceiver};

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use bytes::Bytes;
use longhaul_sys::pool::RecvPool;
use longhaul_units::Time;

/// Receive buffers not in use that are kept for the next receive: 16 MiB.
const SPARE_BUFFERS: usize = 256;
/// Receive buffers that unread data may keep: 512 MiB; beyond it data is copied out.
const KEPT_BUFFERS: usize = 8192;

/// The receive buffers of all sockets of the process.
fn pool() -> &'static RecvPool {
    static POOL: OnceLock<RecvPool> = OnceLock::new();
    POOL.get_or_init(|| RecvPool::new(SPARE_BUFFERS, KEPT_BUFFERS))
}

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It listens: for a listener and its connections.
    Listener,
    /// It is connected to the one peer that it has.
    Connected,
    /// It is not connected and has several peers, each of which it opened the connection to.
    Connector,
}

impl Role {
    pub(crate) const fn is_client(self) -> bool {
        matches!(self, Self::Connected | Self::Connector)
    }
}

/// Whether a socket that was full takes datagrams again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writable {
    Yes,
    /// It did not when last tried, and there is no telling when it will.
    Unknown,
}

/// What is to be sent by one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) destination: SocketAddr,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub(crate) tos: u8,
    pub(crate) src_ip: Option<IpAddr>,
    /// UDP payload of every datagram but the last, if there are several.
    pub(crate) segment_size: Option<u16>,
    pub(crate) slices: &'a [IoSlice<'a>],
}

/// What was received by one call: a datagram, or several of one sender and `stride` bytes each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) dst_ip: Option<IpAddr>,
    pub(crate) stride: usize,
    /// The ECN field's two bits, if known.
    pub(crate) ecn: u8,
    pub(crate) ttl: Option<u8>,
    /// The kernel's receive time, mapped to our clock.
    pub(crate) rx_time: Option<Time>,
    pub(crate) coalesced: bool,
    pub(crate) data: &'a [u8],
    /// The buffer `data` lies in, if it may be kept.
    pub(crate) shared: Option<&'a Bytes>,
}

/// What the kernel granted of socket buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers {
    pub(crate) send: usize,
    pub(crate) recv: usize,
}

/// How an error of the socket is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    WouldBlock,
    /// Longer than the first hop takes.
    TooLong,
    /// No memory for it: as good as lost on the way; try again later.
    NoBuffers,
    /// The peer's host says that nobody listens. Said of an earlier datagram.
    Refused,
    /// Unreachable, filtered, interface down: it may pass.
    Soft,
    /// The socket itself is broken.
    Fatal,
}

/// IPv4 peers of an IPv6 socket appear as IPv4 addresses.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

//! The UDP socket and the timer of an endpoint.
//!
//! There are two implementations with the same methods. Sending never waits: it is done by whichever task holds the
//! endpoint's lock. Only the driver task waits for readiness.

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

/// Unused receive buffers that are kept for reuse: 16 MiB.
const SPARE_BUFFERS: usize = 256;
/// Receive buffers that unread data may occupy: 512 MiB. Beyond that, data is copied out of them.
const KEPT_BUFFERS: usize = 8192;

/// Returns the pool of receive buffers, which all sockets of the process share.
fn pool() -> &'static RecvPool {
    static POOL: OnceLock<RecvPool> = OnceLock::new();
    POOL.get_or_init(|| RecvPool::new(SPARE_BUFFERS, KEPT_BUFFERS))
}

/// The use of a UDP socket.
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
    /// The last attempt failed, and readiness does not tell when the next one will succeed.
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

/// The result of one receive call: one datagram, or several from the same sender, each `stride` bytes long except
/// possibly the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) dst_ip: Option<IpAddr>,
    /// Length of each datagram in `data`; the last one may be shorter.
    pub(crate) stride: usize,
    /// The two bits of the ECN field; zero if unknown.
    pub(crate) ecn: u8,
    pub(crate) ttl: Option<u8>,
    /// The kernel's receive timestamp, mapped to the clock of [`Io::now`].
    pub(crate) rx_time: Option<Time>,
    pub(crate) coalesced: bool,
    pub(crate) data: &'a [u8],
    /// The buffer that contains `data`, if the receiver may keep a reference to it.
    pub(crate) shared: Option<&'a Bytes>,
}

/// Socket buffer sizes in bytes, as requested or as granted by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers {
    pub(crate) send: usize,
    pub(crate) recv: usize,
}

/// Classification of socket errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    WouldBlock,
    /// The datagram exceeds the MTU of the first hop.
    TooLong,
    /// The kernel has no memory for the datagram, which is sent again after a pause.
    NoBuffers,
    /// The peer's host reports that the port is closed. The report refers to an earlier datagram.
    Refused,
    /// A condition that may pass: host or network unreachable, packets filtered, interface down.
    Soft,
    /// The socket itself has failed.
    Fatal,
}

/// Returns IPv4-mapped IPv6 addresses, as IPv4 peers of an IPv6 socket have them, as IPv4 addresses.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

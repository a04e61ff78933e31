//! Stream transports behind one interface.
//!
//! Packets carry 1448 bytes where the transport can choose: longhaul and kernel TCP have this MSS with timestamps, and
//! quinn sends UDP payloads of 1472 bytes, as longhaul does. None probes for a larger size. quinn and kernel TCP (if
//! permitted) use CUBIC, longhaul its default, `copa-cubic`. The Nagle algorithm is off.

mod quic;

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};

pub use quic::Identity;

/// UDP payload of a packet: an MTU of 1500 less 28 bytes of IPv4 and UDP headers.
pub const UDP_PAYLOAD: u16 = 1472;
/// The MSS that makes kernel TCP send 1448 bytes of data, with 12 bytes of timestamps.
const KERNEL_MSS: u32 = 1460;
/// Send and receive buffers in bytes that UDP sockets request, as longhaul does.
const SOCKET_BUFFER: usize = 4 << 20;
/// Congestion control of quinn and, if permitted, of kernel TCP.
const CUBIC: &str = "cubic";
/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Transport with streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// longhaul with its own system calls.
    Longhaul,
    /// longhaul with `quinn-udp` in place of its own system calls, as on systems other than Linux.
    Portable,
    /// Kernel TCP through tokio.
    Tcp,
    /// QUIC by quinn.
    Quinn,
}

impl Transport {
    /// One transport of each library.
    pub const ALL: [Self; 3] = [Self::Longhaul, Self::Tcp, Self::Quinn];

    /// Returns the name in tables and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Longhaul => "longhaul",
            Self::Portable => "longhaul-quinn-udp",
            Self::Tcp => "tcp",
            Self::Quinn => "quinn",
        }
    }
}

/// Stream with tokio's traits.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Connection of any transport, with one indirect call per read or write.
pub type Stream = Box<dyn Duplex>;

/// Accepts connections of one transport.
pub enum Listener {
    /// Listener of longhaul.
    Longhaul(longhaul::TcpListener),
    /// Listener of kernel TCP.
    Tcp(tokio::net::TcpListener),
    /// Endpoint of quinn.
    Quinn(quinn::Endpoint),
}

impl Listener {
    /// Listens on a port that the system chooses.
    ///
    /// # Errors
    /// Returns the system's error.
    pub async fn bind(transport: Transport, ip: IpAddr) -> Result<Self> {
        Self::bind_sharded(transport, ip, 1).await
    }

    /// Listens like [`bind`](Self::bind). A listener of longhaul has `shards` shards.
    ///
    /// # Errors
    /// Returns the system's error.
    pub async fn bind_sharded(transport: Transport, ip: IpAddr, shards: usize) -> Result<Self> {
        let addr = SocketAddr::new(ip, 0);
        Ok(match transport {
            Transport::Longhaul | Transport::Portable => {
                let socket = longhaul_socket(transport)?;
                socket.set_shards(shards)?;
                socket.bind(addr)?;
                Self::Longhaul(socket.listen(BACKLOG)?)
            }
            Transport::Tcp => {
                let socket = kernel_tcp()?;
                socket.bind(addr)?;
                Self::Tcp(socket.listen(BACKLOG)?)
            }
            Transport::Quinn => Self::Quinn(quic::server(addr)?),
        })
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        Ok(match self {
            Self::Longhaul(listener) => listener.local_addr()?,
            Self::Tcp(listener) => listener.local_addr()?,
            Self::Quinn(endpoint) => endpoint.local_addr()?,
        })
    }

    /// Accepts a connection. A stream of quinn exists only after its client has sent data.
    ///
    /// # Errors
    /// Returns the transport's error.
    pub async fn accept(&self) -> Result<Stream> {
        Ok(match self {
            Self::Longhaul(listener) => Box::new(listener.accept().await?.0),
            Self::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Quinn(endpoint) => quic::accept(endpoint).await?,
        })
    }
}

/// Opens connections of one transport. All connections of quinn share a UDP socket; each connection of longhaul has its
/// own.
pub enum Connector {
    /// Connects longhaul sockets of this kind.
    Longhaul(Transport),
    /// Connects sockets of kernel TCP.
    Tcp,
    /// Connects with this endpoint of quinn.
    Quinn(quinn::Endpoint),
}

impl Connector {
    /// Creates a connector of `transport`.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn new(transport: Transport) -> Result<Self> {
        Ok(match transport {
            kind @ (Transport::Longhaul | Transport::Portable) => Self::Longhaul(kind),
            Transport::Tcp => Self::Tcp,
            Transport::Quinn => Self::Quinn(quic::client()?),
        })
    }

    /// Connects.
    ///
    /// # Errors
    /// Returns the transport's error.
    pub async fn connect(&self, to: SocketAddr) -> Result<Stream> {
        Ok(match self {
            Self::Longhaul(kind) => Box::new(longhaul_socket(*kind)?.connect(to).await?),
            Self::Tcp => {
                let stream = kernel_tcp()?.connect(to).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Quinn(endpoint) => quic::connect(endpoint, to).await?,
        })
    }
}

/// Creates a socket with the defaults, except for a fixed packet size and no Nagle algorithm.
///
/// # Errors
/// Returns the system's error.
pub fn longhaul_socket(kind: Transport) -> Result<longhaul::TcpSocket> {
    let mut socket = longhaul::TcpSocket::new_v4()?;
    if kind == Transport::Portable {
        socket.set_udp_backend(longhaul::UdpBackend::Quinn);
    }
    socket.config().base_plpmtu(UDP_PAYLOAD).max_plpmtu(UDP_PAYLOAD).nodelay(true);
    Ok(socket)
}

pub(crate) fn kernel_tcp() -> Result<tokio::net::TcpSocket> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    let options = SockRef::from(&socket);
    options.set_tcp_mss(KERNEL_MSS).context("TCP_MAXSEG")?;
    // Without permission, the socket keeps the system's congestion control, which `kernel_congestion` returns.
    let _ = options.set_tcp_congestion(CUBIC.as_bytes());
    Ok(socket)
}

/// Returns the congestion control of kernel TCP: CUBIC if this process may choose it, otherwise the system's default.
///
/// # Errors
/// Returns the system's error.
pub fn kernel_congestion() -> Result<String> {
    let name = SockRef::from(&kernel_tcp()?).tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// Creates a UDP socket, and requests the same buffers as longhaul, which the system may limit.
pub(crate) fn udp_socket(addr: SocketAddr) -> Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

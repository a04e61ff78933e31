//! The stream transports behind one interface.
//!
//! All carry 1448 bytes a packet where they can choose: longhaul and kernel TCP have that MSS with timestamps on,
//! quinn sends UDP payloads of 1472 bytes as longhaul does. None probes for a larger size. All use CUBIC (kernel TCP
//! where it may) unless a [`Rival`] says otherwise, and none waits for more data before it sends a little (Nagle).

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
/// What UDP sockets ask for as send and receive buffers: what longhaul asks for.
const SOCKET_BUFFER: usize = 4 << 20;
/// What all use unless told otherwise.
const CUBIC: &str = "cubic";
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A transport with streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// This library.
    Longhaul,
    /// This library with `quinn-udp` in place of its own system calls, as on systems other than Linux.
    Portable,
    /// The kernel's TCP through tokio.
    Tcp,
    /// QUIC by quinn.
    Quinn,
}

impl Transport {
    /// One of each library.
    pub const ALL: [Self; 3] = [Self::Longhaul, Self::Tcp, Self::Quinn];

    /// The name in tables and results.
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

/// A transport with a congestion control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rival {
    /// What carries the data.
    pub transport: Transport,
    /// By its name in the kernel, or in longhaul's registry; not there for CUBIC.
    pub congestion: Option<String>,
}

impl From<Transport> for Rival {
    fn from(transport: Transport) -> Self {
        Self { transport, congestion: None }
    }
}

impl Rival {
    fn congestion(&self) -> &str {
        self.congestion.as_deref().unwrap_or(CUBIC)
    }

    /// The name in tables and results.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.transport, &self.congestion) {
            (transport, None) => transport.name().to_owned(),
            (Transport::Longhaul, Some(congestion)) => congestion.clone(),
            (transport, Some(congestion)) => format!("{}-{congestion}", transport.name()),
        }
    }
}

/// What tokio's traits ask of a stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection of any transport. One indirect call for each read or write.
pub type Stream = Box<dyn Duplex>;

/// Where connections come in.
pub enum Listener {
    /// Of longhaul.
    Longhaul(longhaul::TcpListener),
    /// Of the kernel.
    Tcp(tokio::net::TcpListener),
    /// Of quinn.
    Quinn(quinn::Endpoint),
}

impl Listener {
    /// Listens on a port of the system's choice.
    ///
    /// # Errors
    /// The system's.
    pub async fn bind(transport: Transport, ip: IpAddr) -> Result<Self> {
        let addr = SocketAddr::new(ip, 0);
        Ok(match transport {
            Transport::Longhaul | Transport::Portable => {
                let socket = longhaul_socket(transport)?;
                socket.bind(addr)?;
                Self::Longhaul(socket.listen(BACKLOG)?)
            }
            Transport::Tcp => {
                let socket = kernel_tcp(CUBIC)?;
                socket.bind(addr)?;
                Self::Tcp(socket.listen(BACKLOG)?)
            }
            Transport::Quinn => Self::Quinn(quic::server(addr)?),
        })
    }

    /// The address listened on.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        Ok(match self {
            Self::Longhaul(listener) => listener.local_addr()?,
            Self::Tcp(listener) => listener.local_addr()?,
            Self::Quinn(endpoint) => endpoint.local_addr()?,
        })
    }

    /// The next connection. One of quinn's is there when its client has sent something.
    ///
    /// # Errors
    /// The transport's.
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

/// What makes connections. All of quinn's share a UDP socket; each of longhaul's has its own.
pub enum Connector {
    /// Of longhaul, with this kind of socket and congestion control, and what its connections remember of their paths.
    Longhaul(Transport, String, Option<longhaul::PathCache>),
    /// Of the kernel, with this congestion control.
    Tcp(String),
    /// Of quinn.
    Quinn(quinn::Endpoint),
}

impl Connector {
    /// For one transport. Quinn's is always with CUBIC.
    ///
    /// # Errors
    /// The system's.
    pub fn new(rival: impl Into<Rival>) -> Result<Self> {
        let rival = rival.into();
        let congestion = rival.congestion().to_owned();
        Ok(match rival.transport {
            kind @ (Transport::Longhaul | Transport::Portable) => Self::Longhaul(kind, congestion, None),
            Transport::Tcp => Self::Tcp(congestion),
            Transport::Quinn => Self::Quinn(quic::client()?),
        })
    }

    /// The same, and its connections begin with what `memory` holds, and add to it.
    #[must_use]
    pub fn remembering(self, memory: longhaul::PathCache) -> Self {
        match self {
            Self::Longhaul(kind, congestion, _) => Self::Longhaul(kind, congestion, Some(memory)),
            other => other,
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// The transport's.
    pub async fn connect(&self, to: SocketAddr) -> Result<Stream> {
        Ok(match self {
            Self::Longhaul(kind, congestion, memory) => {
                let mut socket = longhaul_socket(*kind)?;
                socket.config().path_cache.clone_from(memory);
                socket.set_congestion(congestion.as_str())?;
                socket.allow_unsafe_congestion(true);
                Box::new(socket.connect(to).await?)
            }
            Self::Tcp(congestion) => {
                let stream = kernel_tcp(congestion)?.connect(to).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Quinn(endpoint) => quic::connect(endpoint, to).await?,
        })
    }
}

/// The defaults (CUBIC, pacing, timestamps and ECN on), but a fixed packet size and no Nagle.
fn longhaul_socket(kind: Transport) -> Result<longhaul::TcpSocket> {
    let mut socket = longhaul::TcpSocket::new_v4()?;
    if kind == Transport::Portable {
        socket.set_udp_backend(longhaul::UdpBackend::Quinn);
    }
    let config = socket.config();
    config.base_plpmtu = UDP_PAYLOAD;
    config.max_plpmtu = UDP_PAYLOAD;
    config.nagle = false;
    // Who asks nothing of routers does not care.
    config.routers_answer = true;
    Ok(socket)
}

fn kernel_tcp(congestion: &str) -> Result<tokio::net::TcpSocket> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    let options = SockRef::from(&socket);
    options.set_tcp_mss(KERNEL_MSS).context("TCP_MAXSEG")?;
    // Only root may leave the set that the system allows everybody: see `kernel_congestion`.
    let set = options.set_tcp_congestion(congestion.as_bytes());
    if congestion != CUBIC {
        set.with_context(|| format!("the kernel's {congestion}"))?;
    }
    Ok(socket)
}

/// The congestion control of kernel TCP in these benches: CUBIC where this process may choose it, else the system's.
///
/// # Errors
/// The system's.
pub fn kernel_congestion() -> Result<String> {
    let name = SockRef::from(&kernel_tcp(CUBIC)?).tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// A UDP socket with the buffers that longhaul asks for, as far as the system grants them.
pub(crate) fn udp_socket(addr: SocketAddr) -> Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

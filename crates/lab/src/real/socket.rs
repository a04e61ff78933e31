//! Sockets of longhaul and of the kernel's TCP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use longhaul::{TcpInfo, TcpSocket};
use longhaul_tcp::Config;
use rustix::net::sockopt::set_tcp_congestion;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket that is not connected yet.
pub(super) enum Socket {
    Longhaul(Box<TcpSocket>),
    Kernel(tokio::net::TcpSocket),
}

/// A socket that accepts one connection.
pub(super) enum Listener {
    Longhaul(longhaul::TcpListener),
    Kernel(tokio::net::TcpListener),
}

/// A connection.
pub(super) enum Stream {
    Longhaul(longhaul::TcpStream),
    Kernel(tokio::net::TcpStream),
}

impl Socket {
    /// Creates a socket of longhaul with this configuration, or of the kernel's TCP with this congestion control. The
    /// path is not shared with others, so unsafe congestion controllers are allowed.
    pub(super) fn new(config: &Config, kernel: Option<&str>) -> io::Result<Self> {
        let Some(congestion) = kernel else {
            let mut socket = TcpSocket::new_v4()?;
            *socket.config() = longhaul::Config::from_engine(config.clone());
            socket.config().allow_unsafe_congestion(true);
            return Ok(Self::Longhaul(Box::new(socket)));
        };
        let socket = tokio::net::TcpSocket::new_v4()?;
        let told =
            |error| io::Error::other(format!("the kernel's {congestion:?}: {error} (modprobe tcp_{congestion})"));
        set_tcp_congestion(&socket, congestion).map_err(told)?;
        socket.set_nodelay(true)?;
        Ok(Self::Kernel(socket))
    }

    /// Listens on a port that the system chooses.
    pub(super) fn listen(self, address: IpAddr) -> io::Result<Listener> {
        let address = SocketAddr::new(address, 0);
        match self {
            Self::Longhaul(socket) => {
                socket.bind(address)?;
                socket.listen(1).map(Listener::Longhaul)
            }
            Self::Kernel(socket) => {
                socket.bind(address)?;
                socket.listen(1).map(Listener::Kernel)
            }
        }
    }

    pub(super) async fn connect(self, to: SocketAddr) -> io::Result<Stream> {
        match self {
            Self::Longhaul(socket) => socket.connect(to).await.map(Stream::Longhaul),
            Self::Kernel(socket) => socket.connect(to).await.map(Stream::Kernel),
        }
    }
}

impl Listener {
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Longhaul(listener) => listener.local_addr(),
            Self::Kernel(listener) => listener.local_addr(),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Longhaul(listener) => Ok(Stream::Longhaul(listener.accept().await?.0)),
            Self::Kernel(listener) => Ok(Stream::Kernel(listener.accept().await?.0)),
        }
    }
}

impl Stream {
    /// Returns the state of a connection of longhaul.
    pub(super) fn info(&self) -> Option<io::Result<TcpInfo>> {
        match self {
            Self::Longhaul(stream) => Some(stream.info()),
            Self::Kernel(_) => None,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Longhaul(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Kernel(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Longhaul(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Kernel(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Longhaul(stream) => Pin::new(stream).poll_flush(cx),
            Self::Kernel(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Longhaul(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Kernel(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

//! A connection as an application has it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use longhaul_tcp::{Config, Endpoint, EndpointConfig, Info};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::ToSocketAddrs;

use crate::driver::Driver;
use crate::handle::Handle;
use crate::io::Io;
use crate::shared::Shared;

/// A connection, as `tokio::net::TcpStream` is one.
#[derive(Debug)]
pub struct TcpStream {
    pub(crate) handle: Arc<Handle>,
}

impl TcpStream {
    /// Opens a connection to the first of `addr`'s addresses that answers.
    ///
    /// # Errors
    /// As `tokio::net::TcpStream::connect`.
    pub async fn connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = None;
        for addr in tokio::net::lookup_host(addr).await? {
            match Self::connect_with(addr, Config::default()).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")))
    }

    /// Opens a connection with settings of its own.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(addr: SocketAddr, config: Config) -> io::Result<Self> {
        let any: SocketAddr =
            if addr.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { (std::net::Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = std::net::UdpSocket::bind(any)?;
        Self::connect_over(socket, addr, config).await
    }

    /// Opens a connection from a bound UDP socket.
    pub(crate) async fn connect_over(
        socket: std::net::UdpSocket,
        addr: SocketAddr,
        config: Config,
    ) -> io::Result<Self> {
        socket.connect(addr)?;
        let io = Io::new(socket, true)?;
        let local = io.local_addr()?;
        let buffers = crate::shared::set_buffers(&io);
        let endpoint = Endpoint::new(EndpointConfig::new(crate::shared::secret()?), Io::now());
        let shared = Shared::new(io, endpoint, local, buffers);
        let tuple = Shared::client_tuple(addr);
        let mut state = shared.lock();
        let now = Io::now();
        state.client = Some(tuple);
        let Some(id) = state.endpoint.connect(now, tuple, Arc::new(config)) else {
            return Err(io::ErrorKind::AddrInUse.into());
        };
        state.handles += 1;
        shared.settle(state, now);
        Driver::spawn(Arc::clone(&shared));
        let stream = Self { handle: Arc::new(Handle::new(shared, id, local, addr)) };
        std::future::poll_fn(|cx| stream.handle.poll_connected(cx)).await?;
        Ok(stream)
    }

    /// The peer's address.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.peer)
    }

    /// Our address.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.local)
    }

    /// A snapshot of the connection.
    ///
    /// # Errors
    /// `NotConnected` if there is nothing left to tell.
    pub fn info(&self) -> io::Result<Info> {
        self.handle.info()
    }

    /// Closes in order and waits until the peer has acknowledged everything.
    ///
    /// # Errors
    /// Why it did not.
    pub async fn close(self) -> io::Result<()> {
        self.handle.shutdown();
        std::future::poll_fn(|cx| self.handle.poll_finished(cx)).await
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = ready!(self.handle.poll_read(cx, buf.initialize_unfilled()))?;
        buf.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.handle.poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.shutdown();
        Poll::Ready(Ok(()))
    }
}

//! A connection as an application has it.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use longhaul_tcp::Config;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::ToSocketAddrs;

use self::split::{address_methods, async_write};
use crate::connect::{self, unspecified};
use crate::handle::Handle;
use crate::info::TcpInfo;
use crate::io::canonical;

/// How long [`TcpStream::close`] waits for the peer to close, too.
const LAST_ACK_PATIENCE: Duration = Duration::from_millis(500);

mod options;
mod ready;
pub(crate) mod split;
pub(crate) mod split_owned;

/// A connection, as `tokio::net::TcpStream` is one.
///
/// Read and write it with the traits of `tokio::io`. Reads and writes take from the task's budget, as tokio's do. Writing queues data: it is sent as windows and pacing allow.
/// Flushing does nothing, as with tokio's.
///
/// # Closing
///
/// * `shutdown()` (of `AsyncWriteExt`) queues the end of our stream after what was written, and returns. The peer can
///   still send. Doing it again does nothing.
/// * [`close`](Self::close) does the same and waits until the peer's TCP has acknowledged everything.
/// * Dropping the stream is like `shutdown` without the possibility to read: what was written is still sent, by the
///   runtime, as long as that exists. If something was received and not read, or arrives later, the peer is told by a
///   reset that it was lost.
/// * [`abort`](Self::abort) gives everything up at once; so does dropping after
///   [`set_zero_linger`](Self::set_zero_linger).
///
/// **The process is the stack**: a runtime that ends takes along what was not yet sent. It sends a reset to the peers
/// of connections that were not shut down. So wait for [`close`](Self::close) where it matters.
///
/// # When the peer vanishes
///
/// A peer that was killed or cut off says nothing. A stream that only reads then waits for ever, and one that writes fails
/// after some 15 minutes, unless a keep-alive ([`TcpSocket::set_keepalive_params`](crate::TcpSocket::set_keepalive_params))
/// and a user timeout ([`set_user_timeout`](Self::set_user_timeout)) are set: set both where somebody waits for an answer.
///
/// # Cancel safety
///
/// Every method of `&self` and every read is cancel safe: when the future is dropped before it is complete, nothing
/// was done. Those that are not say so.
#[derive(Debug)]
pub struct TcpStream {
    pub(crate) handle: Arc<Handle>,
}

impl TcpStream {
    /// Opens a connection to the first of `addr`'s addresses that answers. If there are several, IPv4 and IPv6 take
    /// turns, and the next is tried beside the others when one has failed or not answered within 250 ms (Happy Eyeballs,
    /// RFC 8305).
    ///
    /// Cancel safety: when the future is dropped the attempt is given up, and the peer forgets it.
    ///
    /// # Errors
    /// That of the address which failed last: `ConnectionRefused` if nobody listens there, `HostUnreachable` or
    /// `NetworkUnreachable` if routers say so twice, `TimedOut` if nobody answers; the system's.
    pub async fn connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let addresses = tokio::net::lookup_host(addr).await?;
        connect::race(addresses, |addr| Self::connect_with(addr, Config::default())).await
    }

    /// Opens a connection with settings of its own. See [`TcpSocket`](crate::TcpSocket) for those that are no part of
    /// [`Config`].
    ///
    /// Cancel safety: as [`connect`](Self::connect).
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and `InvalidInput` for a congestion control that must be allowed first
    /// ([`TcpSocket::allow_unsafe_congestion`](crate::TcpSocket::allow_unsafe_congestion)).
    pub async fn connect_with(addr: SocketAddr, config: Config) -> io::Result<Self> {
        let addr = canonical(addr);
        let socket = std::net::UdpSocket::bind(unspecified(addr))?;
        connect::connect_over(socket, addr, config.into()).await
    }

    address_methods!(handle);

    /// A snapshot of the connection. It costs about a microsecond.
    ///
    /// # Errors
    /// `NotConnected` if there is nothing left to tell.
    pub fn info(&self) -> io::Result<TcpInfo> {
        self.handle.tcp_info()
    }

    /// The error that ended the connection, once.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.handle.take_error())
    }

    /// Writes all of `data`, keeping large pieces instead of copying them; what `Bytes` refers to lives until it is
    /// acknowledged.
    ///
    /// Cancel safety: not cancel safe; a part may have been written. [`try_write_bytes`](Self::try_write_bytes) with
    /// [`writable`](Self::writable), or [`poll_write_bytes`](Self::poll_write_bytes), leaves the rest to the caller.
    ///
    /// # Errors
    /// As `write_all` of `AsyncWriteExt`.
    pub async fn write_bytes(&mut self, mut data: Bytes) -> io::Result<()> {
        while !data.is_empty() {
            std::future::poll_fn(|cx| self.handle.poll_write_bytes(cx, &mut data)).await?;
        }
        Ok(())
    }

    /// Takes as much from the front of `data` as there is room for, without copying large pieces; ready with how much
    /// that is.
    ///
    /// # Errors
    /// As `poll_write`.
    pub fn poll_write_bytes(&mut self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<io::Result<usize>> {
        self.handle.poll_write_bytes(cx, data)
    }

    /// Reads up to `max` bytes without copying them; an empty result is the end of the stream. One call gives what
    /// arrived in one piece. What is kept of it keeps its whole receive buffer, 64 KiB, from being used again.
    ///
    /// Cancel safety: cancel safe.
    ///
    /// # Errors
    /// As `read` of `AsyncReadExt`.
    pub async fn read_bytes(&mut self, max: usize) -> io::Result<Bytes> {
        std::future::poll_fn(|cx| self.handle.poll_read_bytes(cx, max)).await
    }

    /// Gives the connection up at once: the peer gets a reset, what is queued is dropped. Reads and writes then fail
    /// with `ConnectionAborted`.
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// Waits until both directions have ended in order, or the connection has failed. It ends nothing by itself.
    ///
    /// Cancel safety: cancel safe.
    ///
    /// # Errors
    /// Why the connection failed.
    pub async fn closed(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.handle.poll_closed(cx)).await
    }

    /// Ends our stream and waits until the peer's TCP has acknowledged all of it: it will be there when the peer's
    /// application reads. If the peer ends its stream too, within half a second, that is acknowledged as well, so that
    /// the process may end without leaving the peer without an answer. What the peer still sends is not waited for; if
    /// it has to be read, `shutdown` and read to the end first. An earlier `shutdown` does no harm.
    ///
    /// Cancel safety: when the future is dropped the connection is ended as when the stream is dropped.
    ///
    /// # Errors
    /// Why it was not acknowledged.
    pub async fn close(self) -> io::Result<()> {
        let ended = self.handle.end_stream();
        let finished = std::future::poll_fn(|cx| self.handle.poll_finished(cx)).await;
        // What was acknowledged stays so, whatever the connection came to afterwards.
        finished.or(ended)?;
        let _ = tokio::time::timeout(LAST_ACK_PATIENCE, self.closed()).await;
        Ok(())
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        poll_read(&self.handle, cx, buf)
    }
}

impl AsyncWrite for TcpStream {
    async_write!(handle);
}

pub(crate) fn poll_read(handle: &Handle, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    let read = ready!(handle.poll_read(cx, buf.initialize_unfilled()))?;
    buf.advance(read);
    Poll::Ready(Ok(()))
}

//! The stream type of the public API.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use longhaul_tcp::{Blocked, Chunks, Connection};
use longhaul_units::Rate;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::ToSocketAddrs;

use crate::config::Config;
use crate::connect::{self, unspecified};
use crate::error::from_connection;
use crate::handle::ops::{read_into, room, write_vectored};
use crate::handle::{COPY_LIMIT, Handle};
use crate::info::TcpInfo;
use crate::io::{Io, canonical};
use crate::setup::Setup;
use crate::waiters::Wait;

/// Maximum time for which [`TcpStream::close`] waits for the peer to close its direction.
const LAST_ACK_PATIENCE: Duration = Duration::from_millis(500);
/// Maximum number of bytes that one read moves without a copy under the endpoint's lock.
const MOVE_LIMIT: usize = 1 << 20;

mod options;
mod ready;
pub(crate) mod split;

/// A TCP connection, like `tokio::net::TcpStream`.
///
/// It is read and written with the traits of `tokio::io`. Reads and writes consume the task's cooperative budget, as
/// tokio's do. A write queues data, which is sent as windows and pacing allow. Flushing does nothing, as with tokio's
/// stream.
///
/// # Closing
///
/// * `shutdown()` (of `AsyncWriteExt`) queues a FIN after the data written so far and returns. The peer can still
///   send. Further calls have no effect.
/// * [`close`](Self::close) does the same and waits until the peer's TCP has acknowledged everything, and then at most
///   500 ms for the peer to end its direction.
/// * Dropping the stream is like `shutdown`, except that nothing can be read afterwards. The runtime still sends the
///   data written, as long as the runtime exists. If received data was not read, or more arrives later, the peer is
///   reset to tell it that the data was lost.
/// * [`abort`](Self::abort) ends the connection at once and discards queued data. So does dropping the stream after
///   [`set_zero_linger`](Self::set_zero_linger).
///
/// **The TCP stack lives in this process**: when the runtime ends, data that has not been sent is lost, and the peers
/// of connections that were not shut down are reset. Await [`close`](Self::close) where this matters.
///
/// # Vanished peers
///
/// A peer that is powered off or disconnected sends nothing. A stream that only reads then waits forever, and one that
/// writes fails after about 15 minutes. To detect this earlier, set both a keep-alive ([`Config::keep_alive`]) and a
/// user timeout ([`Config::user_timeout`], or [`set_user_timeout`](Self::set_user_timeout) later).
///
/// # Cancel safety
///
/// Every method that takes `&self` and every read is cancel safe: if its future is dropped before it completes, it
/// has had no effect. Methods that are not cancel safe say so.
pub struct TcpStream {
    pub(crate) handle: Arc<Handle>,
}

impl TcpStream {
    /// Opens a connection to the first of `addr`'s addresses that answers. If there are several, IPv4 and IPv6
    /// addresses alternate. An attempt with the next address is started in parallel when one has failed or has not
    /// been answered within 250 ms (Happy Eyeballs, RFC 8305).
    ///
    /// Cancel safety: if the future is dropped, the attempt is abandoned and the peer discards it.
    ///
    /// # Errors
    /// Fails with the error of the address that failed last: `ConnectionRefused` if the port is closed,
    /// `HostUnreachable` or `NetworkUnreachable` if routers have reported it twice, `TimedOut` if there is no answer,
    /// or the system's error.
    pub async fn connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_with(addr, &Config::default()).await
    }

    /// Opens a connection like [`connect`](Self::connect), with its own settings. See [`TcpSocket`](crate::TcpSocket) for
    /// settings that are not in [`Config`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let listener = longhaul::TcpListener::bind("localhost:0").await?;
    /// # let port = listener.local_addr()?.port();
    /// use longhaul::{Config, TcpStream};
    ///
    /// let stream = TcpStream::connect_with(("localhost", port), Config::default().nodelay(true)).await?;
    /// # assert!(stream.nodelay()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cancel safety: the same as [`connect`](Self::connect).
    ///
    /// # Errors
    /// The errors of [`connect`](Self::connect), and `InvalidInput` for a congestion controller that must be allowed
    /// first ([`Config::allow_unsafe_congestion`]).
    pub async fn connect_with(addr: impl ToSocketAddrs, config: &Config) -> io::Result<Self> {
        let addresses: Vec<_> = tokio::net::lookup_host(addr).await?.collect();
        let attempt = |addr| Self::connect_one(addr, Setup { server: addresses.clone(), ..config.clone().into() });
        connect::race(addresses.iter().copied(), attempt).await
    }

    async fn connect_one(addr: SocketAddr, setup: Setup) -> io::Result<Self> {
        let addr = canonical(addr);
        let socket = std::net::UdpSocket::bind(unspecified(addr))?;
        connect::connect_over(socket, addr, setup).await
    }

    /// Returns the peer's address, which changes when the connection [moves](Self::relocate). After the connection has
    /// ended, it may be the one that the peer had in the beginning.
    #[doc = errors!(never)]
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.addresses()[1])
    }

    /// Returns the local address, which changes when the connection [moves](Self::relocate), as the
    /// [peer's](Self::peer_addr) does.
    #[doc = errors!(never)]
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.addresses()[0])
    }

    /// Returns a snapshot of the connection. The call takes about a microsecond.
    #[doc = errors!(gone)]
    pub fn info(&self) -> io::Result<TcpInfo> {
        let Handle { shared, id, .. } = &*self.handle;
        let state = shared.lock();
        let connection = state.endpoint.connection(*id).ok_or(io::ErrorKind::NotConnected)?;
        let ceiling = Some(connection.status().config().max_pacing_rate).filter(|rate| *rate != Rate::MAX);
        Ok(TcpInfo::new(&connection.info(Io::now()), state.stats, ceiling))
    }

    /// Returns the error that ended the connection, once.
    #[doc = errors!(never)]
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let look = |connection: &Connection| Some(from_connection(connection.status().error()?, connection));
        let error = self.handle.read_setting(look).ok().flatten();
        Ok(error.filter(|_| !self.handle.error_taken.swap(true, Ordering::Relaxed)))
    }

    /// Writes all of `data`, which is [`Bytes`] or several pieces of them, such as a header and a body in a
    /// [`chain`](Buf::chain). Pieces of at least 4 KiB are not copied to the send buffer; their buffers are kept until
    /// they have been acknowledged. Pieces of other types may be copied. The socket is locked while `data` is taken, and
    /// when buffers are dropped after their acknowledgment: the methods of `data` and the destructors of
    /// [owners](Bytes::from_owner) must not use the socket's streams.
    ///
    /// Cancel safety: this method is not cancel safe, because part of the data may have been written. To keep track of
    /// the rest, use [`poll_write_bytes`](Self::poll_write_bytes), or [`try_write_bytes`](Self::try_write_bytes) after
    /// [`writable`](Self::writable).
    ///
    /// # Errors
    /// The errors of `write_all` of `AsyncWriteExt`.
    pub async fn write_bytes(&mut self, mut data: impl Buf) -> io::Result<()> {
        while data.has_remaining() {
            poll_fn(|cx| self.poll_write_bytes(cx, &mut data)).await?;
        }
        Ok(())
    }

    /// Removes as many bytes from the front of `data` as the send buffer has room for, as [`write_bytes`](Self::write_bytes)
    /// does. Ready with the number of bytes taken.
    ///
    /// # Errors
    /// The errors of `poll_write`.
    pub fn poll_write_bytes(&mut self, cx: &mut Context<'_>, data: &mut impl Buf) -> Poll<io::Result<usize>> {
        self.handle.poll(cx, Wait::Write, |connection| connection.writer().write_bytes(data))
    }

    /// Reads up to `max` bytes without copying them. An empty result means the end of the stream. One call returns one
    /// contiguous piece of data, often one segment; [`read_chunks`](Self::read_chunks) reads many at once. As long as
    /// any part of the result is kept, its whole receive buffer of 64 KiB cannot be reused.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// The errors of `read` of `AsyncReadExt`.
    pub async fn read_bytes(&mut self, max: usize) -> io::Result<Bytes> {
        poll_fn(|cx| self.poll_read_bytes(cx, max)).await
    }

    /// Ready with up to `max` bytes, as [`read_bytes`](Self::read_bytes) returns them.
    ///
    /// # Errors
    /// The errors of `poll_read`.
    pub fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        self.handle.poll(cx, Wait::Read, |connection| connection.read(max))
    }

    /// Reads up to `max` bytes without copying them, at most 1 MiB: moves the available data to the end of `chunks` and
    /// returns its length. Zero means the end of the stream, unless `max` is zero. At high rates, this takes much less
    /// CPU time than one call of [`read_bytes`](Self::read_bytes) per piece, and less than a plain read.
    ///
    /// ```
    /// # use tokio::io::AsyncWriteExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let listener = longhaul::TcpListener::bind("127.0.0.1:0").await?;
    /// # let mut from = longhaul::TcpStream::connect(listener.local_addr()?).await?;
    /// # let (mut server, mut to) = (listener.accept().await?.0, Vec::new());
    /// # server.write_all(b"a long way").await?;
    /// # server.shutdown().await?;
    /// let mut chunks = longhaul::Chunks::default();
    /// while from.read_chunks(&mut chunks, usize::MAX).await? > 0 {
    ///     to.write_all_buf(&mut chunks).await?;
    /// }
    /// # assert_eq!(to, b"a long way");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// The errors of `read` of `AsyncReadExt`.
    pub async fn read_chunks(&mut self, chunks: &mut Chunks, max: usize) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read_chunks(cx, chunks, max)).await
    }

    /// Ready with the number of bytes that have been moved to `chunks`, as by [`read_chunks`](Self::read_chunks).
    ///
    /// # Errors
    /// The errors of `poll_read`.
    pub fn poll_read_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut Chunks,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        let max = max.min(MOVE_LIMIT);
        self.handle.poll(cx, Wait::Read, |connection| connection.reader().read_chunks(chunks, max))
    }

    /// Aborts the connection: the peer is reset and queued data is discarded. Reads and writes then fail with
    /// `ConnectionAborted`.
    pub fn abort(&self) {
        let _ = self.handle.drive(Connection::abort);
    }

    /// Waits until both directions have ended normally or the connection has failed. It does not end either direction.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// Fails with the error that ended the connection.
    pub async fn closed(&self) -> io::Result<()> {
        let mut waiting = self.handle.waiting();
        poll_fn(move |cx| self.handle.poll_closed(cx, &mut waiting)).await
    }

    /// Ends our direction of the stream and waits until the peer's TCP has acknowledged all data, which is then
    /// available to the peer's application. If the peer ends its direction within 500 ms, its FIN is also acknowledged,
    /// so the process may exit without leaving the peer waiting. It does not wait for data that the peer still sends;
    /// to read that data, call `shutdown` and read to the end first. An earlier `shutdown` is harmless.
    ///
    /// Cancel safety: if the future is dropped, the connection is ended as if the stream had been dropped.
    ///
    /// # Errors
    /// Fails if the connection failed before all data was acknowledged.
    pub async fn close(self) -> io::Result<()> {
        let ended = self.handle.end_stream();
        let is_finished = |connection: &mut Connection| {
            match (connection.status().is_finished(), connection.status().error()) {
                // Success is reported even if the connection has failed since then.
                (true, _) => Ok(()),
                (false, Some(error)) => Err(Blocked::Failed(error)),
                (false, None) => Err(Blocked::WouldBlock),
            }
        };
        let finished = poll_fn(|cx| self.handle.poll(cx, Wait::State, is_finished)).await;
        // Acknowledged data remains acknowledged even if the connection has failed since then.
        finished.or(ended)?;
        let _ = tokio::time::timeout(LAST_ACK_PATIENCE, self.closed()).await;
        Ok(())
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let act = |connection: &mut Connection| read_into(connection, room(connection, buf));
        let read = ready!(self.handle.poll(cx, Wait::Read, act))?;
        buf.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let part = &data[..data.len().min(COPY_LIMIT)];
        self.handle.poll(cx, Wait::Write, |connection| connection.write(part))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.handle.poll(cx, Wait::Write, |connection| write_vectored(connection, data))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.handle.end_stream())
    }
}

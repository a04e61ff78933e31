//! Readiness and non-blocking operations.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut};
use longhaul_tcp::Connection;
use tokio::io::{Interest, ReadBuf, Ready};

use super::TcpStream;
use crate::handle::COPY_LIMIT;
use crate::handle::ops::{peek, read_into, read_vectored, readiness, room, write_vectored};
use crate::waiters::Wait;

/// Maximum number of bytes that are read into a growable buffer: the size of one receive buffer.
const GROWTH: usize = 64 << 10;

impl TcpStream {
    /// Waits until the stream is ready for `interest` or an operation would fail. The result describes the connection
    /// at the time of the return; readiness need not be cleared by a failed operation.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// Fails if the UDP socket has failed or the runtime has ended. A failed connection counts as ready, and the next
    /// operation returns its error.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let mut waiting = self.handle.waiting();
        poll_fn(move |cx| self.handle.poll_ready(cx, interest, Some(&mut waiting))).await
    }

    /// Waits until a read would return data, the end of the stream, or an error.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// The errors of [`ready`](Self::ready).
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until a write would accept data or fail.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// The errors of [`ready`](Self::ready).
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Polls for read readiness, like [`readable`](Self::readable). If several tasks poll, the last one is woken.
    ///
    /// # Errors
    /// The errors of [`ready`](Self::ready).
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.poll_ready(cx, Interest::READABLE, None).map_ok(drop)
    }

    /// Polls for write readiness, like [`writable`](Self::writable). If several tasks poll, the last one is woken.
    ///
    /// # Errors
    /// The errors of [`ready`](Self::ready).
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.poll_ready(cx, Interest::WRITABLE, None).map_ok(drop)
    }

    /// Runs `operation`, which should read or write this stream, if the stream is ready for `interest`. Unlike with
    /// tokio, readiness does not have to be cleared: it always describes the current state of the connection.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if the stream is not ready; otherwise returns the result of `operation`.
    pub fn try_io<R>(&self, interest: Interest, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let ready = self.handle.attempt(|connection| Ok(readiness(connection, interest)))?;
        if ready.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { operation() }
    }

    /// Runs `operation`, which should read or write this stream, whenever the stream is ready for `interest`, until
    /// it returns something other than `WouldBlock`.
    ///
    /// Cancel safety: this method is as cancel safe as `operation`.
    ///
    /// # Errors
    /// Returns the error of `operation`, or fails like [`ready`](Self::ready).
    pub async fn async_io<R>(&self, interest: Interest, mut operation: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        loop {
            self.ready(interest).await?;
            match operation() {
                // The operation may need more than is available: so let other tasks run first.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                result => return result,
            }
        }
    }

    /// Reads without waiting.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if no data is available; otherwise like `read`.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let limit = buf.len().min(COPY_LIMIT);
        self.handle.attempt(|connection| read_into(connection, &mut buf[..limit]))
    }

    /// Reads into several buffers without waiting.
    ///
    /// # Errors
    /// The errors of [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.handle.attempt(|connection| read_vectored(connection, bufs))
    }

    /// Reads into the spare capacity of `buf` without waiting.
    ///
    /// # Errors
    /// The errors of [`try_read`](Self::try_read).
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        let max = buf.remaining_mut().min(GROWTH);
        let data = self.handle.attempt(|connection| connection.read(max))?;
        buf.put_slice(&data);
        Ok(data.len())
    }

    /// Writes without waiting, possibly only a part of `buf`.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if the send buffer is full; otherwise like `write`.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        let part = &buf[..buf.len().min(COPY_LIMIT)];
        self.handle.attempt(|connection| connection.write(part))
    }

    /// Writes several buffers without waiting.
    ///
    /// # Errors
    /// The errors of [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.handle.attempt(|connection| write_vectored(connection, bufs))
    }

    /// Removes as many bytes from the front of `data` as the send buffer has room for, without waiting. As in
    /// [`write_bytes`](Self::write_bytes), large pieces are kept by reference.
    ///
    /// # Errors
    /// The errors of [`try_write`](Self::try_write).
    pub fn try_write_bytes(&self, data: &mut impl Buf) -> io::Result<usize> {
        self.handle.attempt(|connection| connection.writer().write_bytes(data))
    }

    /// Reads data without removing it from the stream. Zero means the end of the stream.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// The errors of `read`.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let limit = buf.len().min(COPY_LIMIT);
        self.async_io(Interest::READABLE, || self.handle.attempt(|connection| peek(connection, &mut buf[..limit])))
            .await
    }

    /// Polls for data without removing it, like [`peek`](Self::peek). If several tasks poll, the last one is woken.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let act = |connection: &mut Connection| peek(connection, room(connection, buf));
        let seen = ready!(self.handle.poll(cx, Wait::Read, act))?;
        buf.advance(seen);
        Poll::Ready(Ok(seen))
    }
}

//! Readiness and non-blocking operations.

use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll};

use bytes::{Buf, BufMut};
use tokio::io::{Interest, ReadBuf, Ready};

use super::TcpStream;

impl TcpStream {
    /// Waits until the stream is ready for `interest` or an operation would fail. The result describes the connection
    /// at the moment of the return; no failed operation is needed to clear readiness.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// Fails if the UDP socket has failed or the runtime has ended. A failed connection counts as ready, and the next
    /// operation returns its error.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.handle.ready(interest).await
    }

    /// Waits until a read would return data, the end of the stream, or an error.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// The same as [`ready`](Self::ready).
    pub async fn readable(&self) -> io::Result<()> {
        self.handle.readable().await
    }

    /// Waits until a write would accept data or fail.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// The same as [`ready`](Self::ready).
    pub async fn writable(&self) -> io::Result<()> {
        self.handle.writable().await
    }

    /// Polls for read readiness, like [`readable`](Self::readable). If several tasks poll, the last one is woken.
    ///
    /// # Errors
    /// The same as [`ready`](Self::ready).
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.poll_ready(cx, Interest::READABLE, None).map_ok(drop)
    }

    /// Polls for write readiness, like [`writable`](Self::writable). If several tasks poll, the last one is woken.
    ///
    /// # Errors
    /// The same as [`ready`](Self::ready).
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.poll_ready(cx, Interest::WRITABLE, None).map_ok(drop)
    }

    /// Runs `operation`, which should read or write this stream, if the stream is ready for `interest`. Unlike with
    /// tokio, readiness does not have to be cleared: it always describes the current state of the connection.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if the stream is not ready; otherwise returns the result of `operation`.
    pub fn try_io<R>(&self, interest: Interest, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.handle.try_io(interest, operation)
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
                // The operation may need more than is available: let other tasks run first.
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
        self.handle.try_read(buf)
    }

    /// Reads into several buffers without waiting.
    ///
    /// # Errors
    /// The same as [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.handle.try_read_vectored(bufs)
    }

    /// Reads into the spare capacity of `buf` without waiting.
    ///
    /// # Errors
    /// The same as [`try_read`](Self::try_read).
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.handle.try_read_buf(buf)
    }

    /// Writes without waiting, possibly only a part of `buf`.
    ///
    /// # Errors
    /// Fails with `WouldBlock` if the send buffer is full; otherwise like `write`.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.handle.try_write(buf)
    }

    /// Writes several buffers without waiting.
    ///
    /// # Errors
    /// The same as [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.handle.try_write_vectored(bufs)
    }

    /// Removes as many bytes from the front of `data` as the send buffer has room for, without waiting. As in
    /// [`write_bytes`](Self::write_bytes), large pieces are kept by reference.
    ///
    /// # Errors
    /// The same as [`try_write`](Self::try_write).
    pub fn try_write_bytes(&self, data: &mut impl Buf) -> io::Result<usize> {
        self.handle.try_write_bytes(data)
    }

    /// Reads data without removing it from the stream. Zero means the end of the stream.
    ///
    /// Cancel safety: this method is cancel safe.
    ///
    /// # Errors
    /// The same as `read`.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.handle.peek(buf).await
    }

    /// Polls for data without removing it, like [`peek`](Self::peek). If several tasks poll, the last one is woken.
    ///
    /// # Errors
    /// The same as `read`.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        self.handle.poll_peek(cx, buf)
    }
}

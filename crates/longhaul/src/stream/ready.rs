//! Readiness, and operations that do not wait.

use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes};
use tokio::io::{Interest, ReadBuf, Ready};

use super::TcpStream;
use crate::handle::Handle;

impl TcpStream {
    /// Waits until something of `interest` can be done, or is known to fail. Readiness is the connection's at the
    /// moment of the answer; nothing has to be tried to clear it.
    ///
    /// Cancel safety: cancel safe.
    ///
    /// # Errors
    /// When the socket or the runtime is gone. That the connection failed is readiness: the next operation tells.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        ready(&self.handle, interest).await
    }

    /// Waits until a read would give data, the end of the stream or an error.
    ///
    /// Cancel safety: cancel safe.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until a write would take data, or fail.
    ///
    /// Cancel safety: cancel safe.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// As [`readable`](Self::readable), for those who poll.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.poll_ready(cx, Interest::READABLE).map_ok(drop)
    }

    /// As [`writable`](Self::writable), for those who poll.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.poll_ready(cx, Interest::WRITABLE).map_ok(drop)
    }

    /// Runs `operation`, which is to read or write this stream, if something of `interest` can be done now. Unlike tokio's,
    /// readiness needs no clearing: it is the connection's at the moment.
    ///
    /// # Errors
    /// `WouldBlock` if nothing can be done; else what `operation` returns.
    pub fn try_io<R>(&self, interest: Interest, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.handle.try_io(interest, operation)
    }

    /// Runs `operation`, which is to read or write this stream, each time that something of `interest` can be done, until it
    /// returns something else than `WouldBlock`.
    ///
    /// Cancel safety: cancel safe, as far as `operation` is.
    ///
    /// # Errors
    /// What `operation` returns; as [`ready`](Self::ready).
    pub async fn async_io<R>(&self, interest: Interest, mut operation: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        loop {
            self.ready(interest).await?;
            match operation() {
                // It may want more than is there. Others go first.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                result => return result,
            }
        }
    }

    /// Reads without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived; else as `read`.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.handle.try_read(buf)
    }

    /// Reads into several buffers without waiting.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.handle.try_read_vectored(bufs)
    }

    /// Reads into what room `buf` has without waiting.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        try_read_buf(&self.handle, buf)
    }

    /// Writes without waiting; what was taken may be less than `buf`.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; else as `write`.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.handle.try_write(buf)
    }

    /// Writes several buffers without waiting.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.handle.try_write_vectored(bufs)
    }

    /// Takes as much from the front of `data` as there is room for, without waiting and without copying large pieces.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    pub fn try_write_bytes(&self, data: &mut Bytes) -> io::Result<usize> {
        self.handle.try_write_bytes(data)
    }

    /// Reads and leaves what was read to be read again. Zero is the end of the stream.
    ///
    /// Cancel safety: cancel safe.
    ///
    /// # Errors
    /// As `read`.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        peek(&self.handle, buf).await
    }

    /// As [`peek`](Self::peek), for those who poll.
    ///
    /// # Errors
    /// As `read`.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        poll_peek(&self.handle, cx, buf)
    }
}

pub(super) async fn ready(handle: &Handle, interest: Interest) -> io::Result<Ready> {
    std::future::poll_fn(|cx| handle.poll_ready(cx, interest)).await
}

pub(super) async fn peek(handle: &Handle, buf: &mut [u8]) -> io::Result<usize> {
    std::future::poll_fn(|cx| handle.poll_peek(cx, buf)).await
}

pub(super) fn poll_peek(handle: &Handle, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
    let seen = ready!(handle.poll_peek(cx, buf.initialize_unfilled()))?;
    buf.advance(seen);
    Poll::Ready(Ok(seen))
}

pub(super) fn try_read_buf<B: BufMut>(handle: &Handle, buf: &mut B) -> io::Result<usize> {
    /// What a growing buffer is given room for: as much as one receive buffer holds.
    const MAX: usize = 64 << 10;
    let data = handle.try_read_bytes(buf.remaining_mut().min(MAX))?;
    buf.put_slice(&data);
    Ok(data.len())
}

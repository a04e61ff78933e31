//! Owned halves of a stream.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

use super::TcpStream;
use super::buffered::{Buffered, async_buf_read};
use super::split::{address_methods, async_write, delegate, read_methods, write_methods};
use crate::chunks::Chunks;

/// The read half of a stream, from [`TcpStream::into_split`]. Its `AsyncBufRead` shows received data without a copy, so
/// that `tokio::io::copy_buf` copies it once less than `copy`.
pub struct OwnedReadHalf {
    stream: Arc<TcpStream>,
    buffered: Buffered,
}

/// The write half of a stream, from [`TcpStream::into_split`]. Dropping it ends our direction, as `shutdown` does,
/// unless it is [forgotten](OwnedWriteHalf::forget).
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
    end_on_drop: bool,
}

/// The error for an attempt to reunite halves of different streams; it contains both halves.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "both halves are given back, as by tokio's error")]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl std::fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tried to reunite halves that are not from the same stream")
    }
}

impl std::error::Error for ReuniteError {}

impl TcpStream {
    /// Splits the stream into two halves that can be used in different tasks.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        (
            OwnedReadHalf { stream: Arc::clone(&stream), buffered: Buffered::default() },
            OwnedWriteHalf { stream, end_on_drop: true },
        )
    }
}

fn reunite(read: OwnedReadHalf, mut write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
    if !Arc::ptr_eq(&read.stream, &write.stream) {
        return Err(ReuniteError(read, write));
    }
    write.end_on_drop = false;
    let handle = Arc::clone(&read.stream.handle);
    Ok(TcpStream { handle })
}

impl OwnedReadHalf {
    /// Reunites the halves of a stream.
    ///
    /// # Errors
    /// Fails if `other` belongs to another stream.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        reunite(self, other)
    }

    read_methods!();
    address_methods!();
}

impl OwnedWriteHalf {
    /// Reunites the halves of a stream.
    ///
    /// # Errors
    /// Fails if `other` belongs to another stream.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        reunite(other, self)
    }

    /// Drops this half without ending our direction, which then ends when the other half is dropped.
    pub fn forget(mut self) {
        self.end_on_drop = false;
    }

    write_methods!();
    address_methods!();
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.end_on_drop {
            // An error is reported to the reader.
            let _ = self.stream.handle.end_stream();
        }
    }
}

impl AsRef<TcpStream> for OwnedReadHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsRef<TcpStream> for OwnedWriteHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsyncRead for OwnedReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.handle.poll_read(cx, buf)
    }
}

impl AsyncBufRead for OwnedReadHalf {
    async_buf_read!(buffered, stream.handle);
}

impl AsyncWrite for OwnedWriteHalf {
    async_write!(stream.handle);
}

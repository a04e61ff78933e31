//! Halves of a stream, borrowed and owned.

use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes};
use longhaul_tcp::Chunks;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

use super::TcpStream;
use crate::waiters::Wait;

/// The read half of a borrowed stream, from [`TcpStream::split`]. Its `AsyncBufRead` gives access to received data
/// without a copy.
pub struct ReadHalf<'a> {
    stream: TcpStream,
    buffered: Buffered,
    borrowed: PhantomData<&'a TcpStream>,
}

/// The write half of a borrowed stream, from [`TcpStream::split`]. Dropping it does not end the stream.
pub struct WriteHalf<'a> {
    stream: TcpStream,
    borrowed: PhantomData<&'a TcpStream>,
}

/// The read half of a stream, from [`TcpStream::into_split`]. Its `AsyncBufRead` gives access to received data without
/// a copy, so `tokio::io::copy_buf` makes one copy less than `copy`.
pub struct OwnedReadHalf {
    stream: TcpStream,
    buffered: Buffered,
}

/// The write half of a stream, from [`TcpStream::into_split`]. Dropping it ends our direction, as `shutdown` does,
/// unless it is [forgotten](OwnedWriteHalf::forget).
pub struct OwnedWriteHalf {
    stream: TcpStream,
    end_on_drop: bool,
}

/// Error for an attempt to reunite halves of different streams; it contains both halves.
#[derive(Debug, thiserror::Error)]
#[error("tried to reunite halves that are not from the same stream")]
#[expect(clippy::exhaustive_structs, reason = "both halves are given back, as by tokio's error")]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

/// Data that a read half has returned to its reader as a reference to a receive buffer. Until the reader consumes it,
/// it is unread data of the connection and counts towards the memory limits. Dropping it loses no data.
#[derive(Default)]
struct Buffered {
    data: Bytes,
    /// Offset of the data in the stream.
    start: u64,
}

impl Buffered {
    fn poll_fill(&mut self, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        // The half may have been read in another way since then.
        self.data = Bytes::new();
        let front = stream.handle.poll(cx, Wait::Read, |connection| connection.reader().front());
        (self.start, self.data) = ready!(front)?;
        Poll::Ready(Ok(&self.data))
    }

    fn consume(&mut self, stream: &TcpStream, len: usize) {
        let len = len.min(self.data.len());
        if len == 0 {
            return;
        }
        self.data.advance(len);
        self.start += len as u64;
        if self.data.is_empty() {
            // Release the receive buffer.
            self.data = Bytes::new();
        }
        let _ = stream.handle.drive(|connection| connection.reader().consume_to(self.start));
    }
}

impl TcpStream {
    /// Splits the stream into two halves that can be used concurrently within one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        let (reader, writer) = self.two();
        (
            ReadHalf { stream: reader, buffered: Buffered::default(), borrowed: PhantomData },
            WriteHalf { stream: writer, borrowed: PhantomData },
        )
    }

    /// Splits the stream into two halves that can be used in different tasks.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let (reader, writer) = self.two();
        (
            OwnedReadHalf { stream: reader, buffered: Buffered::default() },
            OwnedWriteHalf { stream: writer, end_on_drop: true },
        )
    }

    fn two(&self) -> (Self, Self) {
        (Self { handle: Arc::clone(&self.handle) }, Self { handle: Arc::clone(&self.handle) })
    }
}

/// Methods of a half that call the stream's methods of the same names.
macro_rules! delegate {
    ($(fn $name:ident($half:ident: $receiver:ty $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {$(
        #[doc = concat!("See [`TcpStream::", stringify!($name), "`].")]
        ///
        /// # Errors
        #[doc = concat!("The same as [`TcpStream::", stringify!($name), "`].")]
        pub fn $name($half: $receiver $(, $arg: $type)*) -> $out {
            $half.stream.$name($($arg),*)
        }
    )*};
    ($(async fn $name:ident($half:ident: $receiver:ty $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {$(
        #[doc = concat!("See [`TcpStream::", stringify!($name), "`]. It is cancel safe.")]
        ///
        /// # Errors
        #[doc = concat!("The same as [`TcpStream::", stringify!($name), "`].")]
        pub async fn $name($half: $receiver $(, $arg: $type)*) -> $out {
            $half.stream.$name($($arg),*).await
        }
    )*};
}

/// Methods and traits of both kinds of read halves.
macro_rules! read_half {
    ($half:ty) => {
        impl $half {
            delegate! {
                async fn peek(self: &mut Self, buf: &mut [u8]) -> io::Result<usize>;
                async fn read_bytes(self: &mut Self, max: usize) -> io::Result<Bytes>;
                async fn read_chunks(self: &mut Self, chunks: &mut Chunks, max: usize) -> io::Result<usize>;
                async fn ready(self: &Self, interest: Interest) -> io::Result<Ready>;
                async fn readable(self: &Self) -> io::Result<()>;
            }
            delegate! {
                fn poll_peek(self: &mut Self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>>;
                fn poll_read_bytes(self: &mut Self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>>;
                fn poll_read_chunks(
                    self: &mut Self, cx: &mut Context<'_>, chunks: &mut Chunks, max: usize
                ) -> Poll<io::Result<usize>>;
                fn try_read(self: &Self, buf: &mut [u8]) -> io::Result<usize>;
                fn try_read_vectored(self: &Self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
            }

            /// See [`TcpStream::try_read_buf`].
            ///
            /// # Errors
            /// The errors of [`TcpStream::try_read_buf`].
            pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                self.stream.try_read_buf(buf)
            }
        }

        half!($half);

        impl AsyncRead for $half {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
            }
        }

        impl AsyncBufRead for $half {
            fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
                let half = self.get_mut();
                half.buffered.poll_fill(&half.stream, cx)
            }

            fn consume(self: Pin<&mut Self>, len: usize) {
                let half = self.get_mut();
                half.buffered.consume(&half.stream, len);
            }
        }
    };
}

/// Methods and traits of both kinds of write halves.
macro_rules! write_half {
    ($half:ty) => {
        impl $half {
            /// See [`TcpStream::write_bytes`]. It is not cancel safe.
            ///
            /// # Errors
            /// The errors of [`TcpStream::write_bytes`].
            pub async fn write_bytes(&mut self, data: impl Buf) -> io::Result<()> {
                self.stream.write_bytes(data).await
            }

            delegate! {
                async fn ready(self: &Self, interest: Interest) -> io::Result<Ready>;
                async fn writable(self: &Self) -> io::Result<()>;
            }
            delegate! {
                fn poll_write_bytes(self: &mut Self, cx: &mut Context<'_>, data: &mut impl Buf) -> Poll<io::Result<usize>>;
                fn try_write(self: &Self, buf: &[u8]) -> io::Result<usize>;
                fn try_write_vectored(self: &Self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;
            }
        }

        half!($half);

        impl AsyncWrite for $half {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.get_mut().stream).poll_write(cx, data)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                data: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, data)
            }

            fn is_write_vectored(&self) -> bool {
                self.stream.is_write_vectored()
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.get_mut().stream).poll_flush(cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
            }
        }
    };
}

/// Methods and traits of all halves.
macro_rules! half {
    ($half:ty) => {
        impl $half {
            /// Returns the peer's address.
            #[doc = errors!(never)]
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.stream.peer_addr()
            }

            /// Returns the local address.
            #[doc = errors!(never)]
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.stream.local_addr()
            }
        }

        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.stream
            }
        }
    };
}

read_half!(ReadHalf<'_>);
read_half!(OwnedReadHalf);
write_half!(WriteHalf<'_>);
write_half!(OwnedWriteHalf);

fn reunite(read: OwnedReadHalf, mut write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
    if !Arc::ptr_eq(&read.stream.handle, &write.stream.handle) {
        return Err(ReuniteError(read, write));
    }
    write.end_on_drop = false;
    Ok(read.stream)
}

impl OwnedReadHalf {
    /// Reunites the halves of a stream.
    ///
    /// # Errors
    /// Fails if `other` belongs to another stream.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        reunite(self, other)
    }
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
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.end_on_drop {
            // An error is reported to the reader.
            let _ = self.stream.handle.end_stream();
        }
    }
}

//! Borrowed halves of a stream.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

use super::buffered::{Buffered, async_buf_read};
use super::{TcpStream, ready};
use crate::chunks::Chunks;

/// The read half of a borrowed stream, from [`TcpStream::split`]. Its `AsyncBufRead` shows received data without a copy.
pub struct ReadHalf<'a>(&'a TcpStream, Buffered);

/// The write half of a borrowed stream, from [`TcpStream::split`]. Dropping it does not end the stream.
pub struct WriteHalf<'a>(&'a TcpStream);

impl TcpStream {
    /// Splits the stream into two halves that can be used concurrently within one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf(self, Buffered::default()), WriteHalf(self))
    }
}

/// Methods that a read half and the stream have in common.
macro_rules! read_methods {
    ($stream:tt) => {
        /// See [`TcpStream::poll_peek`].
        ///
        /// # Errors
        /// The same as [`TcpStream::poll_peek`].
        pub fn poll_peek(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
            ready::poll_peek(&self.$stream.handle, cx, buf)
        }

        /// See [`TcpStream::peek`]. It is cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::peek`].
        pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            ready::peek(&self.$stream.handle, buf).await
        }

        /// See [`TcpStream::read_bytes`]. It is cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::read_bytes`].
        pub async fn read_bytes(&mut self, max: usize) -> io::Result<Bytes> {
            poll_fn(|cx| self.poll_read_bytes(cx, max)).await
        }

        /// See [`TcpStream::poll_read_bytes`].
        ///
        /// # Errors
        /// The same as [`TcpStream::poll_read_bytes`].
        pub fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
            self.$stream.handle.poll_read_bytes(cx, max)
        }

        /// See [`TcpStream::read_chunks`]. It is cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::read_chunks`].
        pub async fn read_chunks(&mut self, chunks: &mut Chunks, max: usize) -> io::Result<usize> {
            poll_fn(|cx| self.poll_read_chunks(cx, chunks, max)).await
        }

        /// See [`TcpStream::poll_read_chunks`].
        ///
        /// # Errors
        /// The same as [`TcpStream::poll_read_chunks`].
        pub fn poll_read_chunks(
            &mut self,
            cx: &mut Context<'_>,
            chunks: &mut Chunks,
            max: usize,
        ) -> Poll<io::Result<usize>> {
            self.$stream.handle.poll_read_chunks(cx, chunks, max)
        }

        /// See [`TcpStream::ready`]. It is cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::ready`].
        pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
            ready::ready(&self.$stream.handle, interest).await
        }

        /// See [`TcpStream::readable`]. It is cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::readable`].
        pub async fn readable(&self) -> io::Result<()> {
            self.ready(Interest::READABLE).await.map(drop)
        }

        /// See [`TcpStream::try_read`].
        ///
        /// # Errors
        /// The same as [`TcpStream::try_read`].
        pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
            self.$stream.handle.try_read(buf)
        }

        /// See [`TcpStream::try_read_vectored`].
        ///
        /// # Errors
        /// The same as [`TcpStream::try_read_vectored`].
        pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            self.$stream.handle.try_read_vectored(bufs)
        }

        /// See [`TcpStream::try_read_buf`].
        ///
        /// # Errors
        /// The same as [`TcpStream::try_read_buf`].
        pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
            ready::try_read_buf(&self.$stream.handle, buf)
        }
    };
}

/// Methods that a write half and the stream have in common.
macro_rules! write_methods {
    ($stream:tt) => {
        /// See [`TcpStream::write_bytes`]. It is not cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::write_bytes`].
        pub async fn write_bytes(&mut self, data: impl Buf) -> io::Result<()> {
            self.$stream.handle.write_bytes(data).await
        }

        /// See [`TcpStream::poll_write_bytes`].
        ///
        /// # Errors
        /// The same as [`TcpStream::poll_write_bytes`].
        pub fn poll_write_bytes(&mut self, cx: &mut Context<'_>, data: &mut impl Buf) -> Poll<io::Result<usize>> {
            self.$stream.handle.poll_write_bytes(cx, data)
        }

        /// See [`TcpStream::ready`]. It is cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::ready`].
        pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
            ready::ready(&self.$stream.handle, interest).await
        }

        /// See [`TcpStream::writable`]. It is cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::writable`].
        pub async fn writable(&self) -> io::Result<()> {
            self.ready(Interest::WRITABLE).await.map(drop)
        }

        /// See [`TcpStream::try_write`].
        ///
        /// # Errors
        /// The same as [`TcpStream::try_write`].
        pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
            self.$stream.handle.try_write(buf)
        }

        /// See [`TcpStream::try_write_vectored`].
        ///
        /// # Errors
        /// The same as [`TcpStream::try_write_vectored`].
        pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            self.$stream.handle.try_write_vectored(bufs)
        }
    };
}

/// Address methods of a stream or half; the argument is the path to the handle.
macro_rules! address_methods {
    ($($handle:tt).+) => {
        /// Returns the peer's address.
        ///
        /// # Errors
        /// Never fails; it returns a `Result` for compatibility with tokio.
        pub fn peer_addr(&self) -> io::Result<SocketAddr> {
            Ok(self.$($handle).+.peer)
        }

        /// Returns the local address.
        ///
        /// # Errors
        /// Never fails; it returns a `Result` for compatibility with tokio.
        pub fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(self.$($handle).+.local)
        }
    };
}

/// `AsyncWrite` methods of a stream or write half; the argument is the path to the handle.
macro_rules! async_write {
    ($($handle:tt).+) => {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
            self.$($handle).+.poll_write(cx, data)
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            data: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.$($handle).+.poll_write_vectored(cx, data)
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(self.$($handle).+.end_stream())
        }
    };
}

pub(super) use {address_methods, async_write, read_methods, write_methods};

impl ReadHalf<'_> {
    read_methods!(0);
    address_methods!(0.handle);
}

impl WriteHalf<'_> {
    write_methods!(0);
    address_methods!(0.handle);
}

impl AsRef<TcpStream> for ReadHalf<'_> {
    fn as_ref(&self) -> &TcpStream {
        self.0
    }
}

impl AsRef<TcpStream> for WriteHalf<'_> {
    fn as_ref(&self) -> &TcpStream {
        self.0
    }
}

impl AsyncRead for ReadHalf<'_> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.handle.poll_read(cx, buf)
    }
}

impl AsyncBufRead for ReadHalf<'_> {
    async_buf_read!(1, 0.handle);
}

impl AsyncWrite for WriteHalf<'_> {
    async_write!(0.handle);
}

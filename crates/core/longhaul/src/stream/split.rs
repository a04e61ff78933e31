//! Borrowed halves of a stream.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

use super::TcpStream;
use super::buffered::{Buffered, async_buf_read};
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

/// Methods of a half that are those of the handle with the same names.
macro_rules! delegate {
    ($(fn $name:ident($half:ident: $receiver:ty $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {$(
        #[doc = concat!("See [`TcpStream::", stringify!($name), "`].")]
        ///
        /// # Errors
        #[doc = concat!("The same as [`TcpStream::", stringify!($name), "`].")]
        pub fn $name($half: $receiver $(, $arg: $type)*) -> $out {
            $half.as_ref().handle.$name($($arg),*)
        }
    )*};
    ($(async fn $name:ident($half:ident: $receiver:ty $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {$(
        #[doc = concat!("See [`TcpStream::", stringify!($name), "`]. It is cancel safe.")]
        ///
        /// # Errors
        #[doc = concat!("The same as [`TcpStream::", stringify!($name), "`].")]
        pub async fn $name($half: $receiver $(, $arg: $type)*) -> $out {
            $half.as_ref().handle.$name($($arg),*).await
        }
    )*};
}

/// Methods of a read half.
macro_rules! read_methods {
    () => {
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
        /// The same as [`TcpStream::try_read_buf`].
        pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
            self.as_ref().handle.try_read_buf(buf)
        }
    };
}

/// Methods of a write half.
macro_rules! write_methods {
    () => {
        /// See [`TcpStream::write_bytes`]. It is not cancel safe.
        ///
        /// # Errors
        /// The same as [`TcpStream::write_bytes`].
        pub async fn write_bytes(&mut self, data: impl Buf) -> io::Result<()> {
            self.as_ref().handle.write_bytes(data).await
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
    };
}

/// Address methods of a stream or half.
macro_rules! address_methods {
    () => {
        /// Returns the peer's address.
        #[doc = errors!(never)]
        pub fn peer_addr(&self) -> io::Result<SocketAddr> {
            let stream: &TcpStream = self.as_ref();
            Ok(stream.handle.peer)
        }

        /// Returns the local address.
        #[doc = errors!(never)]
        pub fn local_addr(&self) -> io::Result<SocketAddr> {
            let stream: &TcpStream = self.as_ref();
            Ok(stream.handle.local)
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

pub(super) use {address_methods, async_write, delegate, read_methods, write_methods};

impl ReadHalf<'_> {
    read_methods!();
    address_methods!();
}

impl WriteHalf<'_> {
    write_methods!();
    address_methods!();
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

//! A stream whose two directions are used independently by the same task, while others can inspect it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sync::lock;

/// One of two handles of a stream. Unlike with `tokio::io::split`, the stream remains accessible.
#[derive(Debug)]
pub(super) struct Side<S>(Arc<Mutex<Option<S>>>);

/// Handle that does not keep the stream open.
pub(crate) struct Watch<S>(Weak<Mutex<Option<S>>>);

impl<S> Side<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Some(stream))))
    }

    pub(super) fn other(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(super) fn inspect<T>(&self, f: impl FnOnce(&S) -> T) -> Option<T> {
        lock(&self.0).as_ref().map(f)
    }

    pub(super) fn watch(&self) -> Watch<S> {
        Watch(Arc::downgrade(&self.0))
    }

    /// Takes the stream out of all its handles, whose operations fail afterwards.
    pub(super) fn into_inner(self) -> Option<S> {
        lock(&self.0).take()
    }

    fn with<T>(&self, f: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>>
    where
        S: Unpin,
    {
        match lock(&self.0).as_mut() {
            Some(stream) => f(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<S> Watch<S> {
    /// Calls `f` with the stream, unless it has ended.
    pub(crate) fn inspect<T>(&self, f: impl FnOnce(&S) -> T) -> Option<T> {
        let stream = self.0.upgrade()?;
        lock(&stream).as_ref().map(f)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Side<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(cx, buf))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Side<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(cx, data))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}

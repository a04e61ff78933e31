//! A stream whose two directions are used independently by the same task.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Returns two handles of a stream. Other than with `tokio::io::split`, the stream stays accessible.
pub(super) fn split<S>(stream: S) -> (Side<S>, Side<S>) {
    let stream = Arc::new(Mutex::new(stream));
    (Side(Arc::clone(&stream)), Side(stream))
}

/// A handle of the stream.
#[derive(Debug)]
pub(super) struct Side<S>(Arc<Mutex<S>>);

impl<S> Side<S> {
    pub(super) fn inspect<T>(&self, f: impl FnOnce(&S) -> T) -> T {
        f(&self.lock())
    }

    /// Returns the stream if the other handle has been dropped.
    pub(super) fn into_inner(self) -> Option<S> {
        Some(Arc::into_inner(self.0)?.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Side<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Side<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(cx)
    }
}

//! Stream wrapper that limits the number of bytes read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use longhaul::TcpStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::TlsError;

/// Maximum time to wait for the peer's close after a failed handshake.
const FAREWELL: Duration = Duration::from_secs(5);

/// Length in bytes of the longest record (RFC 8446, section 5.2), including its header.
const RECORD: usize = 5 + (16 << 10) + 256;

/// A stream that fails when the peer has sent more than a limit.
#[derive(Debug)]
pub(crate) struct Metered {
    pub(crate) stream: TcpStream,
    limit: usize,
    left: Option<usize>,
}

impl Metered {
    /// Limits the bytes of a handshake that can be read from `stream`. In addition, a record of data can be read: the
    /// TLS library reads it to its end if it arrives together with the last message of the handshake.
    pub(crate) fn new(stream: TcpStream, limit: usize) -> Self {
        Self { stream, limit, left: Some(limit.saturating_add(RECORD)) }
    }

    pub(crate) fn unlimited(stream: TcpStream) -> Self {
        Self { stream, limit: 0, left: None }
    }

    /// Removes the limit, because the peer has been authenticated.
    pub(crate) fn trust(&mut self) {
        self.left = None;
    }

    /// Shuts down this direction after a failed handshake and discards data that the peer still sends, because a reset
    /// caused by unread data could overtake the TLS alert. The connection is aborted if the peer does not close it in
    /// time.
    pub(crate) async fn finish(&mut self) {
        let farewell = async {
            self.stream.shutdown().await?;
            let mut waste = [0; 4096];
            while self.stream.read(&mut waste).await? > 0 {}
            self.stream.closed().await
        };
        // The handshake has already failed, and that error is the one to report.
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(left) = self.left else { return Pin::new(&mut self.stream).poll_read(cx, buf) };
        if left == 0 {
            return Poll::Ready(Err(TlsError::TooLarge(self.limit).into()));
        }
        let room = buf.remaining().min(left);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut part);
        let filled = part.filled().len();
        buf.advance(filled);
        self.left = Some(left - filled);
        read
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

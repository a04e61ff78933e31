//! Encrypted streams.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use longhaul::{TcpInfo, TcpStream};
use rustls::HandshakeKind;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::TlsStream;

use crate::metered::Metered;
use crate::verify::Grounds;
use crate::{Fingerprint, TlsError, moving};

/// An encrypted connection to a peer with a known key.
///
/// Written data may stay in a buffer until [`flush`](AsyncWriteExt::flush). If the peer, or an attacker, ends the
/// connection without TLS's `close_notify`, reads fail with `UnexpectedEof`; for other failures of TLS,
/// [`tls_error`](crate::tls_error) returns the cause.
pub struct SecureStream {
    tls: TlsStream<Metered>,
    peer: Fingerprint,
    grounds: Grounds,
}

/// Shows the connection's addresses and state, and the peer's key.
impl fmt::Debug for SecureStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureStream").field("tcp", self.tcp()).field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl SecureStream {
    pub(crate) fn new(mut tls: TlsStream<Metered>) -> Result<Self, TlsError> {
        let certificate = tls.get_ref().1.peer_certificates().and_then(<[_]>::first).ok_or(TlsError::KeyType)?;
        let peer = Fingerprint::of(certificate)?;
        tls.get_mut().0.trust();
        let stream = Self { tls, peer, grounds: Grounds::Key };
        let session = stream.tls.get_ref().1;
        if session.alpn_protocol() == Some(moving::PROTOCOL) {
            let is_client = matches!(stream.tls, TlsStream::Client(_));
            stream.tcp().set_mobility(moving::mobility(&stream.export_bytes(moving::LABEL)?, is_client));
        }
        Ok(stream)
    }

    /// Returns the key of the peer.
    #[must_use]
    pub fn peer(&self) -> Fingerprint {
        self.peer
    }

    /// Records why the listener accepted the peer.
    pub(crate) fn on(self, grounds: Grounds) -> Self {
        Self { grounds, ..self }
    }

    /// Returns whether a listener accepted the peer only because an authority has signed its certificate.
    #[must_use]
    pub fn is_vouched_for(&self) -> bool {
        self.grounds == Grounds::Authority
    }

    /// Returns the certificates that the peer presented, its own first.
    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        self.tls.get_ref().1.peer_certificates().unwrap_or_default()
    }

    /// Returns whether the handshake resumed an earlier session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.tls.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the TCP connection that carries this stream. Reading from it or writing to it would destroy the stream.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.tls.get_ref().0.stream
    }

    /// Returns a snapshot of the TCP connection that carries this stream. Its counts are of encrypted bytes.
    ///
    /// # Errors
    /// The same as [`TcpStream::info`].
    pub fn info(&self) -> io::Result<TcpInfo> {
        self.tcp().info()
    }

    /// Returns 32 bytes that only the two ends of this connection can derive, for a protocol that is bound to the
    /// connection (RFC 8446, section 7.5). Each such protocol must use its own `label`.
    ///
    /// # Errors
    /// Returns [`TlsError::Protocol`] if the TLS library refuses.
    pub fn export(&self, label: &str) -> Result<[u8; 32], TlsError> {
        self.export_bytes(label)
    }

    fn export_bytes<const N: usize>(&self, label: &str) -> Result<[u8; N], TlsError> {
        let secret = match &self.tls {
            TlsStream::Client(tls) => tls.get_ref().1.export_keying_material([0; N], label.as_bytes(), None),
            TlsStream::Server(tls) => tls.get_ref().1.export_keying_material([0; N], label.as_bytes(), None),
        };
        Ok(secret?)
    }

    /// Aborts the connection, as [`TcpStream::abort`] does.
    pub fn abort(&self) {
        self.tcp().abort();
    }

    /// Shuts down this direction of the stream and waits until the peer's TCP has acknowledged all data, as
    /// [`TcpStream::close`] does.
    ///
    /// # Errors
    /// Fails if the connection failed before all data was acknowledged.
    pub async fn close(mut self) -> io::Result<()> {
        self.shutdown().await?;
        let carrier = match self.tls {
            TlsStream::Client(tls) => tls.into_inner().0,
            TlsStream::Server(tls) => tls.into_inner().0,
        };
        carrier.stream.close().await
    }
}

/// Replaces errors of the TLS library by [`TlsError`]s.
fn convert<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(tls) => TlsError::from(tls.clone()).into(),
        None => error,
    })
}

impl AsyncRead for SecureStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(convert(ready!(Pin::new(&mut self.tls).poll_read(cx, buf))))
    }
}

impl AsyncWrite for SecureStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(convert(ready!(Pin::new(&mut self.tls).poll_write(cx, data))))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(convert(ready!(Pin::new(&mut self.tls).poll_write_vectored(cx, data))))
    }

    fn is_write_vectored(&self) -> bool {
        self.tls.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(convert(ready!(Pin::new(&mut self.tls).poll_flush(cx))))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(convert(ready!(Pin::new(&mut self.tls).poll_shutdown(cx))))
    }
}

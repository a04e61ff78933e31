//! Server side of secure connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use longhaul::{TcpListener, TcpStream};
use rustls::ServerConfig;
use tokio::task::JoinSet;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::admission::{Admission, Limits, Ticket};
use crate::limiter;
use crate::metered::Metered;
use crate::verify::{self, Allowed, AllowedClients};
use crate::{Authority, Fingerprint, Identity, SecureStream, TlsError, moving};

/// Number of round trips that a handshake may take, including retransmissions, and the maximum total time for them.
const HANDSHAKE_TRIPS: u32 = 8;
const MAX_TRIPS_TIME: Duration = Duration::from_secs(60);

/// Limits on connections whose peers have not been authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeLimits {
    /// Maximum number of concurrent handshakes. If it is reached, a new connection evicts one that has made less
    /// progress ([`admission`](crate::admission)).
    pub all: usize,
    /// Maximum number of concurrent handshakes with one address, or one /64 prefix with IPv6. If it is reached, a new
    /// connection evicts one from the same address.
    pub per_address: usize,
    /// Maximum duration of a handshake on a short path; see [`time_on`](Self::time_on).
    pub time: Duration,
    /// Maximum number of bytes that a peer may send in its handshake. Before the peer is authenticated, one more record
    /// of at most 16.3 KiB may be read, because data may follow the handshake immediately.
    pub max_bytes: usize,
}

impl Default for HandshakeLimits {
    /// Returns 1,024 handshakes, which take at most 33 MB, 32 per address, 10 s and 16 KiB.
    fn default() -> Self {
        Self { all: 1024, per_address: 32, time: Duration::from_secs(10), max_bytes: 16 << 10 }
    }
}

impl HandshakeLimits {
    /// Sets the maximum duration of a handshake.
    #[must_use]
    pub fn with_time(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Returns the maximum duration of a handshake on a path with this round-trip time: `time`, or eight round trips if
    /// that is longer. Eight round trips count as at most one minute, because the peer can delay its answers to appear
    /// far away.
    #[must_use]
    pub fn time_on(&self, rtt: Option<Duration>) -> Duration {
        let trips = rtt.unwrap_or_default().saturating_mul(HANDSHAKE_TRIPS).min(MAX_TRIPS_TIME);
        self.time.max(trips)
    }
}

/// Accepts secure connections from clients whose keys are allowed.
///
/// Handshakes proceed concurrently within [`HandshakeLimits`], which also apply to connections that
/// [`accept`](Self::accept) has not returned yet. A failed handshake is logged (`tracing`, target `longhaul::tls`) with
/// the peer's address and the reason, within the limits of [`limiter`].
pub struct SecureListener {
    listener: TcpListener,
    acceptor: Acceptor,
    admission: Admission,
    handshakes: JoinSet<Handshake>,
}

struct Handshake {
    result: Result<SecureStream, TlsError>,
    peer: SocketAddr,
    /// Occupies the connection's place until the application accepts the connection.
    _ticket: Ticket,
}

#[derive(Clone)]
struct Acceptor {
    tls: Arc<ServerConfig>,
    allowed: Allowed,
    authority: Option<Authority>,
    limits: HandshakeLimits,
}

impl SecureListener {
    /// Creates a listener that presents `identity` and accepts clients if `allowed` returns true for their keys.
    /// `allowed` is called during the handshake and must not block.
    ///
    /// # Errors
    /// Returns [`TlsError::Protocol`] if the identity cannot be used.
    pub fn new(
        listener: TcpListener,
        identity: &Identity,
        allowed: impl Fn(&Fingerprint) -> bool + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        Self::trusting(listener, identity, None, allowed)
    }

    /// Creates a listener like [`new`](Self::new), which also accepts clients whose certificate `authority` has signed.
    ///
    /// # Errors
    /// Returns [`TlsError::Protocol`] if the identity cannot be used.
    pub fn trusting(
        listener: TcpListener,
        identity: &Identity,
        authority: Option<Authority>,
        allowed: impl Fn(&Fingerprint) -> bool + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let allowed: Allowed = Arc::new(allowed);
        let provider = verify::provider();
        let algorithms = provider.signature_verification_algorithms;
        let verifier = AllowedClients { allowed: Arc::clone(&allowed), authority: authority.clone(), algorithms };
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
        let chain = identity.chain.clone();
        let builder = builder.with_client_cert_verifier(Arc::new(verifier));
        let mut config = builder.with_single_cert(chain, identity.key.clone_key())?;
        // Sessions are resumed by tickets, which are encrypted with a key that changes every six hours.
        config.ticketer = rustls::crypto::ring::Ticketer::new()?;
        config.max_early_data_size = 0;
        config.alpn_protocols = vec![moving::PROTOCOL.to_vec()];
        let limits = HandshakeLimits::default();
        let acceptor = Acceptor { tls: Arc::new(config), allowed, authority, limits };
        let handshakes = JoinSet::new();
        let admission = admission(limits);
        Ok(Self { listener, acceptor, admission, handshakes })
    }

    /// Replaces the limits on connections that are not authenticated yet.
    #[must_use]
    pub fn with_limits(mut self, limits: HandshakeLimits) -> Self {
        self.admission = admission(limits);
        self.acceptor.limits = limits;
        self
    }

    /// Returns the next connection of a client whose key is allowed.
    ///
    /// Cancel safety: this method is cancel safe. Handshakes in progress continue even if it is not called, but no new
    /// ones begin.
    ///
    /// # Errors
    /// Returns the errors of the listener's UDP socket. Failures of single connections are logged.
    pub async fn accept(&mut self) -> io::Result<(SecureStream, SocketAddr)> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, peer) = accepted?;
                    self.begin(stream, peer);
                }
                Some(handshake) = self.handshakes.join_next() => {
                    let Ok(Handshake { result, peer, .. }) = handshake else { continue };
                    match result {
                        Ok(stream) => return Ok((stream, peer)),
                        Err(error) => limiter::report(peer, &error),
                    }
                }
            }
        }
    }

    /// Begins the handshake on a connection with a client that another listener has accepted, or that was opened from
    /// here. [`accept`](Self::accept) then returns it like any other.
    pub fn begin(&mut self, stream: TcpStream, peer: SocketAddr) {
        let rtt = stream.info().ok().and_then(|info| info.rtt);
        let Some(ticket) = self.admission.admit(peer.ip(), rtt) else {
            stream.abort();
            limiter::report(peer, &TlsError::Crowded);
            return;
        };
        let acceptor = self.acceptor.clone();
        self.handshakes.spawn(async move {
            let time = acceptor.limits.time_on(rtt);
            let result = tokio::select! {
                result = acceptor.accept(stream, time, &ticket) => result,
                () = ticket.evicted() => Err(TlsError::Crowded),
            };
            if result.is_ok() {
                ticket.is_known();
            }
            Handshake { result, peer, _ticket: ticket }
        });
    }

    /// Remembers that the key of a peer is permanently allowed, so that its host has precedence when it connects again
    /// ([`Admission::remember`]). A program whose `allowed` accepts any key must not call this for strangers.
    pub fn remember(&self, peer: SocketAddr) {
        self.admission.remember(peer.ip());
    }

    /// Returns the address on which the listener accepts connections.
    ///
    /// # Errors
    /// The same as [`TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl std::fmt::Debug for SecureListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecureListener").field("listener", &self.listener).finish_non_exhaustive()
    }
}

fn admission(limits: HandshakeLimits) -> Admission {
    Admission::new(Limits { all: limits.all, per_address: limits.per_address })
}

impl Acceptor {
    async fn accept(&self, stream: TcpStream, time: Duration, ticket: &Ticket) -> Result<SecureStream, TlsError> {
        let stream = Metered::new(stream, self.limits.max_bytes);
        let stream = tokio::time::timeout(time, self.handshake(stream, ticket)).await;
        let stream = match stream.map_err(|_| TlsError::TimedOut)? {
            Ok(stream) => SecureStream::new(stream.into())?,
            Err((error, stream)) => {
                if let Some(mut stream) = stream {
                    stream.finish().await;
                }
                return Err(error.into());
            }
        };
        // TLS does not verify the certificate of a resumed session again, and the key may no longer be allowed.
        let peer = stream.peer();
        match verify::may_connect(&self.allowed, self.authority.as_ref(), &peer, stream.certificates()) {
            Some(grounds) => Ok(stream.on(grounds)),
            None => Err(TlsError::NotAllowed(peer)),
        }
    }

    /// Completes the handshake. If it fails, the connection is returned with the error.
    async fn handshake(
        &self,
        stream: Metered,
        ticket: &Ticket,
    ) -> Result<TlsStream<Metered>, (io::Error, Option<Metered>)> {
        let mut hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream);
        let start = match (&mut hello).await {
            Ok(start) => start,
            Err(error) => return Err((error, hello.take_io())),
        };
        ticket.has_spoken();
        let max_bytes = Some(self.limits.max_bytes);
        let accepting = start.into_stream_with(Arc::clone(&self.tls), |session| session.set_buffer_limit(max_bytes));
        accepting.into_fallible().await.map_err(|(error, stream)| (error, Some(stream)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_has_time_for_eight_round_trips() {
        let limits = HandshakeLimits::default();
        let seconds = |millis| limits.time_on(Some(Duration::from_millis(millis))).as_secs();
        assert_eq!([0, 600, 1250, 5000, 7500, 1 << 60].map(seconds), [10, 10, 10, 40, 60, 60]);
        assert_eq!(limits.time_on(None).as_secs(), 10);
        assert_eq!(limits.with_time(Duration::from_secs(90)).time_on(Some(Duration::MAX)).as_secs(), 90);
    }
}

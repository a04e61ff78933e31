//! Client side of secure connections.

use std::io;
use std::sync::Arc;

use longhaul::TcpStream;
use rustls::ClientConfig;
use rustls::pki_types::{DnsName, ServerName};

use crate::authority::ServerTrust;
use crate::metered::Metered;
use crate::verify::{self, Expected, PinnedServer};
use crate::{Authority, Fingerprint, Identity, SecureStream, TlsError, moving};

/// Name used for every server. The TLS library stores sessions under this name, which is not sent.
const SERVER: &str = "longhaul.invalid";

/// Opens secure connections to servers that have one key, or with a certificate that an authority has signed. Clones
/// share their sessions, which later connections resume.
#[derive(Clone)]
pub struct SecureConnector {
    tls: tokio_rustls::TlsConnector,
    expected: Expected,
    trust: Option<ServerTrust>,
}

impl SecureConnector {
    /// Creates a connector that presents `identity` and accepts only the server's key `expected`. If `expected` is
    /// `None`, no key is accepted: [`connect`](Self::connect) then fails with [`TlsError::UnknownKey`], which contains
    /// the server's key.
    ///
    /// # Errors
    /// Returns [`TlsError::Protocol`] if the identity cannot be used.
    pub fn new(identity: &Identity, expected: Option<Fingerprint>) -> Result<Self, TlsError> {
        Self::build(identity, expected.map_or(Expected::Nobody, Expected::Key), None)
    }

    /// Creates a connector that presents `identity` and accepts every server. Somebody may intercept its connections,
    /// until the application has authenticated the key of [`SecureStream::peer`], or the connection by its
    /// [exporter](SecureStream::export).
    ///
    /// # Errors
    /// Returns [`TlsError::Protocol`] if the identity cannot be used.
    pub fn accepting_any(identity: &Identity) -> Result<Self, TlsError> {
        Self::build(identity, Expected::Anybody, None)
    }

    /// Creates a connector like [`new`](Self::new), which also accepts servers whose certificate `authority` has signed
    /// for `name`, a DNS name or an IP address. Such a server may have any key.
    ///
    /// # Errors
    /// Returns [`TlsError::Protocol`] if the identity cannot be used, or [`TlsError::Name`] if `name` is neither a DNS
    /// name nor an IP address.
    pub fn trusting(
        identity: &Identity,
        expected: Option<Fingerprint>,
        authority: &Authority,
        name: &str,
    ) -> Result<Self, TlsError> {
        let server = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let expected = expected.map_or(Expected::Nobody, Expected::Key);
        Self::build(identity, expected, Some(ServerTrust { authority: authority.clone(), name: server }))
    }

    fn build(identity: &Identity, expected: Expected, trust: Option<ServerTrust>) -> Result<Self, TlsError> {
        let provider = verify::provider();
        let algorithms = provider.signature_verification_algorithms;
        let verifier = PinnedServer { expected, trust: trust.clone(), algorithms };
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let chain = identity.chain.clone();
        let mut config = builder.with_client_auth_cert(chain, identity.key.clone_key())?;
        config.alpn_protocols = vec![moving::PROTOCOL.to_vec()];
        config.enable_sni = false;
        config.enable_early_data = false;
        Ok(Self { tls: Arc::new(config).into(), expected, trust })
    }

    /// Completes the handshake on `stream`, on which nothing has been sent. The server has then proved that it has the
    /// key of [`SecureStream::peer`]. The server has not yet decided about the client's key: if it refuses the key, the first read fails
    /// with [`TlsError::Refused`].
    ///
    /// # Errors
    /// Returns [`TlsError::UnknownKey`] or [`TlsError::WrongKey`] if the server's key is not the expected one, or
    /// another error if the handshake fails. The only time limits are those of `stream`.
    pub async fn connect(&self, stream: TcpStream) -> Result<SecureStream, TlsError> {
        let name = DnsName::try_from(SERVER).map_err(|error| TlsError::Connection(io::Error::other(error)))?;
        let connecting = self.tls.connect(ServerName::DnsName(name), Metered::unlimited(stream)).into_fallible();
        let stream = match connecting.await {
            Ok(stream) => SecureStream::new(stream.into())?,
            Err((error, mut stream)) => {
                // The alert that informs the server of the reason must be acknowledged before the connection is
                // dropped.
                stream.finish().await;
                return Err(error.into());
            }
        };
        // A resumed session is not verified again.
        match PinnedServer::check(self.expected, self.trust.as_ref(), stream.peer(), stream.certificates()) {
            Ok(()) => Ok(stream),
            Err(error) => Err(error.into()),
        }
    }
}

impl std::fmt::Debug for SecureConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecureConnector").field("expected", &self.expected).finish_non_exhaustive()
    }
}

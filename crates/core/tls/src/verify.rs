//! Verification of the peer's certificate: only its key counts, unless an authority has signed the certificate.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, CipherSuite, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerIncompatible,
    SignatureScheme,
};

use crate::authority::ServerTrust;
use crate::error::KeyError;
use crate::{Authority, Fingerprint, TlsError};

/// Returns whether a client with this key may connect.
pub(crate) type Allowed = Arc<dyn Fn(&Fingerprint) -> bool + Send + Sync>;

/// Returns the implementation of all cryptography. Of the two AES ciphers, it prefers AES-128-GCM, which TLS 1.3
/// requires of all implementations (RFC 8446, section 9.1), because AES-256-GCM takes more time
/// (`docs/decisions/0043-tls-with-pinned-keys.md`).
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// Servers that are accepted by their key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Nobody,
    Key(Fingerprint),
    Anybody,
}

/// Accepts expected servers, and those with a certificate that the authority has signed.
#[derive(Debug)]
pub(crate) struct PinnedServer {
    pub(crate) expected: Expected,
    pub(crate) trust: Option<ServerTrust>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedServer {
    /// Checks that the key `presented` is expected, or that the authority has signed the first certificate of `chain`.
    pub(crate) fn check(
        expected: Expected,
        trust: Option<&ServerTrust>,
        presented: Fingerprint,
        chain: &[CertificateDer<'_>],
    ) -> Result<(), KeyError> {
        let error = match expected {
            Expected::Anybody => return Ok(()),
            Expected::Key(expected) if expected == presented => return Ok(()),
            Expected::Key(expected) => KeyError::Wrong { expected, presented },
            Expected::Nobody => KeyError::Unknown(presented),
        };
        if trust.is_some_and(|trust| trust.vouches(chain)) { Ok(()) } else { Err(error) }
    }
}

/// Accepts clients with an allowed key, or with a certificate that the authority has signed.
pub(crate) struct AllowedClients {
    pub(crate) allowed: Allowed,
    pub(crate) authority: Option<Authority>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for AllowedClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedClients").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grounds {
    Key,
    Authority,
}

/// Returns the reason why a client may connect, or `None` if it may not.
pub(crate) fn may_connect(
    allowed: &Allowed,
    authority: Option<&Authority>,
    key: &Fingerprint,
    chain: &[CertificateDer<'_>],
) -> Option<Grounds> {
    if allowed(key) {
        return Some(Grounds::Key);
    }
    let vouches = authority?.vouches_for_client(chain);
    if let Err(reason) = &vouches {
        tracing::debug!(target: "longhaul::tls", %key, %reason, "the authority does not vouch for the client");
    }
    vouches.is_ok().then_some(Grounds::Authority)
}

fn chain<'a>(end_entity: &CertificateDer<'a>, intermediates: &[CertificateDer<'a>]) -> Vec<CertificateDer<'a>> {
    std::iter::once(end_entity).chain(intermediates).cloned().collect()
}

fn key_of(certificate: &CertificateDer<'_>) -> Result<Fingerprint, Error> {
    Fingerprint::of(certificate).map_err(|error| match error {
        TlsError::KeyType => Error::InvalidCertificate(CertificateError::BadEncoding),
        other => Error::General(other.to_string()),
    })
}

fn refused(error: KeyError) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

/// Signature methods shared by both verifiers. Only TLS 1.3 signatures are supported, because TLS 1.2 is never
/// negotiated.
macro_rules! ed25519_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }
    };
}

impl ServerCertVerifier for PinnedServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = chain(end_entity, intermediates);
        Self::check(self.expected, self.trust.as_ref(), key_of(end_entity)?, &chain).map_err(refused)?;
        Ok(ServerCertVerified::assertion())
    }

    ed25519_signatures!();
}

impl ClientCertVerifier for AllowedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let key = key_of(end_entity)?;
        let chain = chain(end_entity, intermediates);
        match may_connect(&self.allowed, self.authority.as_ref(), &key, &chain) {
            Some(_) => Ok(ClientCertVerified::assertion()),
            None => Err(refused(KeyError::NotAllowed(key))),
        }
    }

    ed25519_signatures!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server uses the first cipher suite of the client's list that it has, so that both need not agree on the
    /// order.
    #[test]
    fn aes_128_comes_first_and_nothing_is_left_out() {
        let (ours, all) = (provider().cipher_suites.clone(), rustls::crypto::ring::default_provider().cipher_suites);
        assert_eq!(ours[0].suite(), CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(ours.len(), all.len());
        assert!(all.iter().all(|suite| ours.contains(suite)));
    }
}

//! Verification of the peer's certificate: only its key counts.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerIncompatible, SignatureScheme,
};

use crate::error::KeyError;
use crate::{Fingerprint, TlsError};

/// Decides whether a client's key may connect.
pub(crate) type Allowed = Arc<dyn Fn(&Fingerprint) -> bool + Send + Sync>;

/// Returns the implementation of all cryptography.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts servers with the expected key.
#[derive(Debug)]
pub(crate) struct PinnedServer {
    pub(crate) expected: Option<Fingerprint>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedServer {
    /// Returns whether a server with the key `presented` is the expected one.
    pub(crate) fn check(expected: Option<Fingerprint>, presented: Fingerprint) -> Result<(), KeyError> {
        match expected {
            None => Err(KeyError::Unknown(presented)),
            Some(expected) if expected == presented => Ok(()),
            Some(expected) => Err(KeyError::Wrong { expected, presented }),
        }
    }
}

/// Accepts clients whose keys are allowed.
pub(crate) struct AllowedClients {
    pub(crate) allowed: Allowed,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for AllowedClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedClients").finish_non_exhaustive()
    }
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

/// TLS 1.2 is never negotiated.
const NO_TLS12: Error = Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13);

impl ServerCertVerifier for PinnedServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Self::check(self.expected, key_of(end_entity)?).map_err(refused)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(NO_TLS12)
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
}

impl ClientCertVerifier for AllowedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let key = key_of(end_entity)?;
        if (self.allowed)(&key) { Ok(ClientCertVerified::assertion()) } else { Err(refused(KeyError::NotAllowed(key))) }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(NO_TLS12)
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
}

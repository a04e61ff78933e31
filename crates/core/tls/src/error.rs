//! Reasons why a secure connection fails.

use std::io;

use rustls::{AlertDescription, CertificateError, OtherError};

use crate::Fingerprint;

/// Reason why a secure connection was not established, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The connector expects no key, and the server presented this one.
    #[error("the server's key {0} is not known")]
    UnknownKey(Fingerprint),
    /// The server's key differs from the expected one.
    #[error("the server's key is {presented}, but {expected} was expected")]
    WrongKey {
        /// The key that the connector accepts.
        expected: Fingerprint,
        /// The key that the server presented.
        presented: Fingerprint,
    },
    /// The listener does not allow the client's key.
    #[error("the key {0} is not allowed to connect")]
    NotAllowed(Fingerprint),
    /// The peer refused the key of this end.
    #[error("the peer does not accept this key")]
    Refused,
    /// The certificate is missing or not valid, or its key is not an Ed25519 key.
    #[error("the peer has no valid certificate with an Ed25519 key")]
    KeyType,
    /// The peer does not support TLS 1.3 or any of the algorithms used here.
    #[error("the peer does not support TLS 1.3 with Ed25519 keys ({0})")]
    Incompatible(String),
    /// The peer sent something other than TLS.
    #[error("the peer does not use TLS")]
    NotTls,
    /// Before it was authenticated, the peer sent more than
    /// [`HandshakeLimits::max_bytes`](crate::HandshakeLimits::max_bytes) plus one more record.
    #[error("the peer sent more than {0} bytes before it was authenticated")]
    TooLarge(usize),
    /// The handshake was not completed in time.
    #[error("the peer did not complete the handshake in time")]
    TimedOut,
    /// The connection was evicted by a newer one, because too many connections had not been authenticated.
    #[error("too many connections are not authenticated yet")]
    Crowded,
    /// The name of the server is neither a DNS name nor an IP address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Name(String),
    /// The identity's certificate and key do not belong together, or the TLS library reported another error.
    #[error("TLS failed: {0}")]
    Protocol(rustls::Error),
    /// The connection failed.
    #[error(transparent)]
    Connection(io::Error),
}

/// Returns the [`TlsError`] inside the error of a read or write of a [`SecureStream`](crate::SecureStream), if TLS is
/// the reason.
#[must_use]
pub fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
                inner.downcast_ref::<KeyError>().map_or(Self::KeyType, |error| (*error).into())
            }
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => Self::KeyType,
            rustls::Error::AlertReceived(
                AlertDescription::AccessDenied
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateRequired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA,
            ) => Self::Refused,
            rustls::Error::AlertReceived(AlertDescription::ProtocolVersion) => {
                Self::Incompatible("it refuses the version".to_owned())
            }
            rustls::Error::PeerIncompatible(reason) => Self::Incompatible(format!("{reason:?}")),
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            other => Self::Protocol(other),
        }
    }
}

impl From<KeyError> for TlsError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Unknown(key) => Self::UnknownKey(key),
            KeyError::Wrong { expected, presented } => Self::WrongKey { expected, presented },
            KeyError::NotAllowed(key) => Self::NotAllowed(key),
        }
    }
}

impl From<io::Error> for TlsError {
    fn from(error: io::Error) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return tls.clone().into();
        }
        match error.downcast::<Self>() {
            Ok(tls) => tls,
            Err(error) => Self::Connection(error),
        }
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::Connection(error) => error,
            TlsError::TimedOut => Self::new(io::ErrorKind::TimedOut, error),
            TlsError::Refused | TlsError::NotAllowed(_) => Self::new(io::ErrorKind::PermissionDenied, error),
            _ => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// Reason why a verifier refuses a key, which rustls passes on in a [`CertificateError::Other`].
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the key is refused")]
pub(crate) enum KeyError {
    Unknown(Fingerprint),
    Wrong { expected: Fingerprint, presented: Fingerprint },
    NotAllowed(Fingerprint),
}

//! Fingerprints of public keys.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;

use crate::TlsError;

const PREFIX: &str = "SHA256:";
/// Start of the SubjectPublicKeyInfo of an Ed25519 key (RFC 8410, section 4); the 32 bytes of the key follow.
const ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// SHA-256 hash of a public key, displayed as `SHA256:` followed by the hash in Base64, as ssh does.
///
/// The hash covers the key's SubjectPublicKeyInfo, so that it remains the same when the certificate is renewed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; SHA256_OUTPUT_LEN]);

/// Reason why a text is not a [`Fingerprint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is \"SHA256:\" followed by 43 characters of Base64, as `longhaul identity` prints it")]
#[non_exhaustive]
pub struct ParseFingerprintError;

impl Fingerprint {
    /// Returns the fingerprint of the key in `certificate`.
    ///
    /// # Errors
    /// Returns [`TlsError::KeyType`] if the key is not an Ed25519 key or the certificate is not valid.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, TlsError> {
        let parsed = ParsedCertificate::try_from(certificate).map_err(|_| TlsError::KeyType)?;
        let key = parsed.subject_public_key_info();
        if !key.starts_with(&ED25519) {
            return Err(TlsError::KeyType);
        }
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, &key).as_ref());
        Ok(Self(hash))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", STANDARD_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, ParseFingerprintError> {
        let hash = text.strip_prefix(PREFIX).and_then(|hash| STANDARD_NO_PAD.decode(hash).ok());
        hash.and_then(|hash| hash.try_into().ok()).map(Self).ok_or(ParseFingerprintError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_others_are_refused() {
        let text = "SHA256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        let fingerprint: Fingerprint = text.parse().unwrap();
        assert_eq!(fingerprint.0[..], (0..32).collect::<Vec<u8>>());
        assert_eq!(fingerprint.to_string(), text);
        // The texts are too short, too long, padded, without the prefix, with bits beyond the hash, and not ASCII.
        for bad in [
            "",
            "SHA256:",
            "SHA256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg",
            "SHA256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8AAA",
            "SHA256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
            "SHA256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9",
            "SHA256:\u{e4}",
        ] {
            assert_eq!(bad.parse::<Fingerprint>(), Err(ParseFingerprintError), "{bad}");
        }
    }
}

//! The server's certificate.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A self-signed certificate for the name `server`, and its key.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// Creates a certificate.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn new() -> Result<Self, rcgen::Error> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let params = rcgen::CertificateParams::new(vec!["server".to_owned()])?;
        Ok(Self { certificate: params.self_signed(&key)?.der().clone(), key: key.serialize_der() })
    }

    /// Returns the certificate.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// Returns the only trusted certificate of a client.
    ///
    /// # Errors
    /// Returns an error if the certificate is invalid.
    pub fn roots(&self) -> Result<Arc<rustls::RootCertStore>, rustls::Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(Arc::new(roots))
    }

    /// Returns the private key.
    #[must_use]
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }
}

//! Trust in certificates that an authority has signed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::verify;

/// Certificate authority. A peer is trusted if the authority has signed its certificate and the certificate is valid
/// now. A server's certificate must also contain the name under which the client reached it.
#[derive(Clone)]
pub struct Authority {
    servers: Arc<WebPkiServerVerifier>,
    clients: Arc<dyn ClientCertVerifier>,
}

/// Reason why an authority cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The text does not contain valid certificates.
    #[error("no valid certificate of an authority: {0}")]
    Invalid(String),
}

impl Authority {
    /// Reads the authority's certificates from a file in PEM format.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or contains no certificate or an invalid one.
    pub fn open(path: &Path) -> Result<Self, AuthorityError> {
        let text = std::fs::read_to_string(path);
        Self::from_pem(&text.map_err(|error| AuthorityError::File { path: path.to_owned(), error })?)
    }

    /// Reads the authority's certificates in PEM format.
    ///
    /// # Errors
    /// Returns an error if there is no certificate or an invalid one.
    pub fn from_pem(pem: &str) -> Result<Self, AuthorityError> {
        let invalid = |error: &dyn fmt::Display| AuthorityError::Invalid(error.to_string());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| invalid(&error))?;
            roots.add(certificate).map_err(|error| invalid(&error))?;
        }
        if roots.is_empty() {
            return Err(invalid(&"the text has no certificate"));
        }
        let roots = Arc::new(roots);
        let servers = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), verify::provider()).build();
        let clients = WebPkiClientVerifier::builder_with_provider(roots, verify::provider()).build();
        Ok(Self {
            servers: servers.map_err(|error| invalid(&error))?,
            clients: clients.map_err(|error| invalid(&error))?,
        })
    }

    /// Checks that the authority has signed the certificate of the server `name`. The certificate is the first of
    /// `chain`.
    pub(crate) fn vouches_for_server(
        &self,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
    ) -> Result<(), rustls::Error> {
        let (end, rest) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.servers.verify_server_cert(end, rest, name, &[], UnixTime::now()).map(|_| ())
    }

    /// Checks that the authority has signed the certificate of a client. The certificate is the first of `chain`.
    pub(crate) fn vouches_for_client(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let (end, rest) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.clients.verify_client_cert(end, rest, UnixTime::now()).map(|_| ())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// Criteria by which a client trusts a server's certificate.
#[derive(Clone, Debug)]
pub(crate) struct ServerTrust {
    pub(crate) authority: Authority,
    pub(crate) name: ServerName<'static>,
}

impl ServerTrust {
    /// Returns whether the authority has signed the server's certificate. If not, the reason is logged.
    pub(crate) fn vouches(&self, chain: &[CertificateDer<'_>]) -> bool {
        let vouches = self.authority.vouches_for_server(chain, &self.name);
        if let Err(reason) = &vouches {
            tracing::warn!(target: "longhaul::tls", %reason, "the authority does not vouch for the server");
        }
        vouches.is_ok()
    }
}

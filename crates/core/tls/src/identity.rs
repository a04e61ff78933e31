//! Key and certificate of this end.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::{Fingerprint, verify};

/// Maximum size of an identity file in bytes; a key and a certificate take less than 1 KiB.
const MAX_FILE: u64 = 64 << 10;

/// An Ed25519 key with a certificate, self-signed or signed by an authority, which authenticates this end of a connection.
pub struct Identity {
    /// The certificate, followed by the intermediate certificates up to an authority that peers trust.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    fingerprint: Fingerprint,
    pem: String,
}

/// Reason why an identity cannot be read or generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error("cannot use {path}: {error}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Other users may read the file.
    #[error("others may read {path} (mode {mode:04o}); `chmod 600` it, or delete it to get a new key", path = path.display())]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// The text does not contain a key and the certificate for it.
    #[error("no valid Ed25519 key with its certificate: {0}")]
    Invalid(String),
    /// The file's text is not an identity.
    #[error("{path} contains {error}", path = path.display())]
    InvalidFile {
        /// Path of the file.
        path: PathBuf,
        /// The reason why the text of the file is invalid.
        error: Box<IdentityError>,
    },
    /// No key could be generated.
    #[error("cannot generate a key: {0}")]
    Generate(rcgen::Error),
}

impl Identity {
    /// Generates a new key.
    ///
    /// # Errors
    /// Returns [`IdentityError::Generate`] if the system has no randomness.
    pub fn generate() -> Result<Self, IdentityError> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(IdentityError::Generate)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "longhaul");
        let certificate = params.self_signed(&key).map_err(IdentityError::Generate)?;
        Self::from_pem(&(key.serialize_pem() + &certificate.pem()))
    }

    /// Reads a private key (PKCS #8) and its certificate in PEM format. The certificates of the authorities that have
    /// signed it may follow.
    ///
    /// # Errors
    /// Returns [`IdentityError::Invalid`] if either is missing, if they do not belong together, or if the key is not an
    /// Ed25519 key.
    pub fn from_pem(pem: &str) -> Result<Self, IdentityError> {
        let invalid = |error: &dyn fmt::Display| IdentityError::Invalid(error.to_string());
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| invalid(&error))?;
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| invalid(&error))?;
        let certificate = chain.first().ok_or_else(|| invalid(&"there is no certificate"))?;
        let fingerprint = Fingerprint::of(certificate).map_err(|error| invalid(&error))?;
        let checked = CertifiedKey::from_der(chain.clone(), key.clone_key(), &verify::provider());
        checked.map_err(|error| invalid(&error))?;
        Ok(Self { chain, key, fingerprint, pem: pem.to_owned() })
    }

    /// Returns the private key and the certificate in PEM format.
    #[must_use]
    pub fn to_pem(&self) -> &str {
        &self.pem
    }

    /// Reads the identity from the file `path`. If the file does not exist, a new identity is generated and written to
    /// it, readable by its owner only; a missing directory is also created, with the same restriction.
    ///
    /// # Errors
    /// Returns an error if the file cannot be used. A file is refused if other users may read it, or if it belongs to
    /// neither the current user nor root.
    pub fn open(path: &Path) -> Result<Self, IdentityError> {
        let failed = |error| IdentityError::File { path: path.to_owned(), error };
        match File::open(path) {
            Ok(file) => Self::read(file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let identity = Self::generate()?;
                match identity.write(path) {
                    // Another process has created the file in the meantime.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        Self::read(File::open(path).map_err(failed)?, path)
                    }
                    written => written.map(|()| identity).map_err(failed),
                }
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn read(file: File, path: &Path) -> Result<Self, IdentityError> {
        let failed = |error| IdentityError::File { path: path.to_owned(), error };
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let metadata = file.metadata().map_err(failed)?;
            let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
            if mode & 0o077 != 0 {
                return Err(IdentityError::Exposed { path: path.to_owned(), mode });
            }
            if owner != 0 && owner != rustix::process::geteuid().as_raw() {
                return Err(failed(io::Error::other(format!("it belongs to another user (uid {owner})"))));
            }
        }
        let mut pem = String::new();
        file.take(MAX_FILE).read_to_string(&mut pem).map_err(failed)?;
        Self::from_pem(&pem)
            .map_err(|error| IdentityError::InvalidFile { path: path.to_owned(), error: Box::new(error) })
    }

    /// Writes the identity to a new file. Fails if the file exists.
    fn write(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(directory)?;
        // Temporary files have mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(self.pem.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map(|_| ()).map_err(|error| error.error)
    }

    /// Returns the fingerprint of the public key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

/// Omits the private key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/by/us/identity");
        let made = Identity::open(&path).unwrap();
        let again = Identity::open(&path).unwrap();
        assert_eq!(made.fingerprint(), again.fingerprint());
        assert_ne!(made.fingerprint(), Identity::generate().unwrap().fingerprint());
        assert!(!format!("{made:?}").contains("PRIVATE"));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_an_identity() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own/identity");
        Identity::open(&path).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Identity::open(&path).unwrap_err().to_string();
        assert!(error.starts_with("others may read ") && error.contains("(mode 0640)"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        // Only root can change the owner of a file.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
            let error = Identity::open(&path).unwrap_err().to_string();
            assert!(error.ends_with("it belongs to another user (uid 12345)"), "{error}");
        }
    }

    #[test]
    fn texts_that_are_no_identity_are_refused() {
        let (one, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let certificate = |identity: &Identity| {
            let pem = identity.to_pem();
            pem[pem.find("-----BEGIN CERTIFICATE").unwrap()..].to_owned()
        };
        let key = one.to_pem().replace(&certificate(&one), "");
        assert!(Identity::from_pem(&format!("{key}{}", certificate(&one))).is_ok());
        let ecdsa = KeyPair::generate().unwrap();
        let other_kind = CertificateParams::default().self_signed(&ecdsa).unwrap();
        for bad in [
            String::new(),
            key.clone(),
            certificate(&one),
            format!("{key}{}", certificate(&other)),
            ecdsa.serialize_pem() + &other_kind.pem(),
            one.to_pem()[..one.to_pem().len() / 2].to_owned(),
        ] {
            assert!(matches!(Identity::from_pem(&bad), Err(IdentityError::Invalid(_))), "{bad}");
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("identity")).unwrap();
        assert!(matches!(
            Identity::open(directory.path()),
            Err(IdentityError::File { .. } | IdentityError::Exposed { .. })
        ));
    }
}

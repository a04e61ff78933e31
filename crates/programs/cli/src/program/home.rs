//! The directory with the key of this machine and the keys of its peers.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use longhaul_tls::{Identity, IdentityError};

use super::Screen;
use super::lists::{KnownPeers, ListError};

const DIRECTORY: &str = "longhaul";

/// The directory `$XDG_DATA_HOME/longhaul`.
pub(super) struct Home(PathBuf);

#[derive(Debug, thiserror::Error)]
#[error(
    "there is no place for the key of this machine; set XDG_DATA_HOME to a directory that this user can write, or \
     authenticate by a one-time code, --code"
)]
struct NoPlace;

impl Home {
    fn find() -> Result<Self> {
        match directory("XDG_DATA_HOME", ".local/share", |name| std::env::var_os(name)) {
            Some(data) => Ok(Self(data.join(DIRECTORY))),
            None => Err(anyhow!("neither XDG_DATA_HOME nor HOME is an absolute path")).context(NoPlace),
        }
    }

    /// Returns the key of this machine, which is created at first use, and the directory.
    ///
    /// If the key cannot be stored, as in a container or for a system user, and a one-time `code` authenticates both
    /// ends, a key is created for this run only.
    pub(super) fn open(code: bool, screen: &Screen) -> Result<(Identity, Option<Self>)> {
        match Self::find().and_then(|home| Ok((home.identity()?, home))) {
            Ok((identity, home)) => Ok((identity, Some(home))),
            Err(error) if code && error.is::<NoPlace>() => {
                screen.warn(&format!("warning: the key is for this run only: {}", error.root_cause()));
                Ok((Identity::generate()?, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Like [`open`](Self::open), for programs that need a permanent key.
    pub(super) fn with_key() -> Result<(Identity, Self)> {
        let home = Self::find()?;
        Ok((home.identity()?, home))
    }

    pub(super) fn identity_file(&self) -> PathBuf {
        self.0.join("identity")
    }

    pub(super) fn allowed_file(&self) -> PathBuf {
        self.0.join("allowed-peers")
    }

    fn identity(&self) -> Result<Identity> {
        let no_place = |error: &IdentityError| {
            matches!(error, IdentityError::File { error, .. } if matches!(
                error.kind(),
                ErrorKind::NotFound
                    | ErrorKind::NotADirectory
                    | ErrorKind::PermissionDenied
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::StorageFull
            ))
        };
        match Identity::open(&self.identity_file()) {
            Err(error) if no_place(&error) => Err(error).context(NoPlace),
            identity => Ok(identity?),
        }
    }

    /// Returns the path of `allowed-peers`, or a path that does not exist if there is no directory.
    pub(super) fn allowed_file_of(home: Option<&Self>) -> PathBuf {
        home.map(Self::allowed_file).unwrap_or_default()
    }

    /// Returns the keys of known peers; without a directory, there are none.
    pub(super) fn known_peers(home: Option<&Self>) -> Result<KnownPeers, ListError> {
        home.map_or_else(|| Ok(KnownPeers::default()), |home| KnownPeers::open(home.0.join("known-peers")))
    }
}

/// Returns the directory for control sockets: `$XDG_RUNTIME_DIR/longhaul`, or `run` beside the key.
pub(super) fn runtime_directory() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    given.map(|path| path.join(DIRECTORY)).or_else(|| Home::find().ok().map(|home| home.0.join("run")))
}

/// Returns the directory `$XDG_CACHE_HOME/longhaul`.
pub(super) fn cache_directory() -> Option<PathBuf> {
    Some(directory("XDG_CACHE_HOME", ".cache", |name| std::env::var_os(name))?.join(DIRECTORY))
}

pub(super) fn config_directory() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME", ".config", |name| std::env::var_os(name))
}

/// Returns the directory in the variable `name`, or else `usual` in the user's home directory (XDG Base Directory
/// Specification 0.8: a relative path counts as unset).
fn directory(name: &str, usual: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(name).or_else(|| absolute("HOME").map(|home| home.join(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_that_of_the_specification() {
        for (variables, wanted) in [
            (&[("XDG_DATA_HOME", "/data"), ("HOME", "/home/a")][..], Some("/data")),
            (&[("HOME", "/home/a")], Some("/home/a/.local/share")),
            (&[("XDG_DATA_HOME", ""), ("HOME", "/home/a")], Some("/home/a/.local/share")),
            (&[("XDG_DATA_HOME", "data"), ("HOME", "/home/a")], Some("/home/a/.local/share")),
            (&[("XDG_DATA_HOME", "data"), ("HOME", "home")], None),
        ] {
            let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            assert_eq!(
                directory("XDG_DATA_HOME", ".local/share", variable),
                wanted.map(PathBuf::from),
                "{variables:?}"
            );
        }
    }
}

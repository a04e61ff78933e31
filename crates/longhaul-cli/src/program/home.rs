//! The directory with the key of this machine and the keys of its peers.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};
use longhaul_tls::Identity;

use super::lists::{KnownPeers, ListError};

/// Name of the directory.
const DIRECTORY: &str = "longhaul";

/// The directory `$XDG_DATA_HOME/longhaul`.
#[derive(Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn find() -> Result<Self> {
        match directory("XDG_DATA_HOME", ".local/share", |name| std::env::var_os(name)) {
            Some(data) => Ok(Self(data.join(DIRECTORY))),
            None => bail!("there is no place for the key: neither XDG_DATA_HOME nor HOME is an absolute path"),
        }
    }

    pub(super) fn identity_file(&self) -> PathBuf {
        self.0.join("identity")
    }

    pub(super) fn allowed_file(&self) -> PathBuf {
        self.0.join("allowed-peers")
    }

    /// Returns the key of this machine, which is made at first use.
    pub(super) fn identity(&self) -> Result<Identity> {
        Ok(Identity::open(&self.identity_file())?)
    }

    pub(super) fn known_peers(&self) -> Result<KnownPeers, ListError> {
        KnownPeers::open(self.0.join("known-peers"))
    }
}

/// Returns the directory for the configuration of the user's programs.
pub(super) fn config_directory() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME", ".config", |name| std::env::var_os(name))
}

/// Returns the directory that the variable `name` contains, or `usual` in the user's home directory (XDG Base Directory
/// Specification 0.8, where a relative path counts as unset).
fn directory(name: &str, usual: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(name).or_else(|| absolute("HOME").map(|home| home.join(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
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

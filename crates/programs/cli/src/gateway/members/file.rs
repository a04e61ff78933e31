//! File of a group of gateways: the secret that its members share, and their addresses.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use blake3::Hash;
use serde::{Deserialize, Serialize};

/// Maximum number of members, each of which has a bit in a set.
pub(super) const MAX_MEMBERS: usize = 64;
/// Maximum size of the file in bytes.
const MAX_SIZE: u64 = 64 << 10;

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Text {
    secret: String,
    members: Vec<SocketAddr>,
}

/// A group of gateways. `{:?}` does not show the secret.
pub(crate) struct GroupFile {
    secret: Hash,
    /// Internal address of each member, at which the others reach it.
    pub(super) members: Vec<SocketAddr>,
}

impl GroupFile {
    /// Reads the file, which only its owner may be able to read.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::read(path).with_context(|| format!("cannot use the group {}", path.display()))
    }

    fn read(path: &Path) -> Result<Self> {
        let file = fs::File::open(path)?;
        let mode = file.metadata()?.mode() & 0o777;
        ensure!(mode & 0o077 == 0, "others may read the file (mode {mode:04o}); `chmod 600` it");
        let mut text = String::new();
        file.take(MAX_SIZE).read_to_string(&mut text)?;
        let Text { secret, members } = toml::from_str(&text)?;
        let secret = Hash::from_hex(secret).context("the secret has 64 hexadecimal digits")?;
        let count = members.len();
        ensure!((2..=MAX_MEMBERS).contains(&count), "a group has 2 to {MAX_MEMBERS} members, not {count}");
        ensure!(members.iter().collect::<HashSet<_>>().len() == count, "a member is listed twice");
        if let Some(member) = members.iter().find(|member| member.ip().is_unspecified() || member.port() == 0) {
            bail!("{member} is not the address of a member");
        }
        Ok(Self { secret, members })
    }

    /// Creates the file, which only this user may read, with a new secret. An existing file is kept.
    pub(crate) fn create(path: &Path, members: &[SocketAddr]) -> Result<()> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let text = Text { secret: Hash::from_bytes(secret).to_hex().to_string(), members: members.to_vec() };
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.with_context(|| format!("cannot create the group {}", path.display()))?;
        file.write_all(toml::to_string(&text)?.as_bytes())?;
        Ok(file.sync_all()?)
    }

    /// Derives a key for one purpose from the secret.
    pub(super) fn key(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, self.secret.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn addresses(count: usize) -> Vec<SocketAddr> {
        (0..count).map(|nth| SocketAddr::from(([10, 0, 0, 1], 7000 + nth as u16))).collect()
    }

    #[test]
    fn a_group_is_created_once_and_for_this_user_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("group");
        GroupFile::create(&path, &addresses(3)).unwrap();
        let group = GroupFile::open(&path).unwrap();
        assert_eq!((path.metadata().unwrap().mode() & 0o777, &group.members), (0o600, &addresses(3)));
        assert_ne!(group.key("one"), group.key("other"));
        let before = fs::read(&path).unwrap();
        assert!(GroupFile::create(&path, &addresses(2)).is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(GroupFile::open(&path).is_err_and(|error| format!("{error:#}").contains("mode 0640")));
    }

    #[test]
    fn files_that_are_no_group_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let secret = "ab".repeat(32);
        let texts = [
            String::new(),
            format!("secret = '{secret}'\nmembers = ['10.0.0.1:7444']"),
            format!("secret = '{secret}'\nmembers = ['10.0.0.1:7444', '10.0.0.1:7444']"),
            format!("secret = '{secret}'\nmembers = ['10.0.0.1:7444', '0.0.0.0:7444']"),
            format!("secret = '{secret}'\nmembers = ['10.0.0.1:7444', '10.0.0.2:0']"),
            format!("secret = '{secret}'\nmembers = ['10.0.0.1:7444', 'b.example:1']"),
            format!("secret = '{secret}9'\nmembers = ['10.0.0.1:7444', '10.0.0.2:7444']"),
            format!("secret = '{secret}'\nother = 1\nmembers = ['10.0.0.1:7444', '10.0.0.2:7444']"),
            format!(
                "secret = '{secret}'\nmembers = {:?}",
                addresses(65).iter().map(ToString::to_string).collect::<Vec<_>>()
            ),
        ];
        for (nth, text) in texts.iter().enumerate() {
            let path = directory.path().join(nth.to_string());
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
            fs::write(&path, text).unwrap();
            assert!(GroupFile::open(&path).is_err(), "{text}");
        }
    }
}

//! Lists of peers' keys: text files with one key per line. Empty lines and lines that begin with `#` are ignored.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use longhaul_tls::Fingerprint;

/// Maximum size of a list in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Reason why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error("cannot use {path}: {error}", path = path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{path}, line {line}: {fault}", path = path.display())]
    Line { path: PathBuf, line: usize, fault: String },
}

/// The keys of the receivers and gateways that were connected to: a line has the peer, `HOST:PORT`, and its fingerprint.
#[derive(Debug)]
pub(super) struct KnownPeers {
    path: PathBuf,
    peers: HashMap<String, KnownPeer>,
}

/// An entry of [`KnownPeers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownPeer {
    pub(super) key: Fingerprint,
    /// Number of its line, counted from 1.
    pub(super) line: usize,
}

impl KnownPeers {
    pub(super) fn open(path: PathBuf) -> Result<Self, ListError> {
        let mut peers = HashMap::new();
        read(&path, |line, words| {
            let [peer, key] = words else {
                return Err("a line has a receiver, HOST:PORT, and its fingerprint".to_owned());
            };
            let key = key.parse::<Fingerprint>().map_err(|error| error.to_string())?;
            match peers.insert((*peer).to_owned(), KnownPeer { key, line }) {
                Some(earlier) => Err(format!("{peer} is also in line {}", earlier.line)),
                None => Ok(()),
            }
        })?;
        Ok(Self { path, peers })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn find(&self, peer: &str) -> Option<KnownPeer> {
        self.peers.get(peer).copied()
    }

    /// Appends a receiver to the file.
    pub(super) fn add(&self, peer: &str, key: Fingerprint) -> Result<(), ListError> {
        append(&self.path, &format!("{peer} {key}"))
    }
}

/// The keys that may connect: a line has the fingerprint, a name, and the permissions, separated by commas.
#[derive(Clone, Debug, Default)]
pub(super) struct AllowedPeers(HashMap<Fingerprint, AllowedPeer>);

/// What a peer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// Send files to `receive`.
    Send,
    /// Open connections through `gateway`.
    Forward,
    /// Let `gateway` listen.
    Listen,
}

impl Permission {
    const ALL: [Self; 3] = [Self::Send, Self::Forward, Self::Listen];

    /// Returns the word in `allowed-peers`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Forward => "forward",
            Self::Listen => "listen",
        }
    }

    fn parse(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|permission| permission.word() == word);
        found.ok_or_else(|| format!("there is no permission {word:?}; the permissions are: {}", Self::words()))
    }

    fn words() -> String {
        Self::ALL.map(Self::word).join(", ")
    }
}

/// An entry of [`AllowedPeers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AllowedPeer {
    /// Name for messages.
    pub(super) name: String,
    permissions: Vec<Permission>,
}

impl AllowedPeers {
    pub(super) fn open(path: &Path) -> Result<Self, ListError> {
        let mut peers = HashMap::new();
        read(path, |_, words| {
            let [key, name, permissions] = words else {
                let permissions = Permission::words();
                return Err(format!(
                    "a line has a fingerprint, a name without spaces, and permissions ({permissions})"
                ));
            };
            let key = key.parse::<Fingerprint>().map_err(|error| error.to_string())?;
            let permissions = permissions.split(',').map(Permission::parse).collect::<Result<_, _>>()?;
            match peers.insert(key, AllowedPeer { name: (*name).to_owned(), permissions }) {
                Some(earlier) => Err(format!("the key is also listed as {}", earlier.name)),
                None => Ok(()),
            }
        })?;
        Ok(Self(peers))
    }

    /// Gives a key a permission for this run, in addition to what the file says. A key that is not in the file is named
    /// after the option `by` that admits it.
    pub(super) fn allow(&mut self, key: Fingerprint, permission: Permission, by: &str) {
        let new = || AllowedPeer { name: by.to_owned(), permissions: Vec::new() };
        self.0.entry(key).or_insert_with(new).permissions.push(permission);
    }

    /// Appends a peer to the file, unless it has the permissions already.
    pub(super) fn remember(
        path: &Path,
        key: Fingerprint,
        name: &str,
        permissions: &[Permission],
    ) -> Result<(), ListError> {
        let present = Self::open(path)?;
        let words = permissions.iter().map(|permission| permission.word()).collect::<Vec<_>>().join(",");
        match present.find(&key) {
            Some(_) if permissions.iter().all(|permission| present.may(&key, *permission)) => Ok(()),
            Some(peer) => {
                let text = format!("{} is listed without the permission {words}", peer.name);
                Err(ListError::File { path: path.to_owned(), error: io::Error::other(text) })
            }
            None => append(path, &format!("{key} {name} {words}")),
        }
    }

    pub(super) fn find(&self, key: &Fingerprint) -> Option<&AllowedPeer> {
        self.0.get(key)
    }

    pub(super) fn may(&self, key: &Fingerprint, permission: Permission) -> bool {
        self.find(key).is_some_and(|peer| peer.permissions.contains(&permission))
    }

    /// Returns the number of keys that have a permission.
    pub(super) fn count(&self, permission: Permission) -> usize {
        self.0.values().filter(|peer| peer.permissions.contains(&permission)).count()
    }
}

/// Appends a line to a list.
fn append(path: &Path, line: &str) -> Result<(), ListError> {
    let append = || {
        let mut options = File::options();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        let text = fs::read(path)?;
        // A person may have left out the end of the last line.
        let start = if text.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
        file.write_all(format!("{start}{line}\n").as_bytes())
    };
    append().map_err(|error| ListError::File { path: path.to_owned(), error })
}

/// Calls `entry` with the number and the words of each line. A list that does not exist is empty.
fn read(path: &Path, mut entry: impl FnMut(usize, &[&str]) -> Result<(), String>) -> Result<(), ListError> {
    let failed = |error| ListError::File { path: path.to_owned(), error };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(failed)?;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<_> = line.split_whitespace().collect();
        if words.first().is_none_or(|first| first.starts_with('#')) {
            continue;
        }
        let line = index + 1;
        entry(line, &words).map_err(|fault| ListError::Line { path: path.to_owned(), line, fault })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "SHA256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const OTHER: &str = "SHA256:AAAAAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    #[test]
    fn receivers_are_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known-peers");
        let open = || KnownPeers::open(path.clone());
        assert_eq!(open().unwrap().find("host:1"), None);
        open().unwrap().add("host:1", ONE.parse().unwrap()).unwrap();
        fs::write(&path, fs::read_to_string(&path).unwrap() + "# a remark\n\n[::1]:2 " + OTHER).unwrap();
        open().unwrap().add("host:2", OTHER.parse().unwrap()).unwrap();
        let known = open().unwrap();
        assert_eq!(known.find("host:1"), Some(KnownPeer { key: ONE.parse().unwrap(), line: 1 }));
        assert_eq!(known.find("[::1]:2"), Some(KnownPeer { key: OTHER.parse().unwrap(), line: 4 }));
        assert_eq!(known.find("host:2"), Some(KnownPeer { key: OTHER.parse().unwrap(), line: 5 }));
    }

    #[test]
    fn faults_have_a_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        let fault = |text: String, allowed: bool| {
            fs::write(&path, text).unwrap();
            let error = if allowed {
                AllowedPeers::open(&path).unwrap_err()
            } else {
                KnownPeers::open(path.clone()).unwrap_err()
            };
            error.to_string().replace(&path.display().to_string(), "list")
        };
        let line = |what: &str| format!("list, line 2: {what}");
        let known = line("a line has a receiver, HOST:PORT, and its fingerprint");
        assert_eq!(fault("#\nhost:1\n".to_owned(), false), known);
        assert!(fault("#\nhost:1 SHA256:x\n".to_owned(), false).starts_with(&line("a fingerprint is ")));
        assert_eq!(fault(format!("h:1 {ONE}\nh:1 {OTHER}\n"), false), line("h:1 is also in line 1"));
        let allowed = line("a line has a fingerprint, a name without spaces, and permissions (send, forward, listen)");
        assert_eq!(fault(format!("\n{ONE} name\n"), true), allowed);
        assert!(fault("\nSHA256:x name send\n".to_owned(), true).starts_with(&line("a fingerprint is ")));
        let permission = line("there is no permission \"fly\"; the permissions are: send, forward, listen");
        assert_eq!(fault(format!("\n{ONE} name send,fly\n"), true), permission);
        assert_eq!(fault(format!("{ONE} a send\n{ONE} b send\n"), true), line("the key is also listed as a"));
    }

    #[test]
    fn only_listed_keys_may_connect() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("allowed-peers");
        let [one, other]: [Fingerprint; 2] = [ONE, OTHER].map(|key| key.parse().unwrap());
        let mut allowed = AllowedPeers::open(&path).unwrap();
        assert_eq!(allowed.count(Permission::Send), 0);
        allowed.allow(other, Permission::Send, "--allow");
        assert!(allowed.may(&other, Permission::Send) && !allowed.may(&one, Permission::Send));
        assert!(!allowed.may(&other, Permission::Forward) && allowed.count(Permission::Forward) == 0);
        fs::write(&path, format!("# machines\n{ONE}  ship   send\n{OTHER} bridge forward,send,listen\n")).unwrap();
        let mut allowed = AllowedPeers::open(&path).unwrap();
        assert_eq!(allowed.find(&one).unwrap().name, "ship");
        let may = |allowed: &AllowedPeers, key| Permission::ALL.map(|permission| allowed.may(key, permission));
        assert_eq!([may(&allowed, &one), may(&allowed, &other)], [[true, false, false], [true, true, true]]);
        let remember = |key, permission| AllowedPeers::remember(&path, key, "192.0.2.7", &[permission]);
        remember(one, Permission::Send).unwrap();
        let lacks = remember(one, Permission::Forward).unwrap_err().to_string();
        assert!(lacks.contains("ship is listed without the permission forward"), "{lacks}");
        let new = longhaul_tls::Identity::generate().unwrap().fingerprint();
        remember(new, Permission::Forward).unwrap();
        assert_eq!(may(&AllowedPeers::open(&path).unwrap(), &new), [false, true, false]);
        allowed.allow(one, Permission::Forward, "--code");
        assert_eq!(allowed.find(&one).unwrap().name, "ship", "a name in the file stays");
        allowed.allow(new, Permission::Forward, "--code");
        assert_eq!(allowed.find(&new).unwrap().name, "--code");
        assert_eq!((may(&allowed, &one), allowed.count(Permission::Forward)), ([true, true, false], 3));
    }
}

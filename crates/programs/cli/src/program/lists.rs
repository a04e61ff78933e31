//! Lists of peers' keys: text files with one key per line. Empty lines and lines that begin with `#` are ignored.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use longhaul_tls::Fingerprint;
use longhaul_units::named;

/// Maximum size of a list in bytes.
const MAX_FILE: u64 = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error("cannot use {path}: {error}", path = path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("there is no directory for a list of keys")]
    Nowhere,
    #[error("{path}, line {line}: {fault}", path = path.display())]
    Line { path: PathBuf, line: usize, fault: String },
}

/// Keys of known receivers and gateways. A line contains the peer, `HOST:PORT`, and its fingerprint.
#[derive(Debug, Default)]
pub(super) struct KnownPeers {
    path: PathBuf,
    peers: HashMap<String, KnownPeer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownPeer {
    pub(super) key: Fingerprint,
    /// Line number, counted from 1.
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
            // Equal lines are allowed: two programs may have remembered the same peer at the same time.
            match peers.insert((*peer).to_owned(), KnownPeer { key, line }) {
                Some(earlier) if earlier.key != key => Err(format!("{peer} is also in line {}", earlier.line)),
                _ => Ok(()),
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

    /// Appends a peer to the file, unless another program has already done so. Fails if the file has since received a
    /// different key for the peer.
    pub(super) fn add(&self, peer: &str, key: Fingerprint) -> Result<(), ListError> {
        append(&self.path, || match Self::open(self.path.clone())?.find(peer) {
            Some(known) if known.key == key => Ok(None),
            Some(known) => {
                let fault = format!("{peer} has been added with another key meanwhile");
                Err(ListError::Line { path: self.path.clone(), line: known.line, fault })
            }
            None => Ok(Some(format!("{peer} {key}"))),
        })
    }
}

/// Keys that may connect. A line contains the fingerprint, a name, and the permissions, separated by commas.
#[derive(Clone, Debug, Default)]
pub(super) struct AllowedPeers(HashMap<Fingerprint, AllowedPeer>);

named! {
    /// A permission, with its word in `allowed-peers`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Permission, ALL {
        /// Send files to `receive`.
        Send = "send",
        /// Open connections through `gateway`.
        Forward = "forward",
        /// Let `gateway` listen.
        Listen = "listen",
    }
}

impl Permission {
    fn parse(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|permission| permission.name() == word);
        found.ok_or_else(|| format!("there is no permission {word:?}; the permissions are: {}", Self::words()))
    }

    fn words() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AllowedPeer {
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
            let peer = AllowedPeer { name: (*name).to_owned(), permissions };
            match peers.insert(key, peer.clone()) {
                Some(earlier) if earlier != peer => Err(format!("the key is also listed as {}", earlier.name)),
                _ => Ok(()),
            }
        })?;
        Ok(Self(peers))
    }

    /// Gives a key a permission for this run, in addition to those in the file. If the file does not contain the key,
    /// the option `by` serves as its name.
    pub(super) fn allow(&mut self, key: Fingerprint, permission: Permission, by: &str) {
        let new = || AllowedPeer { name: by.to_owned(), permissions: Vec::new() };
        self.0.entry(key).or_insert_with(new).permissions.push(permission);
    }

    /// Appends a peer to the file, unless the peer already has the permissions.
    pub(super) fn remember(
        path: &Path,
        key: Fingerprint,
        name: &str,
        permissions: &[Permission],
    ) -> Result<(), ListError> {
        append(path, || {
            let present = Self::open(path)?;
            let words = permissions.iter().map(|permission| permission.name()).collect::<Vec<_>>().join(",");
            match present.find(&key) {
                Some(_) if permissions.iter().all(|permission| present.may(&key, *permission)) => Ok(None),
                Some(peer) => {
                    let text = format!("{} is listed without the permission {words}", peer.name);
                    Err(ListError::File { path: path.to_owned(), error: io::Error::other(text) })
                }
                None => Ok(Some(format!("{key} {name} {words}"))),
            }
        })
    }

    pub(super) fn find(&self, key: &Fingerprint) -> Option<&AllowedPeer> {
        self.0.get(key)
    }

    pub(super) fn may(&self, key: &Fingerprint, permission: Permission) -> bool {
        self.find(key).is_some_and(|peer| peer.permissions.contains(&permission))
    }

    pub(super) fn count(&self, permission: Permission) -> usize {
        self.0.values().filter(|peer| peer.permissions.contains(&permission)).count()
    }
}

/// Appends the line that `line` returns to a list. A lock prevents other programs from changing the list at the same
/// time.
fn append(path: &Path, line: impl FnOnce() -> Result<Option<String>, ListError>) -> Result<(), ListError> {
    if path.as_os_str().is_empty() {
        return Err(ListError::Nowhere);
    }
    let failed = |error| ListError::File { path: path.to_owned(), error };
    let mut file = File::options().read(true).append(true).create(true).mode(0o600).open(path).map_err(failed)?;
    // On a file system without locks, other programs may interfere. Closing the file releases the lock.
    let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive);
    let Some(line) = line()? else { return Ok(()) };
    let mut append = || {
        let text = fs::read(path)?;
        // After manual editing, the last line may lack a line end.
        let start = if text.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
        file.write_all(format!("{start}{line}\n").as_bytes())
    };
    append().map_err(failed)
}

/// Refuses a file that decides about trust if it belongs to neither the current user nor root, or if other users can
/// write to it.
pub(super) fn check_owner(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    if mode & 0o022 != 0 {
        return Err(io::Error::other(format!("others may write it (mode {mode:04o}); `chmod go-w` it")));
    }
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("it belongs to another user (uid {owner})")));
    }
    Ok(())
}

/// Returns whether opening a file failed because it does not exist. In a path such as `/dev/null/x`, a component may be
/// a file.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Calls `entry` with the number and the words of each line. A missing list is empty.
fn read(path: &Path, mut entry: impl FnMut(usize, &[&str]) -> Result<(), String>) -> Result<(), ListError> {
    let failed = |error| ListError::File { path: path.to_owned(), error };
    let file = match File::open(path) {
        Err(error) if is_missing(&error) => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    check_owner(&file).map_err(failed)?;
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

    /// Several programs remember the same peer at once, and one of them remembers another key.
    #[test]
    fn a_peer_is_remembered_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known-peers");
        let before: Vec<_> = (0..6).map(|_| KnownPeers::open(path.clone()).unwrap()).collect();
        let [one, other]: [Fingerprint; 2] = [ONE, OTHER].map(|key| key.parse().unwrap());
        std::thread::scope(|scope| {
            before.iter().for_each(|known| {
                scope.spawn(|| known.add("host:1", one).unwrap());
            });
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("host:1 {ONE}\n"));
        let changed = before[0].add("host:1", other).unwrap_err().to_string();
        assert!(changed.ends_with("line 1: host:1 has been added with another key meanwhile"), "{changed}");
        // Files of earlier versions may have equal lines.
        fs::write(&path, format!("host:1 {ONE}\nhost:1 {ONE}\n")).unwrap();
        assert_eq!(KnownPeers::open(path.clone()).unwrap().find("host:1").map(|peer| peer.key), Some(one));
        fs::write(&path, format!("{ONE} a send\n{ONE} a send\n")).unwrap();
        assert_eq!(AllowedPeers::open(&path).unwrap().count(Permission::Send), 1);
    }

    #[test]
    fn lists_that_others_may_write_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        fs::write(&path, "").unwrap();
        for (mode, is_refused) in [(0o600, false), (0o644, false), (0o664, true), (0o646, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            for read in [AllowedPeers::open(&path).err(), KnownPeers::open(path.clone()).err()] {
                assert_eq!(read.is_some(), is_refused, "{mode:o}");
                assert!(read.is_none_or(|error| error.to_string().contains("others may write it")));
            }
        }
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

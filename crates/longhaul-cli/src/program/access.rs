//! The keys that may connect to a running program, which reads its list anew on SIGHUP.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_tls::Fingerprint;
use tokio::sync::watch;

use super::Screen;
use super::home::Home;
use super::lists::{AllowedPeers, ListError, Permission};
use super::signals::Hangups;

/// The keys that may connect.
pub(super) struct Access {
    file: PathBuf,
    /// Keys that are allowed in addition to those of the file, for this run.
    extra: Mutex<Vec<(Fingerprint, Permission)>>,
    current: watch::Sender<Arc<AllowedPeers>>,
}

impl Access {
    /// Reads `allowed-peers`, and adds `extra` keys.
    pub(super) fn open(home: &Home, extra: Vec<(Fingerprint, Permission)>) -> Result<Self, ListError> {
        let (current, _) = watch::channel(Arc::default());
        let access = Self { file: home.allowed_file(), extra: Mutex::new(extra), current };
        access.read()?;
        Ok(access)
    }

    /// Returns whether a key has a permission.
    pub(super) fn may(&self, key: &Fingerprint, permission: Permission) -> bool {
        self.current.borrow().may(key, permission)
    }

    /// Allows a key for this run.
    pub(super) fn admit(&self, key: Fingerprint, permissions: &[Permission]) {
        let mut extra = self.extra.lock().unwrap_or_else(PoisonError::into_inner);
        extra.extend(permissions.iter().map(|permission| (key, *permission)));
        self.current.send_modify(|list| {
            permissions.iter().for_each(|permission| Arc::make_mut(list).allow(key, *permission));
        });
    }

    /// Returns the name of a key, which is empty if it has none.
    pub(super) fn name(&self, key: &Fingerprint) -> String {
        self.current.borrow().find(key).map(|entry| entry.name.clone()).unwrap_or_default()
    }

    /// Returns the number of keys with a permission.
    pub(super) fn count(&self, permission: Permission) -> usize {
        self.current.borrow().count(permission)
    }

    /// Completes when a key does not have all of these permissions any more.
    pub(super) async fn revoked(&self, key: &Fingerprint, permissions: &[Permission]) {
        let mut current = self.current.subscribe();
        let lost = |list: &Arc<AllowedPeers>| !permissions.iter().all(|permission| list.may(key, *permission));
        // The sender is ours, so that this does not fail.
        let _ = current.wait_for(lost).await;
    }

    /// Reads the list anew whenever the program receives one of these signals. If the list is not valid, the one before
    /// stays in force. Does not return.
    pub(super) async fn reload_on(&self, mut hangups: Hangups, permission: Permission, screen: &Screen) {
        loop {
            hangups.next().await;
            match self.read() {
                Ok(()) => {
                    let count = super::receive::count(self.count(permission));
                    screen.warn(&format!("{}: read anew, {count} may {}", self.file.display(), permission.word()));
                }
                Err(error) => screen.warn(&format!("{error}; the list that was read before stays in force")),
            }
        }
    }

    fn read(&self) -> Result<(), ListError> {
        let mut list = AllowedPeers::open(&self.file)?;
        for (key, permission) in self.extra.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            list.allow(*key, *permission);
        }
        self.current.send_replace(Arc::new(list));
        Ok(())
    }
}

//! Keys that may connect to a running program, which reloads the list on SIGHUP.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use longhaul_tls::Fingerprint;
use tokio::sync::watch;

use super::Screen;
use super::lists::{AllowedPeers, ListError, Permission};
use super::signals::Hangups;
use crate::report::count;
use crate::sync::lock;

struct Extra {
    key: Fingerprint,
    permission: Permission,
    by: &'static str,
}

pub(super) struct Access {
    file: PathBuf,
    /// Keys that are allowed for this run, in addition to those in the file.
    extra: Mutex<Vec<Extra>>,
    current: watch::Sender<Arc<AllowedPeers>>,
}

impl Access {
    /// Reads the list `file`, and adds the keys of `--allow`.
    pub(super) fn open(
        file: PathBuf,
        allow: impl Iterator<Item = (Fingerprint, Permission)>,
    ) -> Result<Self, ListError> {
        let (current, _) = watch::channel(Arc::default());
        let extra = allow.map(|(key, permission)| Extra { key, permission, by: "--allow" }).collect();
        let access = Self { file, extra: Mutex::new(extra), current };
        access.read()?;
        Ok(access)
    }

    pub(super) fn may(&self, key: &Fingerprint, permission: Permission) -> bool {
        self.current.borrow().may(key, permission)
    }

    /// Allows a key for this run. `by` is the option that authenticated it.
    pub(super) fn admit(&self, key: Fingerprint, permissions: &[Permission], by: &'static str) {
        let mut extra = lock(&self.extra);
        extra.extend(permissions.iter().map(|permission| Extra { key, permission: *permission, by }));
        self.current.send_modify(|list| {
            permissions.iter().for_each(|permission| Arc::make_mut(list).allow(key, *permission, by));
        });
    }

    /// Returns the name of a key, or an empty text if the key has no name.
    pub(super) fn name(&self, key: &Fingerprint) -> String {
        self.current.borrow().find(key).map(|entry| entry.name.clone()).unwrap_or_default()
    }

    pub(super) fn count(&self, permission: Permission) -> usize {
        self.current.borrow().count(permission)
    }

    /// Returns the number of keys with a permission, such as `1 key`.
    pub(super) fn keys(&self, permission: Permission) -> String {
        count(self.count(permission) as u64, "key")
    }

    /// Completes when a key has lost one of these permissions.
    pub(super) async fn revoked(&self, key: &Fingerprint, permissions: &[Permission]) {
        let mut current = self.current.subscribe();
        let lost = |list: &Arc<AllowedPeers>| !permissions.iter().all(|permission| list.may(key, *permission));
        // Cannot fail: `self` holds the sender of the channel.
        let _ = current.wait_for(lost).await;
    }

    /// Reloads the list at each of these signals. If the new list is not valid, the old one remains in force. Does not
    /// return.
    pub(super) async fn reload_on(&self, mut hangups: Hangups, permission: Permission, screen: &Screen) {
        loop {
            hangups.next().await;
            match self.read() {
                Ok(()) => {
                    let keys = self.keys(permission);
                    screen.warn(&format!("{}: read anew, {keys} may {}", self.file.display(), permission.name()));
                }
                Err(error) => screen.warn(&format!("{error}; the list that was read before stays in force")),
            }
        }
    }

    fn read(&self) -> Result<(), ListError> {
        let mut list = AllowedPeers::open(&self.file)?;
        for Extra { key, permission, by } in lock(&self.extra).iter() {
            list.allow(*key, *permission, by);
        }
        self.current.send_replace(Arc::new(list));
        Ok(())
    }
}

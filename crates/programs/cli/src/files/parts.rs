//! Parts: unfinished files that are continued by a later connection of the same sender.
//!
//! Like other unfinished files, a part is in the private directory under a random name, next to a [log](crate::sidecar)
//! with its description and the chaining values of its groups. A part belongs to the key of its sender, and is revealed
//! only to that sender. The stored contents are verified while the transfer continues after them.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use blake3::hazmat::ChainingValue;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::sync::Notify;
use tokio::time;

use super::syncing::Synced;
use super::{PART, Staging, TempFile};
use crate::groups::{Beside, GROUP};
use crate::names::Name;
use crate::protocol::Timestamp;
use crate::sidecar::Log;
use crate::sync::lock;

/// Name prefix of descriptions, followed by the same random characters as in the name of the part.
pub(super) const ABOUT: &str = "about-";
/// Maximum number of parts that are not being received. Beyond it, the sender with the most parts loses its oldest one.
pub(crate) const MAX_PARTS: usize = 64;
/// Time to wait until an older connection has released a part.
const TAKE_OVER: Duration = Duration::from_secs(10);
/// Time without data after which an older connection that receives a different version of a file is stopped.
const SILENCE: Duration = Duration::from_secs(2);

/// Sender and version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) peer: String,
    pub(crate) name: Name,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
}

impl Description {
    pub(super) fn key(&self) -> Key {
        (self.peer.clone(), self.name.clone())
    }
}

/// Key fingerprint of the sender, and name of the file.
pub(super) type Key = (String, Name);

pub(super) type Slots = HashMap<Key, Slot>;

#[derive(Debug)]
pub(super) enum Slot {
    /// No connection is receiving the rest.
    Left(Leftover),
    /// A connection is receiving the rest.
    Busy { version: Description, lease: Arc<Lease> },
}

/// State shared by the connection that receives a part and a newer connection that takes it over.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    evicted: Notify,
    arrivals: AtomicU64,
}

impl Lease {
    /// Waits until another connection takes over the part.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    pub(crate) fn arrived(&self) {
        self.arrivals.fetch_add(1, Ordering::Relaxed);
    }
}

/// A part left by an interrupted transfer.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(super) version: Description,
    pub(super) part: OsString,
    /// Sequence number among the parts left; larger numbers are later.
    pub(super) age: u64,
}

/// Data of a file that an earlier connection has left.
pub(crate) enum Found {
    Nothing,
    /// A part of a different version, which has been removed.
    Changed,
    Part(Leftover),
}

/// The right to receive a file, released on drop.
pub(crate) struct Claim {
    staging: Arc<Staging>,
    version: Description,
    lease: Arc<Lease>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut slots = lock(&self.staging.slots);
        if matches!(slots.get(&self.version.key()), Some(Slot::Busy { .. })) {
            slots.remove(&self.version.key());
        }
        drop(slots);
        self.staging.released.notify_waiters();
    }
}

impl Staging {
    /// Claims a file, and returns the data that an earlier connection has left. If an older connection is receiving the
    /// same version, it is stopped: its sender has reconnected before the failure was detected here. If it is receiving
    /// a different version, it is stopped only if no data arrives. Returns `None` if it does not stop.
    pub(crate) async fn claim(self: &Arc<Self>, version: Description) -> Option<(Claim, Found)> {
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            let (other, lease) = match self.try_claim(&version) {
                Ok(claimed) => return Some(claimed),
                Err(busy) => busy,
            };
            let before = lease.arrivals.load(Ordering::Relaxed);
            if other == version {
                lease.evicted.notify_one();
            } else if time::timeout(SILENCE, released.as_mut()).await.is_ok() {
                continue;
            } else if lease.arrivals.load(Ordering::Relaxed) == before {
                lease.evicted.notify_one();
            } else {
                return None;
            }
            time::timeout(TAKE_OVER, released).await.ok()?;
        }
    }

    /// Claims the file. If an older connection is receiving it, returns the version and the lease of that connection
    /// instead.
    fn try_claim(self: &Arc<Self>, version: &Description) -> Result<(Claim, Found), (Description, Arc<Lease>)> {
        let mut slots = lock(&self.slots);
        if let Some(Slot::Busy { version, lease }) = slots.get(&version.key()) {
            return Err((version.clone(), Arc::clone(lease)));
        }
        let lease = Arc::new(Lease::default());
        let busy = Slot::Busy { version: version.clone(), lease: Arc::clone(&lease) };
        let before = slots.insert(version.key(), busy);
        drop(slots);
        let found = match before {
            Some(Slot::Left(left)) if left.version == *version => Found::Part(left),
            Some(Slot::Left(left)) => {
                self.remove(&left.part);
                Found::Changed
            }
            _ => Found::Nothing,
        };
        Ok((Claim { staging: Arc::clone(self), version: version.clone(), lease }, found))
    }

    pub(crate) fn create_part(self: &Arc<Self>, claim: Claim) -> io::Result<TempFile> {
        let mut temp = self.create()?;
        let name = temp.file.path().file_name().ok_or(io::ErrorKind::NotFound)?.to_owned();
        let about = self.create_private(&about_name(&name))?;
        let log = Log::create(about, name.as_encoded_bytes(), &claim.version, self.boot)?;
        temp.part = Some(Part { claim, name, log: Synced::new(log) });
        Ok(temp)
    }

    /// Opens a part, and returns it with the chaining values of the groups that are certain to be stored, except the
    /// end of the file. If there are no such groups, or a file cannot be read, the part is removed and a new one is
    /// created.
    pub(crate) fn reopen(
        self: &Arc<Self>,
        claim: Claim,
        left: &Leftover,
    ) -> io::Result<(TempFile, Vec<ChainingValue>)> {
        let opened = self.open_private(&left.part).and_then(|file| {
            let about = self.open_private(&about_name(&left.part))?;
            let (log, mut groups) = Log::read(about, left.part.as_encoded_bytes(), self.boot)?;
            let stored = file.metadata()?.len().min(claim.version.size.saturating_sub(1)) / GROUP;
            groups.truncate(usize::try_from(stored).unwrap_or(usize::MAX));
            Ok((file, log, groups))
        });
        match opened {
            Ok((file, log, groups)) if !groups.is_empty() => {
                let path = tempfile::TempPath::try_from_path(self.private.join(&left.part))?;
                let file = NamedTempFile::from_parts(file, path);
                let part = Some(Part { claim, name: left.part.clone(), log: Synced::new(log) });
                Ok((TempFile { file, staging: Arc::clone(self), part, reserved: false, sparse: false }, groups))
            }
            _ => {
                self.remove(&left.part);
                Ok((self.create_part(claim)?, Vec::new()))
            }
        }
    }

    /// Returns the parts that are not being received, each with the number of bytes that it occupies.
    pub(crate) fn parts(&self) -> Vec<(Description, u64)> {
        let slots = lock(&self.slots);
        let left = slots.values().filter_map(|slot| match slot {
            Slot::Left(left) => Some((left.version.clone(), self.private.join(&left.part).metadata().ok()?.len())),
            Slot::Busy { .. } => None,
        });
        left.collect()
    }

    fn remove(&self, part: &OsStr) {
        for name in [part, &about_name(part)] {
            // The next process removes files that cannot be removed now.
            let _ = std::fs::remove_file(self.private.join(name));
        }
    }
}

impl TempFile {
    /// Continues after the first `groups` groups of a part, and removes what follows them.
    pub(crate) fn continue_at(&mut self, groups: u64) -> io::Result<()> {
        let file = self.file.as_file_mut();
        file.set_len(groups * GROUP)?;
        file.seek(SeekFrom::End(0))?;
        self.part.as_mut().map_or(Ok(()), |part| part.log.change(self.file.as_file(), |log| log.cut(groups)))
    }

    /// Opens the file a second time, to read it from its beginning.
    pub(crate) fn beside(&self) -> io::Result<Beside> {
        Beside::open(self.file.as_file())
    }
}

pub(super) struct Part {
    claim: Claim,
    name: OsString,
    log: Synced,
}

impl Part {
    /// Records a group that has been appended to `file`.
    pub(super) fn record(&mut self, file: &File, group: &ChainingValue) -> io::Result<()> {
        self.log.change(file, |log| log.append(group))
    }

    pub(super) fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.claim.lease)
    }

    /// Keeps the part for a later connection. Returns false if it has no complete group and is therefore useless.
    pub(super) fn leave(self) -> bool {
        if self.log.groups() == 0 {
            self.remove();
            return false;
        }
        let Self { claim, name, log } = self;
        drop(log);
        let mut slots = lock(&claim.staging.slots);
        let age = slots.values().map(|slot| if let Slot::Left(left) = slot { left.age + 1 } else { 0 }).max();
        let left = Leftover { version: claim.version.clone(), part: name, age: age.unwrap_or(0) };
        slots.insert(claim.version.key(), Slot::Left(left));
        let surplus = take_surplus(&mut slots);
        drop(slots);
        for part in surplus {
            claim.staging.remove(&part);
        }
        true
    }

    /// Removes the description; the owner of the part removes the file.
    pub(super) fn remove(self) {
        // The next process removes files that cannot be removed now.
        let _ = std::fs::remove_file(self.claim.staging.private.join(about_name(&self.name)));
    }
}

pub(super) fn about_name(part: &OsStr) -> OsString {
    let part = part.to_string_lossy();
    format!("{ABOUT}{}", part.strip_prefix(PART).unwrap_or(&part)).into()
}

/// Removes parts from `slots` until at most [`MAX_PARTS`] are left, each time the oldest part of the sender with the
/// most, so that a sender with many parts cannot displace those of others.
pub(super) fn take_surplus(slots: &mut Slots) -> Vec<OsString> {
    let mut left: Vec<_> = slots
        .iter()
        .filter_map(|(key, slot)| match slot {
            Slot::Left(left) => Some((left.age, key.clone())),
            Slot::Busy { .. } => None,
        })
        .collect();
    left.sort();
    let mut counts = HashMap::<_, usize>::new();
    left.iter().for_each(|(_, (peer, _))| *counts.entry(peer.clone()).or_default() += 1);
    let mut removed = Vec::new();
    for _ in MAX_PARTS..left.len() {
        let Some(most) = counts.iter_mut().max_by_key(|(_, count)| **count) else { break };
        *most.1 -= 1;
        let Some(at) = left.iter().position(|(_, (peer, _))| peer == most.0) else { break };
        if let Some(Slot::Left(left)) = slots.remove(&left.remove(at).1) {
            removed.push(left.part);
        }
    }
    removed
}

#[cfg(test)]
mod tests;

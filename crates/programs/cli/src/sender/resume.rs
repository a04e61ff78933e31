//! Continues a file of which the receiver has a part.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use blake3::Hash;
use blake3::hazmat::ChainingValue;

use super::cache::Place;
use crate::files::hashing::Stop;
use crate::groups::{Beside, GROUP, GroupHasher, chaining_values, digest};
use crate::sidecar::Log;

/// Part of a file to be sent.
#[derive(Default)]
pub(super) struct Rest {
    pub(super) hasher: GroupHasher,
    /// Stores the chaining values of the sent data.
    pub(super) log: Option<Log>,
    /// Verifies the data that is not sent.
    pub(super) check: Option<Check>,
}

impl Rest {
    /// Sends the whole file. The cache is optional: sending works without a log.
    pub(super) fn all(place: Option<&Place>) -> Self {
        Self { log: place.and_then(|place| place.create().ok()), ..Self::default() }
    }

    /// Sends the data after the first `groups` groups of `file`. `wanted` is the digest of the receiver's groups, `log`
    /// that of an earlier connection.
    pub(super) fn after(groups: u64, file: &File, wanted: Hash, log: Option<Log>) -> io::Result<Self> {
        let log = log.filter(|log| log.groups() >= groups);
        Ok(Self {
            hasher: GroupHasher::without(groups),
            log: log.and_then(|mut log| log.cut(groups).ok().map(|()| log)),
            check: Some(Check::start(file, groups, wanted)?),
        })
    }

    /// Waits at most this long until the data that is not sent has been read. Returns whether the receiver has the same
    /// data, or `None` if this is not known yet.
    pub(super) fn is_right(&mut self, patience: Duration) -> io::Result<Option<bool>> {
        self.check.as_mut().map_or(Ok(None), |check| check.is_right(patience))
    }

    /// Returns the chaining values of the beginning of the file that are known.
    pub(super) fn into_groups(self) -> Vec<ChainingValue> {
        self.check.map_or_else(|| self.hasher.into_groups(), Check::into_groups)
    }

    pub(super) fn record(&mut self, data: &[u8]) {
        let log = &mut self.log;
        let Ok(()) = self.hasher.update(data, |group| {
            // The hash does not depend on the log.
            if log.as_mut().is_some_and(|log| log.append(group).is_err()) {
                *log = None;
            }
            Ok::<_, Infallible>(())
        });
    }
}

/// Reads the groups at the beginning of a file on a thread, which stops when this is dropped.
pub(super) struct Check {
    /// Digest of the receiver's groups.
    wanted: Hash,
    groups: Receiver<io::Result<Vec<ChainingValue>>>,
    found: Option<Vec<ChainingValue>>,
    _stop: Box<dyn Send>,
}

impl Check {
    pub(super) fn start(file: &File, groups: u64, wanted: Hash) -> io::Result<Self> {
        let (file, stop, (sender, receiver)) = (Beside::open(file)?, Stop::default(), channel());
        let guard = Box::new(stop.on_drop());
        let read = move || sender.send(chaining_values(stop.reader(file), groups, |_, _| true));
        thread::Builder::new().name("check".to_owned()).spawn(read)?;
        Ok(Self { wanted, groups: receiver, found: None, _stop: guard })
    }

    fn is_right(&mut self, patience: Duration) -> io::Result<Option<bool>> {
        if self.found.is_none() {
            match self.groups.recv_timeout(patience) {
                Ok(found) => self.found = Some(found?),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("its reader has ended")),
            }
        }
        Ok(self.found.as_ref().map(|found| digest(found) == self.wanted))
    }

    /// Returns the chaining values that were read.
    pub(super) fn into_groups(self) -> Vec<ChainingValue> {
        self.found.unwrap_or_default()
    }
}

/// Returns whether a file of `size` bytes probably begins with the `groups` groups that a receiver offers. The decision
/// uses chaining values that were read recently, or else the `kept` ones. If there are too few kept values, the offer
/// is accepted.
pub(super) fn matches(
    groups: u64,
    offered: Hash,
    size: u64,
    read: Option<Vec<ChainingValue>>,
    kept: Option<Vec<ChainingValue>>,
) -> bool {
    let (at, unknown) = (usize::try_from(groups).unwrap_or(usize::MAX), read.is_none() && groups <= size / GROUP);
    let known = read.or(kept);
    known.as_ref().and_then(|known| known.get(..at)).map_or(unknown, |known| digest(known) == offered)
}

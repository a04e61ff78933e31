//! The receiver's data of a file before it is sent: the file, some of its contents, or the beginning of a part.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blake3::hazmat::ChainingValue;
use longhaul_tls::Fingerprint;
use tokio::task::JoinSet;

use super::body::{Body, Peer, evicted};
use super::error::Fault;
use super::{File, Receiver};
use crate::files::hashing::Stop;
use crate::files::{Staging, TempFile};
use crate::groups::{GROUP, GroupHasher, chaining_values};
use crate::mirror::MAX_GROUPS;
use crate::names::Name;
use crate::protocol::{self, FileHeader, ProtocolError, Reply, Timestamp};
use crate::sync::{blocking, completed};

impl Receiver {
    /// Returns the existing file if the sender proves by a hash that it has the same contents.
    pub(super) async fn claimed(
        &self,
        peer: &mut Peer<'_>,
        name: &Name,
        body: &mut Body,
        staging: &Arc<Staging>,
    ) -> Result<Option<File>, Fault> {
        peer.reply(&Reply::Same);
        let size = body.size.unwrap_or_default();
        body.wait_for_hash(size / GROUP);
        body.expect(peer, protocol::CLAIM).await?;
        let claim = body.hash(peer).await?;
        body.received = size;
        let ours = self.hash_here(peer, staging, name, body).await?.filter(|ours| *ours == claim);
        Ok(ours.map(|hash| body.file(name.clone(), size, hash)))
    }

    /// Returns the hash of the existing file if it has the size of `body`.
    pub(super) async fn hash_here(
        &self,
        peer: &mut Peer<'_>,
        staging: &Arc<Staging>,
        name: &Name,
        body: &Body,
    ) -> Result<Option<blake3::Hash>, Fault> {
        let (files, path, size) = (Arc::clone(staging), name.clone(), body.received);
        let hash = move |stop: &Stop| {
            let file = files.existing(&path)?;
            let fits = file.metadata()?.len() == size;
            let hasher = fits.then(|| GroupHasher::read(stop.reader(file), size)).transpose()?;
            io::Result::Ok(hasher.filter(|hasher| hasher.len() == size).map(|hasher| hasher.finalize()))
        };
        Ok(peer.hash(staging, hash).await?.ok().flatten())
    }
}

/// Returns whether the existing file may be a copy of the sent one: an earlier connection may have ended before the
/// sender learned of its success.
pub(super) async fn may_be_here(staging: &Arc<Staging>, header: &FileHeader) -> bool {
    let FileHeader { name, size, modified, keeps, asks, .. } = header.clone();
    let staging = Arc::clone(staging);
    let same = move || {
        let metadata = staging.existing(&name)?.metadata()?;
        let unchanged = !asks || !keeps || Timestamp::from(metadata.modified()?).clamped() == modified;
        io::Result::Ok(Some(metadata.len()) == size && unchanged)
    };
    blocking(same).await.unwrap_or(false)
}

/// The groups at the beginning of a part, which are read on a thread when it is the sender's turn. The thread stops when
/// this is dropped.
pub(super) struct Check {
    groups: u64,
    /// Has the only task, which returns the number of groups before the first one that has changed.
    task: JoinSet<u64>,
    failed: Arc<AtomicBool>,
}

impl Check {
    /// Starts to read the groups of `temp`, which had these chaining values.
    pub(super) fn start(
        staging: &Arc<Staging>,
        key: Option<Fingerprint>,
        temp: &TempFile,
        wanted: Vec<ChainingValue>,
    ) -> io::Result<Self> {
        let (file, staging, groups) = (temp.beside()?, Arc::clone(staging), wanted.len() as u64);
        let failed = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&failed);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let stop = Stop::default();
            let _guard = stop.on_drop();
            let turn = staging.hashing.turn(key).await;
            let read = move || {
                let found = chaining_values(stop.reader(file), groups, |at, group| wanted.get(at) == Some(group));
                drop(turn);
                // Data that cannot be read has to be sent again, too.
                found.map_or(0, |found| found.len() as u64)
            };
            let right = blocking(read).await;
            tells.store(right < groups, Ordering::Relaxed);
            right
        });
        Ok(Self { groups, task, failed })
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Body {
    /// Waits until the groups that were present before have been read.
    /// Fails if one of them has changed since it was received.
    pub(super) async fn checked(&mut self, peer: &mut Peer<'_>) -> Result<(), Fault> {
        let Some(check) = &mut self.check else { return Ok(()) };
        let read = completed(async { check.task.join_next().await.unwrap_or(Ok(0)) });
        let right = tokio::select! {
            right = peer.beside(read) => right?,
            () = evicted(self.lease.as_deref()) => return Err(Fault::Superseded),
        };
        if right < check.groups { Err(Fault::Damaged(right)) } else { Ok(()) }
    }
}

impl Receiver {
    /// Tells the sender the chaining values of the groups of the existing file, from which `body` can take contents.
    pub(super) async fn offer_groups(
        &self,
        peer: &mut Peer<'_>,
        staging: &Arc<Staging>,
        name: &Name,
        body: &mut Body,
    ) -> Result<(), Fault> {
        let (files, path) = (Arc::clone(staging), name.clone());
        let hash = move |stop: &Stop| {
            let file = files.existing(&path)?;
            let groups = chaining_values(stop.reader(&file), MAX_GROUPS, |_, _| true)?;
            io::Result::Ok((file, groups))
        };
        // If the file cannot be read, all contents are to be sent.
        let (file, groups) = peer.hash(staging, hash).await?.ok().unzip();
        body.copies = Copies { is_offered: true, file, ..Copies::default() };
        peer.reply(&Reply::Groups(groups.unwrap_or_default()));
        Ok(())
    }
}

/// The existing file, from which contents can be taken.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) is_offered: bool,
    file: Option<fs::File>,
    has_failed: bool,
}

impl Copies {
    /// Opens the existing file, of which the sender knows the blocks.
    pub(super) async fn open(staging: &Arc<Staging>, name: &Name) -> Self {
        let (files, path) = (Arc::clone(staging), name.clone());
        Self { is_offered: true, file: blocking(move || files.existing(&path)).await.ok(), ..Self::default() }
    }

    /// Reads `len` bytes from byte `from` on into `chunk`. After a failure, reads nothing: the rest of the file is discarded.
    pub(super) async fn read(&mut self, from: u64, len: u32, mut chunk: Vec<u8>) -> Result<Vec<u8>, Fault> {
        if u64::from(len) > GROUP {
            return Err(ProtocolError::ChunkTooLong(len).into());
        }
        chunk.clear();
        let mut file = match self.file.take() {
            _ if self.has_failed => return Ok(chunk),
            file => file,
        };
        let read = blocking(move || {
            let from_file = file.as_mut()?;
            chunk.resize(len as usize, 0);
            from_file.seek(SeekFrom::Start(from)).and_then(|_| from_file.read_exact(&mut chunk)).ok()?;
            Some((file, chunk))
        });
        let Some((file, chunk)) = read.await else {
            self.has_failed = true;
            return Err(Fault::Disk(io::Error::other("the existing file has changed meanwhile")));
        };
        self.file = file;
        Ok(chunk)
    }
}

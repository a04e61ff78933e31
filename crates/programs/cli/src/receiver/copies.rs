//! Changed files that have some groups in common with the existing file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use super::Receiver;
use super::body::{Body, Peer};
use super::error::Fault;
use crate::files::Staging;
use crate::files::hashing::Stop;
use crate::groups::{GROUP, chaining_values};
use crate::mirror::MAX_GROUPS;
use crate::names::Name;
use crate::protocol::{ProtocolError, Reply};
use crate::sync::blocking;

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
        // If the file cannot be read, all contents must be sent.
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
    file: Option<File>,
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

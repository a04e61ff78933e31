//! Files that already exist at the receiver.

use std::io;
use std::sync::Arc;

use super::body::{Body, Peer};
use super::error::Fault;
use super::{File, Receiver};
use crate::files::Staging;
use crate::files::hashing::Stop;
use crate::groups::{GROUP, GroupHasher};
use crate::names::Name;
use crate::protocol::{self, FileHeader, Reply, Timestamp};
use crate::sync::blocking;

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

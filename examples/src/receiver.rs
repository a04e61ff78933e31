//! The receiving end of [`protocol`].

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{self, Interval};

use crate::files::TempFile;
use crate::progress::{self, Progress, Screen, Side};
use crate::protocol::{self, FileHeader, HASH_LEN, ProtocolError, Reply};
use crate::report::Stopwatch;
use crate::transport::Transport;

/// Bytes given to the disk at a time.
const CHUNK: usize = 256 << 10;
/// Chunks received ahead of the disk.
const CHUNKS_AHEAD: usize = 4;

/// Why files were not received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// What came was not understood, or the connection failed between two files.
    #[error(transparent)]
    Peer(#[from] ProtocolError),
    /// The peer connected and said nothing.
    #[error("the peer sent nothing")]
    Silent,
    /// There is such a file.
    #[error("{0} exists already (receive with --overwrite to replace it)")]
    Exists(String),
    /// The file cannot be written.
    #[error("cannot write {name}: {error}")]
    Disk {
        /// Which.
        name: String,
        /// The system's word.
        error: io::Error,
    },
    /// The contents are not what the sender has.
    #[error("{0} was damaged on the way: its hash is not the sender's")]
    WrongHash(String),
    /// The connection ended in the middle of a file.
    #[error("receiving {name} failed after {received} of {size} bytes: {error}")]
    Interrupted {
        /// Which.
        name: String,
        /// Bytes received.
        received: u64,
        /// Its size.
        size: u64,
        /// Why.
        error: ProtocolError,
    },
}

impl ReceiveError {
    /// What the sender should be told; `None` if it can't hear.
    fn reason(&self) -> Option<String> {
        match self {
            Self::Peer(ProtocolError::Name(_) | ProtocolError::NotText) => Some(self.to_string()),
            Self::Exists(_) => Some("it exists already".to_owned()),
            Self::Disk { error, .. } => Some(format!("cannot write it: {error}")),
            Self::WrongHash(_) => Some("it was damaged on the way".to_owned()),
            Self::Peer(_) | Self::Silent | Self::Interrupted { .. } => None,
        }
    }
}

/// A file that is in place.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// From the first byte of its header to its final name.
    pub took: Duration,
    /// Its hash.
    pub hash: blake3::Hash,
}

/// Where and how files are received.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The directory they are put into.
    pub out: PathBuf,
    /// Whether they replace others of the same name.
    pub overwrite: bool,
    /// How long a peer that says nothing is waited for.
    pub patience: Duration,
    /// Where progress is shown.
    pub screen: Screen,
}

impl Receiver {
    /// Receives files until the peer has no more, and tells `done` of each. The transport is left open.
    ///
    /// # Errors
    /// Why the last one is not there. If the peer can hear, it was told.
    pub async fn serve<T: Transport>(
        &self,
        transport: &mut T,
        mut done: impl FnMut(&T, File),
    ) -> Result<(), ReceiveError> {
        let result = self.serve_all(transport, &mut done).await;
        if let Err(error) = &result
            && let Some(reason) = error.reason()
        {
            // If this fails as well, the first failure is still what matters.
            let _ = time::timeout(self.patience, refuse(transport, reason)).await;
        }
        result
    }

    async fn serve_all<T: Transport>(
        &self,
        transport: &mut T,
        done: &mut impl FnMut(&T, File),
    ) -> Result<(), ReceiveError> {
        let greeting = protocol::read_magic(transport);
        time::timeout(self.patience, greeting).await.map_err(|_| ReceiveError::Silent)??;
        while let Some(header) = protocol::read_header(transport).await? {
            let watch = Stopwatch::start();
            let (name, bytes) = (header.name.clone(), header.size);
            let hash = self.receive(transport, header).await?;
            done(transport, File { name, bytes, took: watch.elapsed(), hash });
            protocol::write_reply(transport, &Reply::Confirmed(hash)).await.map_err(ProtocolError::from)?;
        }
        Ok(())
    }

    async fn receive<T: Transport>(&self, transport: &mut T, header: FileHeader) -> Result<blake3::Hash, ReceiveError> {
        let FileHeader { name, size } = header;
        let disk = |error| ReceiveError::Disk { name: name.clone(), error };
        let target = self.out.join(&name);
        if !self.overwrite && target.try_exists().map_err(disk)? {
            return Err(ReceiveError::Exists(name));
        }
        let temp = TempFile::create(&self.out).map_err(disk)?;
        let (feed, chunks) = mpsc::channel(CHUNKS_AHEAD);
        let (spare, spares) = std::sync::mpsc::channel();
        let writer = tokio::task::spawn_blocking(move || write_chunks(temp, chunks, &spare));
        let progress = self.screen.begin(Side::Receiving, &name, size);
        let mut body = Body { size, received: 0, spares, progress, ticks: progress::ticks() };
        let read = body.read(transport, feed).await;
        // The disk's error comes first: it is why the reading was given up.
        let written = writer.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let (temp, ours) = written.map_err(disk)?;
        let received = body.received;
        let theirs = read.map_err(|error| ReceiveError::Interrupted { name: name.clone(), received, size, error })?;
        if theirs != Some(ours) {
            return Err(ReceiveError::WrongHash(name));
        }
        match temp.persist(&target, self.overwrite) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ReceiveError::Exists(name)),
            result => result.map(|()| ours).map_err(disk),
        }
    }
}

/// The contents of a file under way.
struct Body {
    size: u64,
    received: u64,
    /// Buffers that the disk is done with.
    spares: std::sync::mpsc::Receiver<Vec<u8>>,
    progress: Progress,
    ticks: Interval,
}

impl Body {
    /// Passes the contents to `feed`; returns the sender's hash, `None` if the disk gave up first.
    async fn read(
        &mut self,
        transport: &mut impl Transport,
        feed: mpsc::Sender<Vec<u8>>,
    ) -> Result<Option<blake3::Hash>, ProtocolError> {
        while self.received < self.size {
            let wanted = (self.size - self.received).min(CHUNK as u64) as usize;
            let mut chunk = self.spares.try_recv().unwrap_or_default();
            chunk.resize(wanted, 0);
            let mut filled = 0;
            while let Some(rest) = chunk.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                tokio::select! {
                    read = transport.read(rest) => match read? {
                        0 => return Err(ProtocolError::EarlyEnd),
                        more => filled += more,
                    },
                    _ = self.ticks.tick() => {
                        self.progress.update(self.received + filled as u64, &transport.snapshot());
                    }
                }
            }
            self.received += filled as u64;
            if feed.send(chunk).await.is_err() {
                return Ok(None);
            }
        }
        let mut hash = [0; HASH_LEN];
        transport.read_exact(&mut hash).await?;
        Ok(Some(hash.into()))
    }
}

/// Writes and hashes what comes, and gives the buffers back.
fn write_chunks(
    mut temp: TempFile,
    mut chunks: mpsc::Receiver<Vec<u8>>,
    spare: &std::sync::mpsc::Sender<Vec<u8>>,
) -> io::Result<(TempFile, blake3::Hash)> {
    let mut hasher = blake3::Hasher::new();
    while let Some(chunk) = chunks.blocking_recv() {
        temp.write_all(&chunk)?;
        hasher.update(&chunk);
        // At the end of the file nobody wants it.
        let _ = spare.send(chunk);
    }
    Ok((temp, hasher.finalize()))
}

/// Tells the sender why, and throws away what it still sends: a reset for unread data could overtake the reason.
async fn refuse(transport: &mut impl Transport, reason: String) -> io::Result<()> {
    protocol::write_reply(transport, &Reply::Refused(reason)).await?;
    transport.shutdown().await?;
    let mut waste = vec![0; CHUNK];
    while transport.read(&mut waste).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests;

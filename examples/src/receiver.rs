//! Receiving end of [`protocol`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{self, Interval};

use crate::files::Staging;
use crate::names;
use crate::progress::{self, Progress, Screen, Side};
use crate::protocol::{self, FileHeader, HASH_LEN, ProtocolError, Reply};
use crate::report::Stopwatch;
use crate::transport::Transport;

mod budget;
mod disk;

pub use budget::Budget;
use disk::Disk;

/// Bytes written to the disk at a time.
const CHUNK: usize = 256 << 10;
/// Minimum number of bytes that an upload must deliver in [`PROGRESS_TIME`] of waiting.
const LEAST_PROGRESS: u64 = 16 << 10;
/// Waiting time over which [`LEAST_PROGRESS`] is required; also the time that a peer has to name its next file.
const PROGRESS_TIME: Duration = Duration::from_secs(60);

/// Reason why files were not received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The peer's message was not valid, or the connection failed between two files.
    #[error(transparent)]
    Peer(#[from] ProtocolError),
    /// The peer connected and sent nothing.
    #[error("the peer sent nothing")]
    Silent,
    /// The name begins with a dot or a dash, which the options do not allow.
    #[error("{0} (receive with --allow-hidden to accept such names)")]
    Hidden(names::NameError),
    /// The peer named no further file in time, or did not read its reply.
    #[error("the peer was idle for too long")]
    Idle,
    /// The file exceeds the budget.
    #[error("{name} would exceed --max-bytes ({limit} bytes)")]
    TooLarge {
        /// The file's name.
        name: String,
        /// Maximum number of bytes of all files together.
        limit: u64,
    },
    /// The file arrives too slowly.
    #[error("receiving {name} ended after {received} of {size} bytes: less than {LEAST_PROGRESS} bytes came in {} s", PROGRESS_TIME.as_secs())]
    Stalled {
        /// The file's name.
        name: String,
        /// Bytes received.
        received: u64,
        /// The file's size.
        size: u64,
    },
    /// A file of this name exists.
    #[error("{0} exists already (receive with --overwrite to replace it)")]
    Exists(String),
    /// The file cannot be written.
    #[error("cannot write {name}: {error}")]
    Disk {
        /// The file's name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// The contents differ from the sender's.
    #[error("{0} was damaged on the way: its hash is not the sender's")]
    WrongHash(String),
    /// The connection ended in the middle of a file.
    #[error("receiving {name} failed after {received} of {size} bytes: {error}")]
    Interrupted {
        /// The file's name.
        name: String,
        /// Bytes received.
        received: u64,
        /// The file's size.
        size: u64,
        /// The connection's error.
        error: ProtocolError,
    },
}

impl ReceiveError {
    /// Returns what to tell the sender; `None` if the sender cannot be reached.
    fn reason(&self) -> Option<String> {
        match self {
            Self::Peer(ProtocolError::Name(_) | ProtocolError::NotText) => Some(self.to_string()),
            Self::Hidden(error) => Some(error.to_string()),
            Self::TooLarge { .. } => Some("it exceeds what the receiver accepts".to_owned()),
            Self::Stalled { .. } => Some("it arrives too slowly".to_owned()),
            Self::Exists(_) => Some("it exists already".to_owned()),
            Self::Disk { error, .. } => Some(format!("cannot write it: {error}")),
            Self::WrongHash(_) => Some("it was damaged on the way".to_owned()),
            Self::Peer(_) | Self::Silent | Self::Idle | Self::Interrupted { .. } => None,
        }
    }
}

/// A received file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Time from the first byte of the header to the final renaming.
    pub took: Duration,
    /// Its hash.
    pub hash: blake3::Hash,
}

/// Settings of the receiving end.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Directory for the received files.
    pub out: Arc<Staging>,
    /// Whether files replace existing files of the same name.
    pub overwrite: bool,
    /// Whether file names may begin with a dot or a dash.
    pub hidden: bool,
    /// Number of bytes that are accepted.
    pub budget: Budget,
    /// How long to wait for a silent peer.
    pub patience: Duration,
    /// Destination of the progress display.
    pub screen: Screen,
}

impl Receiver {
    /// Receives files until the peer has no more, and calls `done` for each of them. `greeted` is called when the
    /// peer has sent [`protocol::MAGIC`]. The transport is left open.
    ///
    /// # Errors
    /// Returns why the last file was not received. The sender was told the reason if it can be reached.
    pub async fn serve<T: Transport>(
        &self,
        transport: &mut T,
        greeted: impl FnOnce(),
        mut done: impl FnMut(&T, File),
    ) -> Result<(), ReceiveError> {
        let result = self.serve_all(transport, greeted, &mut done).await;
        if let Err(error) = &result
            && let Some(reason) = error.reason()
        {
            // A failure here is ignored: the first error is the one to report.
            let _ = time::timeout(self.patience, refuse(transport, reason)).await;
        }
        result
    }

    async fn serve_all<T: Transport>(
        &self,
        transport: &mut T,
        greeted: impl FnOnce(),
        done: &mut impl FnMut(&T, File),
    ) -> Result<(), ReceiveError> {
        let greeting = protocol::read_magic(transport);
        time::timeout(self.patience, greeting).await.map_err(|_| ReceiveError::Silent)??;
        greeted();
        loop {
            let header = time::timeout(PROGRESS_TIME, protocol::read_header(transport)).await;
            let Some(header) = header.map_err(|_| ReceiveError::Idle)?? else { return Ok(()) };
            let watch = Stopwatch::start();
            let (name, bytes) = (header.name.clone(), header.size);
            let hash = self.receive(transport, header).await?;
            done(transport, File { name, bytes, took: watch.elapsed(), hash });
            let confirmation = Reply::Confirmed(hash);
            let confirmed = time::timeout(PROGRESS_TIME, protocol::write_reply(transport, &confirmation)).await;
            confirmed.map_err(|_| ReceiveError::Idle)?.map_err(ProtocolError::from)?;
        }
    }

    async fn receive<T: Transport>(&self, transport: &mut T, header: FileHeader) -> Result<blake3::Hash, ReceiveError> {
        let FileHeader { name, size } = header;
        if !self.hidden {
            names::check_not_hidden(&name).map_err(ReceiveError::Hidden)?;
        }
        let too_large = |limit| ReceiveError::TooLarge { name: name.clone(), limit };
        let mut share = self.budget.begin(size).map_err(too_large)?;
        let disk = |error| ReceiveError::Disk { name: name.clone(), error };
        if !self.overwrite && self.out.out().join(&name).symlink_metadata().is_ok() {
            return Err(ReceiveError::Exists(name));
        }
        let temp = self.out.create().map_err(disk)?;
        let progress = self.screen.begin(Side::Receiving, &name, size);
        let mut body = Body { size, received: 0, waited: 0, before: 0, progress, ticks: progress::ticks() };
        let mut file = Disk::new(temp);
        while body.received < size {
            let chunk = match body.read(transport, file.buffer()).await {
                Ok(chunk) => chunk,
                Err(fault) => {
                    // A failure of the disk takes precedence, because it concerns other files too.
                    file.finish().await.map_err(disk)?;
                    let received = body.received;
                    return Err(match fault {
                        Fault::Slow => ReceiveError::Stalled { name, received, size },
                        Fault::Peer(error) => ReceiveError::Interrupted { name, received, size, error },
                    });
                }
            };
            share.add(chunk.len() as u64).map_err(too_large)?;
            file.write(chunk).await.map_err(disk)?;
        }
        let hash = body.read_hash(transport).await;
        let (temp, ours) = file.finish().await.map_err(disk)?;
        let received = body.received;
        let theirs = hash.map_err(|error| ReceiveError::Interrupted { name: name.clone(), received, size, error })?;
        if theirs != ours {
            return Err(ReceiveError::WrongHash(name));
        }
        let (target, overwrite) = (name.clone(), self.overwrite);
        match disk::blocking(move || temp.persist(&target, overwrite)).await {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ReceiveError::Exists(name)),
            Err(error) => Err(disk(error)),
            Ok(()) => {
                share.keep();
                Ok(ours)
            }
        }
    }
}

/// Reason why the contents of a file are incomplete.
enum Fault {
    Peer(ProtocolError),
    Slow,
}

impl From<ProtocolError> for Fault {
    fn from(error: ProtocolError) -> Self {
        Self::Peer(error)
    }
}

/// The contents of a file in transfer.
struct Body {
    size: u64,
    received: u64,
    /// Ticks spent waiting for the peer since it last made the minimum progress.
    waited: u32,
    /// Bytes received at that time.
    before: u64,
    progress: Progress,
    ticks: Interval,
}

impl Body {
    /// Reads the next chunk into `chunk`.
    async fn read(&mut self, transport: &mut impl Transport, mut chunk: Vec<u8>) -> Result<Vec<u8>, Fault> {
        let wanted = (self.size - self.received).min(CHUNK as u64) as usize;
        chunk.resize(wanted, 0);
        let mut filled = 0;
        while let Some(rest) = chunk.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            tokio::select! {
                read = transport.read(rest) => match read.map_err(ProtocolError::from)? {
                    0 => return Err(ProtocolError::EarlyEnd.into()),
                    more => filled += more,
                },
                _ = self.ticks.tick() => {
                    let now = self.received + filled as u64;
                    self.progress.update(now, &transport.snapshot());
                    self.wait(now)?;
                }
            }
        }
        self.received += filled as u64;
        Ok(chunk)
    }

    /// Counts a tick spent waiting; `now` bytes have been received.
    fn wait(&mut self, now: u64) -> Result<(), Fault> {
        self.waited += 1;
        if now - self.before >= LEAST_PROGRESS {
            (self.waited, self.before) = (0, now);
        }
        if progress::INTERVAL * self.waited >= PROGRESS_TIME { Err(Fault::Slow) } else { Ok(()) }
    }

    async fn read_hash(&self, transport: &mut impl Transport) -> Result<blake3::Hash, ProtocolError> {
        let mut hash = [0; HASH_LEN];
        let read = time::timeout(PROGRESS_TIME, transport.read_exact(&mut hash)).await;
        read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(hash.into())
    }
}

/// Tells the sender the reason and discards the rest of its data: a reset because of unread data could overtake the
/// reason.
async fn refuse(transport: &mut impl Transport, reason: String) -> io::Result<()> {
    protocol::write_reply(transport, &Reply::Refused(reason)).await?;
    transport.shutdown().await?;
    let mut waste = vec![0; CHUNK];
    while transport.read(&mut waste).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests;

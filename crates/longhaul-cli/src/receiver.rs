//! Receiving end of [`protocol`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{self, Interval};

use crate::files::{Staging, TempFile};
use crate::names;
use crate::progress::{self, Progress, Screen, Side};
use crate::protocol::{self, FileHeader, HASH_LEN, MAX_CHUNK, ProtocolError, Reply};
use crate::report::Stopwatch;
use crate::transport::Transport;

mod budget;
mod disk;

pub use budget::Budget;
use disk::{Disk, Sink};

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
    #[error("receiving {name} ended after {}: less than {LEAST_PROGRESS} bytes came in {} s", of(*received, *size), PROGRESS_TIME.as_secs())]
    Stalled {
        /// The file's name.
        name: String,
        /// Bytes received.
        received: u64,
        /// The file's size, if it was announced.
        size: Option<u64>,
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
    #[error("receiving {name} failed after {}: {error}", of(*received, *size))]
    Interrupted {
        /// The file's name.
        name: String,
        /// Bytes received.
        received: u64,
        /// The file's size, if it was announced.
        size: Option<u64>,
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
            Self::Interrupted { error: ProtocolError::WrongSize(_) | ProtocolError::ChunkTooLong(_), .. } => {
                Some("its contents are not as announced".to_owned())
            }
            Self::Peer(_) | Self::Silent | Self::Idle | Self::Interrupted { .. } => None,
        }
    }
}

/// Formats how much of a file has been received.
fn of(received: u64, size: Option<u64>) -> String {
    match size {
        Some(size) => format!("{received} of {size} bytes"),
        None => format!("{received} bytes"),
    }
}

/// What to do with a file whose name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Refuse it, which ends the connection.
    #[default]
    Refuse,
    /// Replace the existing file.
    Overwrite,
    /// Add a number to the name of the new file.
    Rename,
    /// Keep the existing file and continue with the next one.
    Skip,
}

/// Destination of received files.
#[derive(Clone, Debug)]
pub enum Output {
    /// A directory.
    Directory(Arc<Staging>),
    /// Standard output, for the contents alone. They are written as they arrive: only the exit code tells whether
    /// they were complete.
    Stdout,
}

/// A received file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its final name.
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
    /// Destination of the received files.
    pub out: Output,
    /// What to do with files whose name is taken.
    pub existing: Existing,
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
            let Some(Placed { name, bytes, hash }) = self.receive(transport, header).await? else { continue };
            done(transport, File { name, bytes, took: watch.elapsed(), hash });
            reply(transport, &Reply::Confirmed(hash)).await?;
        }
    }

    /// Receives a file; `None` if it was skipped.
    async fn receive<T: Transport>(
        &self,
        transport: &mut T,
        header: FileHeader,
    ) -> Result<Option<Placed>, ReceiveError> {
        let FileHeader { name, size } = header;
        if !self.hidden {
            names::check_not_hidden(&name).map_err(ReceiveError::Hidden)?;
        }
        let too_large = |limit| ReceiveError::TooLarge { name: name.clone(), limit };
        let mut share = self.budget.begin(size.unwrap_or(0)).map_err(too_large)?;
        let disk = |error| ReceiveError::Disk { name: name.clone(), error };
        let mut body = Body::new(size, self.screen.begin(Side::Receiving, &name, size));
        let sink = match &self.out {
            Output::Stdout => Sink::Stdout,
            Output::Directory(staging) => {
                // Found before the contents are sent. A file that appears meanwhile is found in the end.
                if staging.out().join(&name).symlink_metadata().is_ok() {
                    match self.existing {
                        Existing::Refuse => return Err(ReceiveError::Exists(name)),
                        Existing::Skip => return self.skip(transport, &name, body).await,
                        Existing::Overwrite | Existing::Rename => {}
                    }
                }
                Sink::File(staging.create().map_err(disk)?)
            }
        };
        let mut file = Disk::new(sink);
        let result = loop {
            match body.read(transport, file.buffer()).await {
                Ok(Some(chunk)) => {
                    share.add(chunk.len() as u64).map_err(too_large)?;
                    file.write(chunk).await.map_err(disk)?;
                }
                Ok(None) => break body.read_hash(transport).await.map_err(Fault::Peer),
                Err(fault) => break Err(fault),
            }
        };
        // A failure of the disk takes precedence, because it concerns other files too.
        let (sink, ours) = file.finish().await.map_err(disk)?;
        let theirs = result.map_err(|fault| fault.of(&name, &body))?;
        if theirs != ours {
            return Err(ReceiveError::WrongHash(name));
        }
        let placed = match sink {
            Sink::File(temp) => self.place(temp, &name).await,
            Sink::Stdout => Ok(name.clone()),
        };
        match placed {
            Ok(name) => {
                share.keep();
                Ok(Some(Placed { name, bytes: body.received, hash: ours }))
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(disk(error)),
            Err(_) if self.existing == Existing::Skip => {
                self.say_skipped(&name);
                reply(transport, &Reply::Skipped).await.map(|()| None)
            }
            Err(_) => Err(ReceiveError::Exists(name)),
        }
    }

    /// Gives a complete file its name, and returns that.
    async fn place(&self, temp: TempFile, name: &str) -> io::Result<String> {
        let (existing, name) = (self.existing, name.to_owned());
        let place = move || match existing {
            Existing::Rename => temp.persist_beside(&name),
            _ => temp.persist(&name, existing == Existing::Overwrite).map(|()| name),
        };
        disk::blocking(place).await
    }

    /// Tells the sender to keep the file, and discards what it has sent of it.
    async fn skip<T: Transport>(
        &self,
        transport: &mut T,
        name: &str,
        mut body: Body,
    ) -> Result<Option<Placed>, ReceiveError> {
        self.say_skipped(name);
        reply(transport, &Reply::Skipped).await?;
        let mut waste = Vec::new();
        loop {
            match body.read(transport, std::mem::take(&mut waste)).await {
                Ok(Some(chunk)) => waste = chunk,
                Ok(None) => return body.read_hash(transport).await.map(|_| None).map_err(ReceiveError::Peer),
                Err(Fault::Peer(ProtocolError::Abandoned)) => return Ok(None),
                Err(fault) => return Err(fault.of(name, &body)),
            }
        }
    }

    fn say_skipped(&self, name: &str) {
        self.screen.say(&format!("{name} exists already, skipped"));
    }
}

/// A file that is in its place.
struct Placed {
    name: String,
    bytes: u64,
    hash: blake3::Hash,
}

async fn reply(transport: &mut impl Transport, reply: &Reply) -> Result<(), ReceiveError> {
    let written = time::timeout(PROGRESS_TIME, protocol::write_reply(transport, reply)).await;
    Ok(written.map_err(|_| ReceiveError::Idle)?.map_err(ProtocolError::from)?)
}

/// Reason why the contents of a file are incomplete.
enum Fault {
    Peer(ProtocolError),
    Slow,
}

impl Fault {
    /// Returns the error of the file `name`.
    fn of(self, name: &str, body: &Body) -> ReceiveError {
        let (name, received, size) = (name.to_owned(), body.received, body.size);
        match self {
            Self::Slow => ReceiveError::Stalled { name, received, size },
            Self::Peer(error) => ReceiveError::Interrupted { name, received, size, error },
        }
    }
}

impl From<ProtocolError> for Fault {
    fn from(error: ProtocolError) -> Self {
        Self::Peer(error)
    }
}

/// The contents of a file in transfer.
struct Body {
    size: Option<u64>,
    received: u64,
    /// Ticks spent waiting for the peer since it last made the minimum progress.
    waited: u32,
    /// Bytes received at that time.
    before: u64,
    progress: Progress,
    ticks: Interval,
}

impl Body {
    fn new(size: Option<u64>, progress: Progress) -> Self {
        Self { size, received: 0, waited: 0, before: 0, progress, ticks: progress::ticks() }
    }

    /// Reads the next chunk into the buffer `chunk`; `None` at the end of the contents.
    async fn read(&mut self, transport: &mut impl Transport, mut chunk: Vec<u8>) -> Result<Option<Vec<u8>>, Fault> {
        let mut len = [0; 4];
        self.fill(transport, &mut len, false).await?;
        let len = u32::from_be_bytes(len);
        match (len, self.size) {
            (protocol::END, Some(size)) if self.received < size => return Err(ProtocolError::WrongSize(size).into()),
            (protocol::END, _) => return Ok(None),
            (protocol::ABANDONED, _) => return Err(ProtocolError::Abandoned.into()),
            (len, _) if len as usize > MAX_CHUNK => return Err(ProtocolError::ChunkTooLong(len).into()),
            (len, Some(size)) if u64::from(len) > size - self.received => {
                return Err(ProtocolError::WrongSize(size).into());
            }
            _ => {}
        }
        chunk.resize(len as usize, 0);
        self.fill(transport, &mut chunk, true).await?;
        Ok(Some(chunk))
    }

    /// Reads until `buffer` is full. Only `contents` count as progress.
    async fn fill(&mut self, transport: &mut impl Transport, buffer: &mut [u8], contents: bool) -> Result<(), Fault> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            tokio::select! {
                read = transport.read(rest) => match read.map_err(ProtocolError::from)? {
                    0 => return Err(ProtocolError::EarlyEnd.into()),
                    more => filled += more,
                },
                _ = self.ticks.tick() => {
                    let now = self.received + if contents { filled as u64 } else { 0 };
                    self.progress.update(now, &transport.snapshot());
                    self.wait(now)?;
                }
            }
        }
        if contents {
            self.received += filled as u64;
        }
        Ok(())
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
    let mut waste = vec![0; MAX_CHUNK];
    while transport.read(&mut waste).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests;

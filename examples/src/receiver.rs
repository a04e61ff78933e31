//! The receiving end of [`protocol`].

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

/// Bytes given to the disk at a time.
const CHUNK: usize = 256 << 10;
/// An upload is ended if it brings fewer bytes than this...
const LEAST_PROGRESS: u64 = 16 << 10;
/// ...while the receiver waits for it for so long. A peer has as long to name the next file.
const PROGRESS_TIME: Duration = Duration::from_secs(60);

/// Why files were not received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// What came was not understood, or the connection failed between two files.
    #[error(transparent)]
    Peer(#[from] ProtocolError),
    /// The peer connected and said nothing.
    #[error("the peer sent nothing")]
    Silent,
    /// A name that begins with a dot or a dash, which was not asked for.
    #[error("{0} (receive with --allow-hidden to accept such names)")]
    Hidden(names::NameError),
    /// The peer has named no file for long, or takes no answer.
    #[error("the peer does nothing")]
    Idle,
    /// There is no room for it.
    #[error("{name} would exceed --max-bytes ({limit} bytes)")]
    TooLarge {
        /// Which.
        name: String,
        /// All files together may have so many bytes.
        limit: u64,
    },
    /// It comes too slowly.
    #[error("receiving {name} ended after {received} of {size} bytes: less than {LEAST_PROGRESS} bytes came in {} s", PROGRESS_TIME.as_secs())]
    Stalled {
        /// Which.
        name: String,
        /// Bytes received.
        received: u64,
        /// Its size.
        size: u64,
    },
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
            Self::Hidden(error) => Some(error.to_string()),
            Self::TooLarge { .. } => Some("it is more than the receiver accepts".to_owned()),
            Self::Stalled { .. } => Some("it comes too slowly".to_owned()),
            Self::Exists(_) => Some("it exists already".to_owned()),
            Self::Disk { error, .. } => Some(format!("cannot write it: {error}")),
            Self::WrongHash(_) => Some("it was damaged on the way".to_owned()),
            Self::Peer(_) | Self::Silent | Self::Idle | Self::Interrupted { .. } => None,
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
    pub out: Arc<Staging>,
    /// Whether they replace others of the same name.
    pub overwrite: bool,
    /// Whether their names may begin with a dot or a dash.
    pub hidden: bool,
    /// How many bytes are accepted.
    pub budget: Budget,
    /// How long a peer that says nothing is waited for.
    pub patience: Duration,
    /// Where progress is shown.
    pub screen: Screen,
}

impl Receiver {
    /// Receives files until the peer has no more, and tells `done` of each. `greeted` is told when the peer has said that
    /// it is a sender. The transport is left open.
    ///
    /// # Errors
    /// Why the last one is not there. If the peer can hear, it was told.
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
            // If this fails as well, the first failure is still what matters.
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
                    // If the disk has failed meanwhile, that is told: it concerns more than this file.
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

/// Why no more of a file comes.
enum Fault {
    Peer(ProtocolError),
    Slow,
}

impl From<ProtocolError> for Fault {
    fn from(error: ProtocolError) -> Self {
        Self::Peer(error)
    }
}

/// The contents of a file under way.
struct Body {
    size: u64,
    received: u64,
    /// Ticks for which the peer was waited for since there was the least progress.
    waited: u32,
    /// What had been received then.
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

    /// Another tick was spent waiting, with `now` bytes received.
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

//! Receiving end of [`protocol`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time;

use crate::files::parts::{Description, Found};
use crate::files::{Attributes, Staging, TempFile};
use crate::groups::{GROUP, GroupHasher, Prefix};
use crate::names;
use crate::progress::{Screen, Side};
use crate::protocol::{self, FileHeader, Kind, MAX_CHUNK, ProtocolError, Reply, Timestamp};
use crate::report::{self, Stopwatch};
use crate::transport::Transport;

mod body;
mod budget;
mod disk;
mod error;

use body::{Body, Fault, Peer};

pub use budget::{Budget, Exceeded};
use disk::{Disk, Sink};
pub use error::ReceiveError;

/// Minimum number of bytes that an upload must deliver in [`PROGRESS_TIME`] of waiting.
const LEAST_PROGRESS: u64 = 16 << 10;
/// Waiting time over which [`LEAST_PROGRESS`] is required; also the time that a peer has to name its next file.
const PROGRESS_TIME: Duration = Duration::from_secs(60);

/// Size from which on space is reserved for a file. For smaller ones it would take longer than writing them.
const LEAST_RESERVED: u64 = 1 << 20;

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
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes that were here from earlier connections.
    pub resumed: u64,
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
        let (mut peer, mut number) = (Peer::new(transport), 0);
        let result = self.serve_all(&mut peer, &mut number, greeted, &mut done).await;
        if let Err(error) = &result
            && let Some(reason) = error.reason()
        {
            // A failure here is ignored: the first error is the one to report.
            let _ = time::timeout(self.patience, refuse(&mut peer, number, reason)).await;
        }
        result
    }

    async fn serve_all<T: Transport>(
        &self,
        peer: &mut Peer<'_, T>,
        number: &mut u64,
        greeted: impl FnOnce(),
        done: &mut impl FnMut(&T, File),
    ) -> Result<(), ReceiveError> {
        let greeting = protocol::read_magic(peer.transport);
        time::timeout(self.patience, greeting).await.map_err(|_| ReceiveError::Silent)??;
        greeted();
        loop {
            let header = time::timeout(PROGRESS_TIME, next_header(peer)).await;
            let Some(header) = header.map_err(|_| ReceiveError::Idle)?? else { return Ok(()) };
            let watch = Stopwatch::start();
            if let Some(Placed { name, bytes, resumed, hash }) = self.receive(peer, *number, header).await? {
                peer.reply(*number, &Reply::Confirmed);
                done(peer.transport, File { name, bytes, resumed, took: watch.elapsed(), hash });
            }
            *number += 1;
        }
    }

    /// Receives file `number`; `None` if it was skipped.
    async fn receive<T: Transport>(
        &self,
        peer: &mut Peer<'_, T>,
        number: u64,
        header: FileHeader,
    ) -> Result<Option<Placed>, ReceiveError> {
        let FileHeader { name, size, .. } = &header;
        if !self.hidden
            && let Err(error) = names::check_not_hidden(name)
        {
            // A directory may have hidden files that nobody misses.
            if !name.contains('/') {
                return Err(ReceiveError::Hidden(error));
            }
            return self.decline(peer, number, &header, &error.to_string()).await.map(|()| None);
        }
        if header.kind != Kind::File {
            self.entry(peer, number, header).await;
            return Ok(None);
        }
        let too_large = |limit| ReceiveError::TooLarge { name: name.clone(), limit };
        let mut share = self.budget.begin(peer.transport.peer_key(), name, size.unwrap_or(0)).map_err(too_large)?;
        let disk = |error| ReceiveError::Disk { name: name.clone(), error };
        let mut body = Body::new(*size, self.screen.begin(Side::Receiving, name, *size));
        let staging = match &self.out {
            Output::Stdout => None,
            Output::Directory(staging) => Some(staging),
        };
        // Found before the contents are sent. A file that appears meanwhile is found in the end.
        if let Some(staging) = staging
            && staging.check(name).map_err(disk)?
        {
            match self.existing {
                Existing::Skip => {
                    self.say_skipped(name);
                    peer.reply(number, &Reply::Skipped);
                    return self.discard(peer, name, body).await.map(|()| None);
                }
                Existing::Refuse if !self.may_be_here(staging, &header).await => {
                    return Err(ReceiveError::Exists(name.clone()));
                }
                Existing::Refuse if header.asks => {
                    let claimed = self.claimed(peer, number, name, &mut body, staging).await?;
                    return claimed.map(Some).ok_or_else(|| ReceiveError::Exists(name.clone()));
                }
                Existing::Refuse | Existing::Overwrite | Existing::Rename => {}
            }
        }
        let mut file = match staging {
            Some(staging) => self.begin(peer, number, &header, &mut body, staging).await?,
            None => {
                if header.asks {
                    peer.reply(number, &Reply::Go);
                }
                Disk::new(Sink::Stdout, GroupHasher::default())
            }
        };
        let resumed = body.received;
        if body.lease.is_some() {
            share.resume(resumed);
        }
        let result = loop {
            match body.read(peer, file.buffer()).await {
                Ok(Some(chunk)) => {
                    share.add(chunk.len() as u64).map_err(too_large)?;
                    file.write(chunk).await.map_err(disk)?;
                }
                Ok(None) => break body.hash(peer).await,
                Err(fault) => break Err(fault),
            }
        };
        // A failure of the disk takes precedence, because it concerns other files too.
        let (sink, hasher) = file.finish().await.map_err(disk)?;
        if result.is_err() && body.lease.is_some() && body.received >= GROUP {
            // The part stays on the disk.
            share.leave();
            share = budget::Share::default();
        }
        let (theirs, ours) = (result.map_err(|fault| fault.of(name, &body))?, hasher.finalize());
        let placed = match sink {
            Sink::File(temp) if theirs != ours => {
                temp.discard();
                return Err(ReceiveError::WrongHash(name.clone()));
            }
            Sink::Stdout if theirs != ours => return Err(ReceiveError::WrongHash(name.clone())),
            Sink::File(temp) => self.place(temp, &header).await,
            Sink::Stdout => Ok(name.clone()),
        };
        let bytes = body.received;
        match placed {
            Ok(name) => {
                share.keep();
                Ok(Some(Placed { name, bytes, resumed, hash: ours }))
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(disk(error)),
            Err(_) if self.existing == Existing::Skip => {
                self.say_skipped(name);
                peer.reply(number, &Reply::Skipped);
                Ok(None)
            }
            Err(_) => match staging {
                Some(staging) if self.hash_here(staging, name, bytes).await == Some(ours) => {
                    Ok(Some(Placed { name: name.clone(), bytes, resumed: bytes, hash: ours }))
                }
                _ => Err(ReceiveError::Exists(name.clone())),
            },
        }
    }

    /// Starts to write a file, with what an earlier connection of the same sender left of it.
    async fn begin<T: Transport>(
        &self,
        peer: &mut Peer<'_, T>,
        number: u64,
        header: &FileHeader,
        body: &mut Body,
        staging: &Arc<Staging>,
    ) -> Result<Disk, ReceiveError> {
        let FileHeader { name, size, modified, asks, .. } = header;
        let disk = |error| ReceiveError::Disk { name: name.clone(), error };
        let mut reply = Reply::Go;
        let (mut temp, mut prefix) = (None, Prefix::default());
        // Without a key, anyone could be the sender of a part.
        if let (true, Some(key), Some(size)) = (*asks, peer.transport.peer_key(), *size) {
            let version = Description { peer: key.to_string(), name: name.clone(), size, modified: *modified };
            if let Some((claim, found)) = staging.claim(version).await {
                let staging = Arc::clone(staging);
                let opened = match found {
                    Found::Part(left) => disk::blocking(move || staging.reopen(claim, &left)).await,
                    Found::Changed => {
                        reply = Reply::Anew;
                        self.screen.say(&format!("{name} has changed since it was interrupted, and is received anew"));
                        staging.create_part(claim).map(|temp| (temp, Prefix::default()))
                    }
                    Found::Nothing => staging.create_part(claim).map(|temp| (temp, Prefix::default())),
                };
                let (part, whole) = opened.map_err(disk)?;
                body.lease = part.lease();
                (temp, prefix) = (Some(part), whole);
            }
        }
        let mut temp = match temp {
            Some(temp) => temp,
            None => staging.create().map_err(disk)?,
        };
        if let Some(size) = size {
            temp = reserve(temp, prefix.hasher.len(), *size).await.map_err(disk)?;
        }
        if prefix.groups > 0 {
            let digest = prefix.digest.finalize();
            peer.reply(number, &Reply::Offer { groups: prefix.groups, digest });
            body.wait_for_hash(prefix.groups);
            match self.start(peer, body).await {
                Ok(from) if from == prefix.groups => body.skip(prefix.hasher.len()),
                Ok(0) => prefix = Prefix::default(),
                Ok(_) => return Err(Fault::Peer(ProtocolError::BadMessage(protocol::START)).of(name, body)),
                Err(fault) => return Err(fault.of(name, body)),
            }
            temp.continue_at(prefix.groups).map_err(disk)?;
            // Shortening the part has released what was reserved.
            temp = reserve(temp, body.received, body.size.unwrap_or_default()).await.map_err(disk)?;
            let from = report::size(body.received);
            self.screen.say(&match prefix.groups {
                0 => format!("{name} is not what was interrupted, and is received anew"),
                _ => format!("{name} is continued after {from}"),
            });
        } else if *asks {
            peer.reply(number, &reply);
        }
        Ok(Disk::new(Sink::File(temp), prefix.hasher))
    }

    /// Reads the number of groups after which the sender continues.
    async fn start<T: Transport>(&self, peer: &mut Peer<'_, T>, body: &mut Body) -> Result<u64, Fault> {
        match body.message(peer).await? {
            protocol::START => body.fixed(peer).await.map(u64::from_be_bytes),
            other => Err(ProtocolError::BadMessage(other).into()),
        }
    }

    /// Returns whether the existing file may be the one that is sent: an earlier connection may have ended before the
    /// sender heard of the success.
    async fn may_be_here(&self, staging: &Arc<Staging>, header: &FileHeader) -> bool {
        let FileHeader { name, size, modified, keeps, asks, .. } = header.clone();
        let staging = Arc::clone(staging);
        let same = move || {
            let metadata = staging.existing(&name)?.metadata()?;
            let unchanged = !asks || !keeps || Timestamp::from(metadata.modified()?) == modified;
            io::Result::Ok(Some(metadata.len()) == size && unchanged)
        };
        disk::blocking(same).await.unwrap_or(false)
    }

    /// Returns the existing file if the sender proves by its hash that it has the same one.
    async fn claimed<T: Transport>(
        &self,
        peer: &mut Peer<'_, T>,
        number: u64,
        name: &str,
        body: &mut Body,
        staging: &Arc<Staging>,
    ) -> Result<Option<Placed>, ReceiveError> {
        peer.reply(number, &Reply::Same);
        let size = body.size.unwrap_or_default();
        body.wait_for_hash(size / GROUP);
        let claim = match body.message(peer).await {
            Ok(protocol::CLAIM) => body.hash(peer).await,
            Ok(other) => Err(ProtocolError::BadMessage(other).into()),
            Err(fault) => Err(fault),
        };
        let claim = claim.map_err(|fault| fault.of(name, body))?;
        let ours = self.hash_here(staging, name, size).await.filter(|ours| *ours == claim);
        Ok(ours.map(|hash| Placed { name: name.to_owned(), bytes: size, resumed: size, hash }))
    }

    /// Returns the hash of an existing file of this size.
    async fn hash_here(&self, staging: &Arc<Staging>, name: &str, size: u64) -> Option<blake3::Hash> {
        let (staging, name) = (Arc::clone(staging), name.to_owned());
        let hash = move || {
            let file = staging.existing(&name)?;
            let fits = file.metadata()?.len() == size;
            let hasher = fits.then(|| GroupHasher::read(file, size)).transpose()?;
            io::Result::Ok(hasher.filter(|hasher| hasher.len() == size).map(|hasher| hasher.finalize()))
        };
        disk::blocking(hash).await.ok().flatten()
    }

    /// Gives a complete file its name, and returns that.
    async fn place(&self, temp: TempFile, header: &FileHeader) -> io::Result<String> {
        let (existing, name, attributes) = (self.existing, header.name.clone(), attributes(header));
        let place = move || {
            if let Some(attributes) = attributes {
                temp.set(attributes)?;
            }
            match existing {
                Existing::Rename => temp.persist_beside(&name),
                _ => temp.persist(&name, existing == Existing::Overwrite).map(|()| name),
            }
        };
        disk::blocking(place).await
    }

    /// Creates a directory or a symbolic link. The others are received also if it fails.
    async fn entry<T: Transport>(&self, peer: &mut Peer<'_, T>, number: u64, header: FileHeader) {
        let (name, overwrite) = (header.name.clone(), self.existing == Existing::Overwrite);
        let created = match &self.out {
            Output::Stdout => Ok(()),
            Output::Directory(staging) => {
                let staging = Arc::clone(staging);
                let create = move || match &header.kind {
                    Kind::Link(target) => staging.link(&header.name, target, overwrite),
                    Kind::Directory | Kind::File => staging.directory(&header.name, attributes(&header)),
                };
                disk::blocking(create).await
            }
        };
        let reply = match created {
            Ok(()) => Reply::Confirmed,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.existing == Existing::Skip => {
                self.say_skipped(&name);
                Reply::Skipped
            }
            Err(error) => {
                let why = error::sentence(&error);
                self.screen.warn(&format!("cannot create {name}: {why}"));
                Reply::Declined(format!("cannot create it: {why}"))
            }
        };
        peer.reply(number, &reply);
    }

    /// Tells the sender why the file is not wanted, and discards what it has sent of it.
    async fn decline<T: Transport>(
        &self,
        peer: &mut Peer<'_, T>,
        number: u64,
        header: &FileHeader,
        reason: &str,
    ) -> Result<(), ReceiveError> {
        let FileHeader { kind, name, size, .. } = header;
        self.screen.say(&format!("{name} is not wanted: {reason}"));
        peer.reply(number, &Reply::Declined(reason.to_owned()));
        match kind {
            Kind::File => {
                let body = Body::new(*size, self.screen.begin(Side::Receiving, name, *size));
                self.discard(peer, name, body).await
            }
            Kind::Directory | Kind::Link(_) => Ok(()),
        }
    }

    /// Discards what the sender has sent of a file before it heard that the file is not wanted.
    async fn discard<T: Transport>(
        &self,
        peer: &mut Peer<'_, T>,
        name: &str,
        mut body: Body,
    ) -> Result<(), ReceiveError> {
        let mut waste = Vec::new();
        loop {
            match body.read(peer, std::mem::take(&mut waste)).await {
                Ok(Some(chunk)) => waste = chunk,
                Ok(None) => return body.hash(peer).await.map(|_| ()).map_err(|fault| fault.of(name, &body)),
                Err(Fault::Peer(ProtocolError::Abandoned)) => return Ok(()),
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
    resumed: u64,
    hash: blake3::Hash,
}

/// Returns the attributes that are kept.
fn attributes(header: &FileHeader) -> Option<Attributes> {
    header.keeps.then_some(Attributes { mode: header.mode, modified: header.modified })
}

/// Reads the header of the next file; `None` if there is none.
/// Finds out whether there is room for the contents of a file from the byte `from` on, and reserves some of it.
async fn reserve(mut temp: TempFile, from: u64, size: u64) -> io::Result<TempFile> {
    if size.saturating_sub(from) < LEAST_RESERVED {
        return Ok(temp);
    }
    disk::blocking(move || temp.reserve(from, size).map(|()| temp)).await
}

async fn next_header<T: Transport>(peer: &mut Peer<'_, T>) -> Result<Option<FileHeader>, ProtocolError> {
    let mut first = [0];
    match (peer.read(&mut first).await?, first) {
        (0, _) => peer.flush().await.map(|()| None).map_err(Into::into),
        (_, [first]) => protocol::read_header(first, peer.transport).await.map(Some),
    }
}

/// Tells the sender the reason and discards the rest of its data: a reset because of unread data could overtake the
/// reason.
async fn refuse<T: Transport>(peer: &mut Peer<'_, T>, number: u64, reason: String) -> io::Result<()> {
    peer.reply(number, &Reply::Refused(reason));
    peer.flush().await?;
    peer.transport.shutdown().await?;
    let mut waste = vec![0; MAX_CHUNK];
    while peer.transport.read(&mut waste).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests;

//! Receiving end of [`protocol`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time;

use crate::files::hashing::Stop;
use crate::files::parts::{Description, Found};
use crate::files::{Attributes, Staging, TempFile};
use crate::groups::{GROUP, GroupHasher, Prefix};
use crate::names::{self, Name};
use crate::progress::{Screen, Side};
use crate::protocol::{self, FileHeader, Kind, MAX_CHUNK, ProtocolError, Reply};
use crate::report::{self, Stopwatch};
use crate::transport::Transport;

mod body;
mod budget;
mod disk;
mod error;
mod existing;

use body::{Body, Fault, Pace, Peer};

pub(crate) use budget::{Budget, Owner};
use disk::{Disk, Sink};
pub(crate) use error::ReceiveError;
use existing::may_be_here;

/// Minimum number of bytes that an upload without a key must deliver per [`PROGRESS_TIME`] of waiting.
const LEAST_PROGRESS: u64 = 16 << 10;
/// Waiting time over which [`LEAST_PROGRESS`] is required. A sender without a key also has this long to name its next
/// file.
const PROGRESS_TIME: Duration = Duration::from_secs(60);
/// Waiting time over which a sender with a key must deliver something. Its data may come from a program that pauses,
/// and its path may be slow. Keep-alive tells whether it is still there.
const KNOWN_TIME: Duration = Duration::from_secs(24 * 3600);

/// Size from which on space is reserved for a file. For a smaller file it would take longer than the writing.
const LEAST_RESERVED: u64 = 1 << 20;

/// Treatment of a file whose name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Keep the existing file, and tell the sender that its file is missing.
    #[default]
    Refuse,
    /// Replace the existing file.
    Overwrite,
    /// Add a number to the name of the new file.
    Rename,
    /// Keep the existing file and continue with the next one.
    Skip,
}

#[derive(Clone, Debug)]
pub(crate) enum Output {
    Directory(Arc<Staging>),
    /// Standard output, for the contents alone. They are written as they arrive: only the exit code tells whether
    /// they were complete.
    Stdout,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct File {
    /// Final name of the file.
    pub(crate) name: Name,
    pub(crate) bytes: u64,
    /// Bytes that were received over earlier connections.
    pub(crate) resumed: u64,
    /// Time from the first byte of the header to the final renaming.
    pub(crate) took: Duration,
    pub(crate) hash: blake3::Hash,
}

/// A file that was not received. Later files may still be.
#[derive(Debug)]
pub(crate) struct LeftOut {
    pub(crate) name: Name,
    pub(crate) error: ReceiveError,
}

/// Settings of the receiving end.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) out: Output,
    pub(crate) existing: Existing,
    /// Whether file names may begin with a dot or a dash.
    pub(crate) hidden: bool,
    /// Limits on the bytes to accept.
    pub(crate) budget: Budget,
    /// Maximum time to wait for a silent peer.
    pub(crate) patience: Duration,
    /// Maximum time between and in files without progress. By default, a sender with a key has a day, and others must
    /// deliver 16 KiB per 60 s.
    pub(crate) idle: Option<Duration>,
    pub(crate) screen: Screen,
}

impl Receiver {
    /// Receives files until the peer has no more, and calls `done` for each of them. `greeted` is called when the peer
    /// has sent [`protocol::MAGIC`]. The transport is left open.
    /// Returns [`ReceiveError::LeftOut`] if the end of the last file was reached, but some files were not received.
    /// Otherwise returns the reason why the connection failed. The sender has been told the reason if it could be
    /// reached.
    pub(crate) async fn serve<T: Transport>(
        &self,
        transport: &mut T,
        greeted: impl FnOnce(),
        mut done: impl FnMut(&T, Result<File, LeftOut>),
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
        done: &mut impl FnMut(&T, Result<File, LeftOut>),
    ) -> Result<(), ReceiveError> {
        let greeting = protocol::read_magic(peer.transport);
        time::timeout(self.patience, greeting).await.map_err(|_| ReceiveError::Silent)??;
        greeted();
        let pace = self.pace(peer.transport.peer_key().is_some());
        let mut missing = 0;
        loop {
            let header = time::timeout(pace.time, next_header(peer)).await;
            let Some(header) = header.map_err(|_| ReceiveError::Idle)?? else { break };
            let watch = Stopwatch::start();
            let mut body = None;
            let received = match header.kind {
                Kind::File => {
                    let progress = self.screen.begin(Side::Receiving, &header.name.to_string(), header.size);
                    self.file(peer, *number, &header, body.insert(Body::new(header.size, pace, progress))).await
                }
                Kind::Directory | Kind::Link(_) => {
                    self.entry(self.budget.owner(peer.transport.peer_key()), &header).await
                }
            };
            let failed = match received {
                Ok(Received::Skipped) => {
                    self.screen.say(&format!("{} exists already, skipped", header.name));
                    peer.reply(*number, &Reply::Skipped);
                    None
                }
                Ok(Received::Entry) => {
                    peer.reply(*number, &Reply::Confirmed);
                    None
                }
                Ok(Received::File(Placed { name, bytes, resumed, hash, kept })) => {
                    let failed = kept.err().map(|error| ReceiveError::Attributes { name: name.clone(), error });
                    if failed.is_none() {
                        peer.reply(*number, &Reply::Confirmed);
                    }
                    done(peer.transport, Ok(File { name, bytes, resumed, took: watch.elapsed(), hash }));
                    failed
                }
                // On standard output, a later file could not be told apart from the failed one.
                Err(error) if error.is_of_one_file() && !matches!(self.out, Output::Stdout) => Some(error),
                Err(error) => return Err(error),
            };
            if let Some(error) = failed {
                peer.reply(*number, &Reply::Declined(error.reason().unwrap_or_default()));
                missing += 1;
                done(peer.transport, Err(LeftOut { name: header.name.clone(), error }));
            }
            if let Some(mut body) = body.filter(|body| !body.ended) {
                // The sender stops once it has read the reply.
                discard(peer, &header.name, &mut body).await?;
            }
            *number += 1;
        }
        if missing == 0 { Ok(()) } else { Err(ReceiveError::LeftOut(missing)) }
    }

    fn pace(&self, is_known: bool) -> Pace {
        match (self.idle, is_known) {
            (Some(time), _) => Pace { least: 1, time },
            (None, true) => Pace { least: 1, time: KNOWN_TIME },
            (None, false) => Pace { least: LEAST_PROGRESS, time: PROGRESS_TIME },
        }
    }

    /// Receives file `number`. After a failure, part of its data may be unread.
    async fn file<T: Transport>(
        &self,
        peer: &mut Peer<'_, T>,
        number: u64,
        header: &FileHeader,
        body: &mut Body,
    ) -> Result<Received, ReceiveError> {
        let FileHeader { name, size, .. } = header;
        self.check_name(name)?;
        let too_large = |limit| ReceiveError::TooLarge { name: name.clone(), limit };
        let mut share = self.budget.begin(peer.transport.peer_key(), name, size.unwrap_or(0)).map_err(too_large)?;
        let disk = |error| ReceiveError::Disk { name: name.clone(), error };
        let staging = match &self.out {
            Output::Stdout => None,
            Output::Directory(staging) => Some(staging),
        };
        // Checks the name before the contents are sent. A file that appears meanwhile is found at the end.
        if let Some(staging) = staging {
            match (staging.exists(name).map_err(disk)?, self.existing) {
                (true, Existing::Skip) => return Ok(Received::Skipped),
                (true, Existing::Refuse) if !may_be_here(staging, header).await => {
                    return Err(ReceiveError::Exists(name.clone()));
                }
                (true, Existing::Refuse) if header.asks => {
                    let claimed = self.claimed(peer, number, name, body, staging).await?;
                    return claimed.map(Received::File).ok_or_else(|| ReceiveError::Exists(name.clone()));
                }
                // Without `--overwrite`, an existing file is only compared at the end; nothing is written to its
                // directory.
                (true, Existing::Refuse) => {}
                (false, _) | (true, Existing::Overwrite | Existing::Rename) => staging.check(name).map_err(disk)?,
            }
        }
        let mut file = match staging {
            Some(staging) => self.begin(peer, number, header, body, staging).await?,
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
                    if let Err(limit) = share.add(chunk.len() as u64) {
                        break Err(too_large(limit));
                    }
                    file.write(chunk).await.map_err(disk)?;
                }
                Ok(None) => break body.hash(peer).await.map_err(|fault| fault.of(name, body)),
                Err(fault) => break Err(fault.of(name, body)),
            }
        };
        // A disk failure takes precedence, because it concerns other files, too.
        let (sink, hasher) = file.finish().await.map_err(disk)?;
        let theirs = match (result, sink) {
            (Ok(theirs), sink) if theirs == hasher.finalize() => (theirs, sink),
            (Ok(_), sink) => {
                sink.discard();
                return Err(ReceiveError::WrongHash(name.clone()));
            }
            (Err(error @ ReceiveError::TooLarge { .. }), sink) => {
                sink.discard();
                return Err(error);
            }
            (Err(error), _) => {
                if body.lease.is_some() && body.received >= GROUP {
                    // The part stays on the disk.
                    share.leave();
                }
                return Err(error);
            }
        };
        let (hash, bytes) = (theirs.0, body.received);
        let placed = match theirs.1 {
            Sink::File(temp) => self.place(temp, header, self.budget.owner(peer.transport.peer_key())).await,
            Sink::Stdout => Ok((name.clone(), Ok(()))),
        };
        match placed {
            Ok((name, kept)) => {
                share.keep();
                Ok(Received::File(Placed { name, bytes, resumed, hash, kept }))
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(disk(error)),
            Err(_) if self.existing == Existing::Skip => Ok(Received::Skipped),
            Err(_) => match staging {
                Some(staging) if self.hash_here(peer, staging, name, body).await? == Some(hash) => {
                    Ok(Received::File(Placed { name: name.clone(), bytes, resumed: bytes, hash, kept: Ok(()) }))
                }
                _ => Err(ReceiveError::Exists(name.clone())),
            },
        }
    }

    fn check_name(&self, name: &Name) -> Result<(), ReceiveError> {
        let hidden = if self.hidden { Ok(()) } else { names::check_not_hidden(name) };
        hidden.map_err(|error| ReceiveError::Hidden { name: name.clone(), error })?;
        names::check_here(name).map_err(|error| ReceiveError::NotHere { name: name.clone(), error })
    }

    /// Starts to write a file. Continues the part that an earlier connection of the same sender left.
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
                let opened = match found {
                    Found::Part(left) => {
                        let files = Arc::clone(staging);
                        let reopen = move |stop: &Stop| files.reopen(claim, left, stop);
                        peer.hash(staging, reopen).await.map_err(|fault| fault.of(name, body))?
                    }
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
            temp = reserve(temp, prefix.hasher.len(), *size, header.data).await.map_err(disk)?;
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
            // Shortening the part has released the reserved space.
            temp = reserve(temp, body.received, body.size.unwrap_or_default(), header.data).await.map_err(disk)?;
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

    async fn start<T: Transport>(&self, peer: &mut Peer<'_, T>, body: &mut Body) -> Result<u64, Fault> {
        match body.message(peer).await? {
            protocol::START => body.fixed(peer).await.map(u64::from_be_bytes),
            other => Err(ProtocolError::BadMessage(other).into()),
        }
    }

    /// Gives a complete file its final name. Returns the name, and whether the attributes could be set.
    async fn place(&self, temp: TempFile, header: &FileHeader, owner: Owner) -> io::Result<(Name, io::Result<()>)> {
        let (existing, name, attributes) = (self.existing, header.name.clone(), attributes(header));
        let place = move || {
            // On file systems without permissions, such as FAT, the contents are kept alone.
            let kept = attributes.map_or(Ok(()), |attributes| temp.set(attributes));
            let name = match existing {
                Existing::Rename => temp.persist_beside(&name, &owner),
                _ => temp.persist(&name, existing == Existing::Overwrite, &owner).map(|()| name),
            };
            name.map(|name| (name, kept))
        };
        disk::blocking(place).await
    }

    async fn entry(&self, owner: Owner, header: &FileHeader) -> Result<Received, ReceiveError> {
        self.check_name(&header.name)?;
        let overwrite = self.existing == Existing::Overwrite;
        let created = match &self.out {
            Output::Stdout => Ok(()),
            Output::Directory(staging) => {
                let (staging, header) = (Arc::clone(staging), header.clone());
                let create = move || match &header.kind {
                    Kind::Link(target) => staging.link(&header.name, target, overwrite, &owner),
                    Kind::Directory | Kind::File => {
                        staging.directory(&header.name, attributes(&header), overwrite, &owner)
                    }
                };
                disk::blocking(create).await
            }
        };
        match created {
            Ok(()) => Ok(Received::Entry),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.existing == Existing::Skip => {
                Ok(Received::Skipped)
            }
            Err(error) => Err(ReceiveError::Entry { name: header.name.clone(), error }),
        }
    }
}

enum Received {
    File(Placed),
    Entry,
    Skipped,
}

struct Placed {
    name: Name,
    bytes: u64,
    resumed: u64,
    hash: blake3::Hash,
    /// Result of setting the attributes.
    kept: io::Result<()>,
}

fn attributes(header: &FileHeader) -> Option<Attributes> {
    header.keeps.then_some(Attributes { mode: header.mode, modified: header.modified })
}

async fn reserve(mut temp: TempFile, from: u64, size: u64, data: Option<u64>) -> io::Result<TempFile> {
    temp.keep_holes(data.is_some());
    if size.saturating_sub(from) < LEAST_RESERVED {
        return Ok(temp);
    }
    disk::blocking(move || temp.reserve(from, size, data).map(|()| temp)).await
}

/// Discards data of a file that was sent before the sender learned that the file is not wanted.
async fn discard<T: Transport>(peer: &mut Peer<'_, T>, name: &Name, body: &mut Body) -> Result<(), ReceiveError> {
    let mut waste = Vec::new();
    loop {
        match body.read(peer, std::mem::take(&mut waste)).await {
            Ok(Some(chunk)) => waste = chunk,
            Ok(None) => return body.hash(peer).await.map(|_| ()).map_err(|fault| fault.of(name, body)),
            Err(Fault::Peer(ProtocolError::Abandoned)) => return Ok(()),
            Err(fault) => return Err(fault.of(name, body)),
        }
    }
}

async fn next_header<T: Transport>(peer: &mut Peer<'_, T>) -> Result<Option<FileHeader>, ProtocolError> {
    let mut first = [0];
    match (peer.read(&mut first).await?, first) {
        (0, _) => peer.flush().await.map(|()| None).map_err(Into::into),
        (_, [first]) => protocol::read_header(first, peer).await.map(Some),
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

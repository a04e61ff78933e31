//! Receiving end of [`protocol`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use longhaul_tls::Fingerprint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time;

use crate::files::parts::{Description, Found};
use crate::files::{Attributes, Latest, Staging, TempFile};
use crate::groups::{GROUP, GroupHasher, digest};
use crate::names::{self, Name};
use crate::progress::{Detail, Progress, Screen};
use crate::protocol::{self, FileHeader, Greeting, Kind, MAX_CHUNK, ProtocolError, Reply, Target};
use crate::report;
use crate::sync::blocking;
use crate::transport::Transport;

mod batch;
mod body;
mod budget;
mod disk;
mod error;
mod existing;
mod mirror;

use batch::{Batch, Next};
use body::{Body, Pace, Peer};
use existing::{Check, Copies};

pub(crate) use budget::{Budget, Owner};
use disk::{Disk, Sink};
use error::Fault;
pub(crate) use error::{EXISTS, GIVEN_UP, ReceiveError, may_be_repeated};
use existing::may_be_here;

/// Minimum number of bytes that an upload without a key must deliver per [`PROGRESS_TIME`] of waiting.
const LEAST_PROGRESS: u64 = 16 << 10;
/// Waiting time over which [`LEAST_PROGRESS`] is required. A sender without a key also has this long to announce its
/// next file.
const PROGRESS_TIME: Duration = Duration::from_secs(60);
/// Waiting time over which a sender with a key must deliver something. Its data may come from a program that pauses,
/// and its path may be slow. Keep-alive detects whether it still exists.
const KNOWN_TIME: Duration = Duration::from_secs(24 * 3600);

/// Size in bytes from which space is reserved for a file. For smaller files, this would take longer than writing them.
const LEAST_RESERVED: u64 = 1 << 20;

/// Treatment of a file whose name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Keep the existing file, and report to the sender that its file is missing.
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
    /// Standard output, for the contents alone. They are written as they arrive: only the exit code shows whether they
    /// were complete.
    Stdout,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct File {
    /// Final name of the file.
    pub(crate) name: Name,
    pub(crate) bytes: u64,
    /// Number of bytes received over earlier connections.
    pub(crate) resumed: u64,
    /// Time from the first byte of the header to the final renaming.
    pub(crate) took: Duration,
    pub(crate) hash: blake3::Hash,
}

/// A file that was not received. Later files may still be received.
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
    /// Whether a mirror may delete entries that its sender does not have.
    pub(crate) deletes: bool,
    /// Whether file names may begin with a dot or a dash.
    pub(crate) hidden: bool,
    /// Limits on the bytes to accept.
    pub(crate) budget: Budget,
    /// Maximum time to wait for a silent peer.
    pub(crate) patience: Duration,
    /// Maximum time between and in files without progress. The default is one day for a sender with a key; others must
    /// deliver 16 KiB per 60 s.
    pub(crate) idle: Option<Duration>,
    /// The key to which unfinished files belong, if it is not that of the peer.
    pub(crate) owner: Option<Fingerprint>,
    pub(crate) screen: Screen,
}

impl Receiver {
    /// Receives files until the peer has no more, and calls `done` for each of them. `greeted` is called when the peer
    /// has sent [`protocol::MAGIC`]. The transport is left open.
    /// Returns [`ReceiveError::LeftOut`] if the end of the last file was reached, but some files were not received.
    /// Otherwise returns the reason why the connection failed. The sender has been told the reason if it could be
    /// reached.
    pub(crate) async fn serve(
        &self,
        transport: &mut (dyn Transport + Send),
        progress: Progress,
        greeted: impl FnOnce(),
        done: impl FnMut(Result<File, LeftOut>),
    ) -> Result<(), ReceiveError> {
        let greeting = match self.greeting(transport).await {
            Ok(Greeting::Bond) => Err(ProtocolError::NotOurs.into()),
            greeting => greeting,
        };
        self.serve_after(greeting, transport, progress, greeted, done).await
    }

    /// Reads the first bytes of a connection.
    pub(crate) async fn greeting(&self, transport: &mut (dyn Transport + Send)) -> Result<Greeting, ReceiveError> {
        let greeting = protocol::read_magic(transport);
        Ok(time::timeout(self.patience, greeting).await.map_err(|_| ReceiveError::Silent)??)
    }

    /// Serves a connection like [`serve`](Self::serve) after its [greeting](Self::greeting).
    pub(crate) async fn serve_after(
        &self,
        greeting: Result<Greeting, ReceiveError>,
        transport: &mut (dyn Transport + Send),
        progress: Progress,
        greeted: impl FnOnce(),
        mut done: impl FnMut(Result<File, LeftOut>),
    ) -> Result<(), ReceiveError> {
        let mut peer = Peer::new(transport, progress);
        let result = match greeting {
            Ok(_) => {
                let budget = self.budget.connection(self.existing == Existing::Overwrite);
                Self { budget, ..self.clone() }.serve_all(&mut peer, greeted, &mut done).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &result
            && let Some(reason) = error.reason()
        {
            // A failure here is ignored: the first error is the one to report.
            let _ = time::timeout(self.patience, refuse(&mut peer, reason)).await;
        }
        result
    }

    async fn serve_all(
        &self,
        peer: &mut Peer<'_>,
        greeted: impl FnOnce(),
        done: &mut impl FnMut(Result<File, LeftOut>),
    ) -> Result<(), ReceiveError> {
        greeted();
        let pace = self.pace(peer.transport.peer_key().is_some());
        let mut missing = 0;
        loop {
            let next = time::timeout(pace.time, self.next(peer)).await.map_err(|_| ReceiveError::Idle);
            if let Some(held) = peer.held.take()
                && !matches!(&next, Ok(Ok(Next::File(header))) if header.asks && header.name == held.name)
            {
                done(Err(held));
                missing += 1;
            }
            let files = match next?? {
                Next::End => break,
                Next::Batch(batch) => self.batch(peer, batch, done).await?,
                Next::Mirror(request) => {
                    self.mirror(peer, request, pace).await?;
                    0
                }
                Next::File(header) => self.one(peer, header, pace, done).await?,
            };
            missing += files;
        }
        if missing == 0 { Ok(()) } else { Err(ReceiveError::LeftOut(missing)) }
    }

    async fn next(&self, peer: &mut Peer<'_>) -> Result<Next, ProtocolError> {
        match &self.out {
            Output::Directory(_) => peer.next_batch().await,
            Output::Stdout => peer.next_header().await,
        }
    }

    /// Receives a batch; returns how many of its files are left out.
    async fn batch(
        &self,
        peer: &mut Peer<'_>,
        batch: Batch,
        done: &mut impl FnMut(Result<File, LeftOut>),
    ) -> Result<usize, ReceiveError> {
        let (batch, stored) = self.store(peer, batch).await;
        if let Some(last) = batch.entries.last() {
            peer.progress.file(last.header.name.to_string());
        }
        let mut missing = 0;
        for (entry, stored) in batch.entries.into_iter().zip(stored) {
            let FileHeader { kind, name, size, .. } = entry.header;
            missing += usize::from(!self.settle(peer, &name, stored, String::new(), done)?);
            if kind == Kind::File {
                peer.ended = peer.ended.saturating_add(size.unwrap_or_default());
                peer.progress.finish(true);
            }
            peer.number += 1;
        }
        peer.show();
        Ok(missing)
    }

    /// Receives a file whose header has arrived; returns how many files are left out.
    async fn one(
        &self,
        peer: &mut Peer<'_>,
        header: FileHeader,
        pace: Pace,
        done: &mut impl FnMut(Result<File, LeftOut>),
    ) -> Result<usize, ReceiveError> {
        peer.progress.file(header.name.to_string());
        let mut body = Body::new(header.size, pace);
        let received = self.file(peer, &header, &mut body).await;
        let is_here = match received {
            Err(fault) if body.check.is_some() && fault.may_be_repeated() => {
                let error = ReceiveError::File { name: header.name.clone(), came: body.came(), fault };
                self.screen.say(&error.to_string());
                peer.reply(&Reply::Declined(error.reason().unwrap_or_default()));
                peer.held = Some(LeftOut { name: header.name.clone(), error });
                true
            }
            received => self.settle(peer, &header.name, received, body.came(), done)?,
        };
        peer.ended = peer.ended.saturating_add(body.received);
        peer.progress.finish(true);
        if !body.ended {
            // The sender stops once it has read the reply.
            let discarded = discard(peer, &mut body).await;
            discarded.map_err(|fault| ReceiveError::File { name: header.name, came: body.came(), fault })?;
        }
        peer.number += 1;
        Ok(usize::from(!is_here))
    }

    /// Tells the sender what has become of the entry `name`, of which `came` has arrived. Returns whether it was received.
    /// Returns an error if no further entry can be received.
    fn settle(
        &self,
        peer: &mut Peer<'_>,
        name: &Name,
        received: Result<Received, Fault>,
        came: String,
        done: &mut impl FnMut(Result<File, LeftOut>),
    ) -> Result<bool, ReceiveError> {
        let (file_name, fault) = match received {
            Ok(Received::Skipped) => {
                self.screen.tell(Detail::Files, &format!("{name} exists already, skipped"));
                peer.reply(&Reply::Skipped);
                return Ok(true);
            }
            Ok(Received::Entry) => {
                peer.reply(&Reply::Confirmed);
                return Ok(true);
            }
            Ok(Received::File(file, Ok(()))) => {
                peer.reply(&Reply::Confirmed);
                done(Ok(file));
                return Ok(true);
            }
            Ok(Received::File(file, Err(error))) => {
                let name = file.name.clone();
                done(Ok(file));
                (name, Fault::Attributes(error))
            }
            Err(fault) => (name.clone(), fault),
        };
        // On standard output, a later file could not be distinguished from the failed one.
        let is_last = !fault.is_of_one_file() || matches!(self.out, Output::Stdout);
        let error = ReceiveError::File { name: file_name, came, fault };
        if is_last {
            return Err(error);
        }
        peer.reply(&Reply::Declined(error.reason().unwrap_or_default()));
        done(Err(LeftOut { name: name.clone(), error }));
        Ok(false)
    }

    /// Returns the key to which unfinished files of this peer belong.
    fn owner(&self, peer: &Peer<'_>) -> Option<Fingerprint> {
        self.owner.or_else(|| peer.transport.peer_key())
    }

    fn pace(&self, is_known: bool) -> Pace {
        match (self.idle, is_known) {
            (Some(time), _) => Pace { least: 1, time },
            (None, true) => Pace { least: 1, time: KNOWN_TIME },
            (None, false) => Pace { least: LEAST_PROGRESS, time: PROGRESS_TIME },
        }
    }

    /// Receives a file. After a failure, part of its data may be unread.
    async fn file(&self, peer: &mut Peer<'_>, header: &FileHeader, body: &mut Body) -> Result<Received, Fault> {
        let FileHeader { name, size, .. } = header;
        self.check_name(name)?;
        let share = self.budget.begin(self.owner(peer), name, size.unwrap_or(0));
        let mut share = share.map_err(Fault::TooLarge)?;
        let staging = match &self.out {
            Output::Stdout => None,
            Output::Directory(staging) => Some(staging),
        };
        // Checks the name before the contents are sent. A file that appears in the meantime is detected at the end.
        if let Some(staging) = staging {
            match (staging.exists(name, &mut Latest::default()).map_err(Fault::Disk)?, self.existing(header)) {
                (true, Existing::Skip) => return Ok(Received::Skipped),
                (true, Existing::Refuse) if !may_be_here(staging, header).await => return Err(Fault::Exists),
                (true, Existing::Refuse) if header.asks => {
                    let claimed = self.claimed(peer, name, body, staging).await?.ok_or(Fault::Exists)?;
                    return Ok(Received::File(claimed, Ok(())));
                }
                // Without `--overwrite`, an existing file is only compared at the end; nothing is written to its
                // directory.
                (true, Existing::Refuse) => {}
                (false, _) | (true, Existing::Overwrite | Existing::Rename) => {
                    staging.check(name).map_err(Fault::Disk)?
                }
            }
        }
        if let (Some(staging), Target::Changed) = (staging, header.target) {
            if header.asks {
                self.offer_groups(peer, staging, name, body).await?;
            } else {
                body.copies = Copies::open(staging, name).await;
            }
        }
        let mut file = match staging {
            Some(staging) => self.begin(peer, header, body, staging).await?,
            None => {
                if header.asks {
                    peer.reply(&Reply::Go);
                }
                Disk::new(Sink::Stdout, GroupHasher::default())
            }
        };
        let resumed = body.received;
        if body.lease.is_some() {
            share.resume(resumed);
        }
        let result = loop {
            if body.check.as_ref().is_some_and(Check::has_failed) {
                break body.checked(peer).await.and(Err(Fault::WrongHash));
            }
            match body.read(peer, file.buffer()).await {
                Ok(Some(chunk)) => {
                    if let Err(limit) = share.add(chunk.len() as u64) {
                        break Err(Fault::TooLarge(limit));
                    }
                    file.write(chunk).await.map_err(Fault::Disk)?;
                }
                Ok(None) => match body.hash(peer).await {
                    Ok(theirs) => break body.checked(peer).await.map(|()| theirs),
                    Err(fault) => break Err(fault),
                },
                Err(fault) => break Err(fault),
            }
        };
        // A disk failure takes precedence, because it also concerns other files.
        let (sink, hasher) = file.finish().await.map_err(Fault::Disk)?;
        let hash = match result {
            Ok(theirs) if theirs == hasher.finalize() => theirs,
            Ok(_) => {
                sink.discard();
                return Err(Fault::WrongHash);
            }
            Err(fault @ Fault::TooLarge(_)) => {
                sink.discard();
                return Err(fault);
            }
            Err(fault) => {
                let stays = if let Fault::Damaged(groups) = fault {
                    sink.shorten(groups);
                    groups > 0
                } else {
                    body.lease.is_some() && body.received >= GROUP
                };
                if stays {
                    share.leave();
                }
                return Err(fault);
            }
        };
        let placed = match sink {
            Sink::File(temp) => {
                let (receiver, header) = (self.clone(), header.clone());
                let owner = self.budget.owner(self.owner(peer));
                blocking(move || receiver.place(temp, &header, &owner, &mut Latest::default())).await
            }
            Sink::Stdout => Ok((name.clone(), Ok(()))),
        };
        match placed {
            Ok((name, kept)) => {
                share.keep();
                Ok(Received::File(body.file(name, resumed + body.copied, hash), kept))
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(Fault::Disk(error)),
            Err(_) if self.existing(header) == Existing::Skip => Ok(Received::Skipped),
            Err(_) => match staging {
                Some(staging) if self.hash_here(peer, staging, name, body).await? == Some(hash) => {
                    Ok(Received::File(body.file(name.clone(), body.received, hash), Ok(())))
                }
                _ => Err(Fault::Exists),
            },
        }
    }

    /// Returns the treatment of an existing file.
    fn existing(&self, header: &FileHeader) -> Existing {
        match (self.existing, header.target) {
            // The file did not exist when the sender asked, or has a different spelling.
            (Existing::Overwrite, Target::New) => Existing::Refuse,
            (existing, _) => existing,
        }
    }

    fn check_name(&self, name: &Name) -> Result<(), Fault> {
        if self.hidden { Ok(()) } else { names::check_not_hidden(name).map_err(Fault::Hidden) }
    }

    /// Starts to write a file. Continues the part that an earlier connection of the same sender left.
    async fn begin(
        &self,
        peer: &mut Peer<'_>,
        header: &FileHeader,
        body: &mut Body,
        staging: &Arc<Staging>,
    ) -> Result<Disk, Fault> {
        let FileHeader { name, size, modified, asks, .. } = header;
        let mut reply = Reply::Go;
        let (mut temp, mut groups) = (None, Vec::new());
        // Without a key, anyone could be the sender of a part.
        if let (true, Some(key), Some(size)) = (*asks, self.owner(peer), *size) {
            let version = Description { peer: key.to_string(), name: name.clone(), size, modified: *modified };
            if let Some((claim, found)) = staging.claim(version).await {
                let opened = match found {
                    Found::Part(left) => {
                        let files = Arc::clone(staging);
                        blocking(move || files.reopen(claim, &left)).await
                    }
                    Found::Changed => {
                        reply = Reply::Anew;
                        self.screen.say(&format!("{name} has changed since it was interrupted, and is received anew"));
                        staging.create_part(claim).map(|temp| (temp, Vec::new()))
                    }
                    Found::Nothing => staging.create_part(claim).map(|temp| (temp, Vec::new())),
                };
                let (part, present) = opened.map_err(Fault::Disk)?;
                body.lease = part.lease();
                (temp, groups) = (Some(part), present);
            }
        }
        let mut temp = match temp {
            Some(temp) => temp,
            None => staging.create().map_err(Fault::Disk)?,
        };
        if let Some(size) = size {
            temp = reserve(temp, groups.len() as u64 * GROUP, *size, header.data).await.map_err(Fault::Disk)?;
        }
        if !groups.is_empty() {
            let present = groups.len() as u64;
            peer.reply(&Reply::Offer { groups: present, digest: digest(&groups) });
            body.wait_for_hash(present);
            body.expect(peer, protocol::START).await?;
            match u64::from_be_bytes(body.fixed(peer).await?) {
                from if from == present => body.skip(present * GROUP, &mut peer.progress),
                0 => groups.clear(),
                _ => return Err(ProtocolError::BadMessage(protocol::START).into()),
            }
            temp.continue_at(groups.len() as u64).map_err(Fault::Disk)?;
            // Shortening the part has released the reserved space.
            let reserved = reserve(temp, body.received, body.size.unwrap_or_default(), header.data).await;
            temp = reserved.map_err(Fault::Disk)?;
            if groups.is_empty() {
                self.screen.say(&format!("{name} is not what was interrupted, and is received anew"));
            } else {
                self.screen.say(&format!("{name} is continued after {}", report::size(body.received)));
                let check = Check::start(staging, peer.transport.peer_key(), &temp, groups.clone());
                body.check = Some(check.map_err(Fault::Disk)?);
            }
        } else if *asks {
            peer.reply(&reply);
        }
        Ok(Disk::new(Sink::File(temp), GroupHasher::after(groups)))
    }

    /// Gives a complete file its final name. Returns the name, and whether the attributes could be set.
    fn place(
        &self,
        temp: TempFile,
        header: &FileHeader,
        owner: &Owner,
        latest: &mut Latest,
    ) -> io::Result<(Name, io::Result<()>)> {
        // On file systems without permissions, such as FAT, only the contents are kept.
        let kept = attributes(header).map_or(Ok(()), |attributes| temp.set(attributes));
        let name = match self.existing(header) {
            Existing::Rename => temp.persist_beside(&header.name, owner, latest),
            existing => {
                let placed = temp.persist(&header.name, existing == Existing::Overwrite, owner, latest);
                placed.map(|()| header.name.clone())
            }
        };
        name.map(|name| (name, kept))
    }
}

enum Received {
    /// A file, and the result of setting its attributes.
    File(File, io::Result<()>),
    Entry,
    Skipped,
}

fn attributes(header: &FileHeader) -> Option<Attributes> {
    header.keeps.then_some(Attributes { mode: header.mode, modified: header.modified })
}

async fn reserve(mut temp: TempFile, from: u64, size: u64, data: Option<u64>) -> io::Result<TempFile> {
    temp.keep_holes(data.is_some());
    if size.saturating_sub(from) < LEAST_RESERVED {
        return Ok(temp);
    }
    blocking(move || temp.reserve(from, size, data).map(|()| temp)).await
}

/// Discards data of a file that was sent before the sender learned that the file is not wanted.
async fn discard(peer: &mut Peer<'_>, body: &mut Body) -> Result<(), Fault> {
    let mut waste = Vec::new();
    loop {
        match body.read(peer, std::mem::take(&mut waste)).await {
            Ok(Some(chunk)) => waste = chunk,
            Ok(None) => return body.hash(peer).await.map(|_| ()),
            Err(Fault::Peer(ProtocolError::Abandoned)) => return Ok(()),
            Err(fault) => return Err(fault),
        }
    }
}

/// Tells the sender the reason and discards the rest of its data: a reset because of unread data could overtake the
/// reason.
async fn refuse(peer: &mut Peer<'_>, reason: String) -> io::Result<()> {
    peer.reply(&Reply::Refused(reason));
    peer.flush().await?;
    peer.transport.shutdown().await?;
    let mut waste = vec![0; MAX_CHUNK];
    while peer.transport.read(&mut waste).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests;

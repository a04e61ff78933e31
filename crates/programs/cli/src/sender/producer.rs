//! Reading, hashing and encoding of files, on a thread that may block.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use blake3::hazmat::ChainingValue;
use tokio::sync::mpsc;

use super::cache::Place;
use super::resume::{Check, Rest, matches};
use super::source::Contents;
use super::tree::Latest;
use super::{Informs, Options, SendError, Source};
use crate::groups::{GROUP, GroupHasher};
use crate::mirror::Known;
use crate::packing::Packer;
use crate::progress::Screen;
use crate::protocol::{self, FileHeader, Kind, MAX_CHUNK, MAX_UNASKED, Reply, Target};
use crate::receiver::{GIVEN_UP, may_be_repeated};

/// Number of bytes at which a batch is sent.
const BATCH: usize = 128 << 10;
/// Number of marks at which a batch is sent.
const MARKS: usize = 4096;
/// Interval of checks for a failed connection while a file is being verified.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) marks: Vec<Mark>,
}

/// Part of a batch, for the confirmations and the progress display.
#[derive(Debug)]
pub(super) enum Mark {
    /// The batch contains the header of this file.
    Begun { number: u64, source: Arc<Source>, size: Option<u64>, informs: Informs },
    /// The receiver has the next `bytes` bytes. If these turn out to be wrong, the file `repeats`.
    Resumed { bytes: u64, repeats: bool },
    /// The batch contains this number of bytes of contents.
    Contents(u64),
    /// The batch contains the hash of the file.
    Ended(End),
    /// The file cannot be opened, and is not sent.
    Failed { source: Arc<Source>, error: io::Error },
    /// The rest of the file cannot be read, and is not sent.
    Unread(io::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) hash: blake3::Hash,
    pub(super) bytes: u64,
    pub(super) resumed: u64,
}

impl End {
    /// End of a directory or link.
    const EMPTY: Self = Self { hash: blake3::Hash::from_bytes([0; protocol::HASH_LEN]), bytes: 0, resumed: 0 };
}

pub(super) enum Stop {
    Gone,
    /// The file cannot be read. Later files are sent.
    Unread(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Unread(io::Error::new(error.kind(), format!("cannot read it: {error}")))
    }
}

pub(super) struct Replies {
    /// Replies to files about which the sender has asked, with the numbers of the files.
    pub(super) asked: Receiver<(u64, Reply)>,
    /// Files before this number no longer need to be sent.
    pub(super) settled: Arc<AtomicU64>,
}

pub(super) struct Producer {
    pub(super) feed: mpsc::Sender<Batch>,
    pub(super) spares: Receiver<Vec<u8>>,
    pub(super) replies: Replies,
    pub(super) options: Options,
    pub(super) screen: Screen,
    pub(super) batch: Batch,
    latest: Latest,
    next: u64,
    /// `None` before the first chunk that is to be compressed.
    packer: Option<Packer>,
    /// Whether chunks of the current file are to be compressed.
    packs: bool,
}

impl Producer {
    pub(super) fn new(
        feed: mpsc::Sender<Batch>,
        spares: Receiver<Vec<u8>>,
        replies: Replies,
        options: Options,
        screen: Screen,
        greeting: Vec<u8>,
    ) -> Self {
        let batch = Batch { bytes: greeting, marks: Vec::new() };
        let latest = Latest::default();
        Self { feed, spares, replies, options, screen, batch, latest, next: 0, packer: None, packs: false }
    }

    /// Produces the batches of `sources` until the connection has failed.
    pub(super) fn run(mut self, sources: Vec<(Arc<Source>, Known)>) -> Result<(), SendError> {
        if self.options.compress {
            self.packer = Some(Packer::new().map_err(SendError::Compress)?);
        }
        for (source, known) in &sources {
            match self.file(source, known) {
                Ok(()) => {}
                Err(Stop::Gone) => return Ok(()),
                Err(Stop::Unread(error)) => {
                    self.batch.bytes.push(protocol::ABANDONED);
                    self.batch.marks.push(Mark::Unread(error));
                }
            }
        }
        // This fails only if the connection has failed, which the sender reports.
        let _ = self.flush();
        Ok(())
    }

    fn file(&mut self, source: &Arc<Source>, known: &Known) -> Result<(), Stop> {
        match self.attempt(source, known, None)? {
            // Repeat only once, because a second mismatch would not be resolved by a third attempt.
            Some(again) => self.attempt(source, known, Some(again)).map(drop),
            None => Ok(()),
        }
    }

    /// Sends a file. If the receiver turns out to have a different beginning of it, returns its known first chaining
    /// values, with which it has to be sent `again`.
    fn attempt(
        &mut self,
        source: &Arc<Source>,
        known: &Known,
        again: Option<Vec<ChainingValue>>,
    ) -> Result<Option<Vec<ChainingValue>>, Stop> {
        let begun = source.begin(&mut self.latest).and_then(|(mut header, contents)| {
            header.asks = self.options.resume && header.size.is_some_and(|size| size > MAX_UNASKED);
            header.target = match known {
                Known::Nothing => Target::Any,
                Known::New => Target::New,
                Known::Changed(blocks) if header.asks || self.options.resume && !blocks.is_empty() => Target::Changed,
                Known::Changed(_) => Target::Any,
            };
            header.keeps = self.options.attributes && (header.size.is_some() || header.kind == Kind::Directory);
            let bytes = protocol::encode_header(&header).map_err(io::Error::other)?;
            Ok((bytes, header, contents))
        });
        let (bytes, header, contents) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.batch.marks.push(Mark::Failed { source: Arc::clone(source), error });
                return self.flush_if_full().map(|()| None);
            }
        };
        let number = self.next;
        self.next += 1;
        self.batch.bytes.extend(bytes);
        // Compression reduces the zeros of a hole to a few bytes.
        self.packs = self.options.compress || header.data.is_some();
        let informs = match (header.asks, header.target) {
            (false, _) => Informs::Unasked,
            (true, Target::Changed) => Informs::Groups,
            (true, _) => Informs::Any,
        };
        self.batch.marks.push(Mark::Begun { number, source: Arc::clone(source), size: header.size, informs });
        let Some(mut contents) = contents else {
            self.batch.marks.push(Mark::Ended(End::EMPTY));
            return self.flush_if_full().map(|()| None);
        };
        let (mut rest, mut theirs, is_first) = (Rest::default(), Vec::new(), again.is_none());
        if header.asks && header.target == Target::Changed {
            match self.groups(number)? {
                Some(groups) => theirs = groups,
                None => return Ok(None),
            }
        }
        if header.asks {
            match self.ask(number, source, &mut contents, &header, again)? {
                Some(asked) => rest = asked,
                None => return Ok(None),
            }
        }
        if header.size.is_none() {
            // Earlier files need not wait for these contents, which may come much later.
            self.flush()?;
        }
        let mut resumed = rest.hasher.len();
        let repeats = is_first && resumed > 0;
        if let (Known::Changed(blocks), Target::Changed, false) = (known, header.target, header.asks) {
            resumed = self.blocks(&mut contents, header.size.unwrap_or_default(), &mut rest.hasher, blocks)?;
        }
        let mut left = header.size.map_or(u64::MAX, |size| size.saturating_sub(rest.hasher.len()));
        while left > 0 {
            if self.is_settled(number) || rest.is_right(Duration::ZERO)? == Some(false) {
                return self.abandon(number, source, rest, repeats);
            }
            let (read, copied) = match theirs.get((rest.hasher.len() / GROUP) as usize) {
                Some(theirs) => self.group(&mut contents, left, &mut rest, theirs)?,
                None => (self.chunk(&mut contents, left, &mut rest)?, 0),
            };
            resumed += copied;
            match header.size {
                None if read == 0 => break,
                // More data may arrive much later.
                None => self.flush()?,
                Some(_) if read == 0 => {
                    return Err(Stop::Unread(io::Error::other("it became shorter while it was sent")));
                }
                Some(_) => left -= read,
            }
            self.flush_if_full()?;
        }
        if rest.check.is_some() && !self.checked(number, &mut rest)? {
            return self.abandon(number, source, rest, repeats);
        }
        self.batch.bytes.push(protocol::END);
        self.hash(&rest.hasher, resumed);
        if repeats { self.ended(number, source, Vec::new()) } else { self.flush_if_full().map(|()| None) }
    }

    /// Waits until the beginning of a file has been read. Returns whether the receiver has the same one, or false if it
    /// no longer needs the file.
    fn checked(&mut self, number: u64, rest: &mut Rest) -> Result<bool, Stop> {
        self.flush()?;
        loop {
            match rest.is_right(LOOK)? {
                Some(is_right) => {
                    rest.hasher.supply(rest.check.take().map(Check::into_groups).unwrap_or_default());
                    return Ok(is_right);
                }
                None if self.feed.is_closed() => return Err(Stop::Gone),
                None if self.is_settled(number) => return Ok(false),
                None => {}
            }
        }
    }

    /// Abandons a file that the receiver no longer needs, or of which it turns out to have a different beginning.
    fn abandon(
        &mut self,
        number: u64,
        source: &Source,
        rest: Rest,
        repeats: bool,
    ) -> Result<Option<Vec<ChainingValue>>, Stop> {
        if !repeats && !self.is_settled(number) {
            return Err(Stop::Unread(io::Error::other("it is not what the receiver has a part of")));
        }
        self.batch.bytes.push(protocol::ABANDONED);
        if repeats { self.ended(number, source, rest.into_groups()) } else { Ok(None) }
    }

    /// Waits for the final reply to a file that was continued. Returns `known` if the file is to be sent again.
    fn ended(
        &mut self,
        number: u64,
        source: &Source,
        known: Vec<ChainingValue>,
    ) -> Result<Option<Vec<ChainingValue>>, Stop> {
        match self.reply(number)? {
            Reply::Declined(reason) if may_be_repeated(&reason) => {
                if reason != GIVEN_UP {
                    self.screen.say(&format!("{}: {reason}; what was damaged is sent again", source.name()));
                }
                Ok(Some(known))
            }
            _ => Ok(None),
        }
    }

    /// Waits for the reply to a file's header, which states how much of the file the receiver has. Returns how to send
    /// the rest, or `None` if the file need not be sent.
    fn ask(
        &mut self,
        number: u64,
        source: &Arc<Source>,
        contents: &mut Contents,
        header: &FileHeader,
        again: Option<Vec<ChainingValue>>,
    ) -> Result<Option<Rest>, Stop> {
        let (name, size, repeats) = (source.name(), header.size.unwrap_or_default(), again.is_none());
        let place = self.options.cache.as_ref().zip(contents.file());
        let place = place.and_then(|(directory, file)| Place::of(directory, file));
        match self.reply(number)? {
            Reply::Go => {}
            Reply::Anew => self.screen.say(&format!("{name} has changed since it was interrupted, and is sent anew")),
            Reply::Offer { groups, digest } => {
                let (log, kept) = place.as_ref().and_then(|place| place.open().ok()).unzip();
                let again = again.filter(|known| !known.is_empty());
                let from = if matches(groups, digest, size, again, kept) { groups } else { 0 };
                self.batch.bytes.push(protocol::START);
                self.batch.bytes.extend(from.to_be_bytes());
                if let (1.., Some(file)) = (from, contents.file()) {
                    let rest = Rest::after(from, file, digest, log)?;
                    let bytes = rest.hasher.len();
                    contents.seek(bytes)?;
                    self.screen.say(&format!("{name} is continued after {bytes} of {size} bytes"));
                    self.batch.marks.push(Mark::Resumed { bytes, repeats });
                    return Ok(Some(rest));
                }
                self.screen.say(&format!("{name} is not what was interrupted, and is sent anew"));
            }
            Reply::Same => {
                let whole = GroupHasher::read(&mut *contents, size)?;
                self.batch.bytes.push(protocol::CLAIM);
                self.hash(&whole, whole.len());
                match self.reply(number)? {
                    Reply::Go => contents.rewind()?,
                    _ => return Ok(None),
                }
            }
            Reply::Confirmed | Reply::Skipped | Reply::Declined(_) | Reply::Refused(_) | Reply::Groups(_) => {
                self.batch.bytes.push(protocol::ABANDONED);
                return Ok(None);
            }
        }
        Ok(Some(Rest::all(place.as_ref())))
    }

    pub(super) fn reply(&mut self, number: u64) -> Result<Reply, Stop> {
        self.flush()?;
        loop {
            let (of, reply) = self.replies.asked.recv().map_err(|_| Stop::Gone)?;
            if of == number {
                return Ok(reply);
            }
        }
    }

    fn is_settled(&self, number: u64) -> bool {
        self.replies.settled.load(Ordering::Relaxed) > number
    }

    /// Appends a chunk of at most `left` bytes to the batch; returns its length.
    fn chunk(&mut self, contents: &mut Contents, left: u64, rest: &mut Rest) -> io::Result<u64> {
        let bytes = &mut self.batch.bytes;
        let start = bytes.len();
        bytes.extend(protocol::chunk_start(0));
        let body = bytes.len();
        bytes.resize(body + left.min(MAX_CHUNK as u64) as usize, 0);
        let read = loop {
            match contents.read(bytes.get_mut(body..).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if read == 0 {
            bytes.truncate(start);
            return Ok(0);
        }
        bytes.truncate(body + read);
        if let Some(head) = bytes.get_mut(start..body) {
            head.copy_from_slice(&protocol::chunk_start(read as u32));
        }
        rest.record(bytes.get(body..).unwrap_or_default());
        self.pack(start, body)?;
        self.batch.marks.push(Mark::Contents(read as u64));
        Ok(read as u64)
    }

    /// Compresses the last chunk of the batch, which starts at `start` and has its contents at `body`, if that saves bytes.
    pub(super) fn pack(&mut self, start: usize, body: usize) -> io::Result<()> {
        let bytes = &mut self.batch.bytes;
        let contents = bytes.get(body..).unwrap_or_default();
        if self.packs && self.packer.is_none() {
            self.packer = Some(Packer::new()?);
        }
        if let Some(packed) = self.packer.as_mut().filter(|_| self.packs).and_then(|packer| packer.pack(contents)) {
            bytes.truncate(start);
            bytes.extend(protocol::packed_start(packed.len() as u32));
            bytes.extend(packed);
        }
        Ok(())
    }

    fn hash(&mut self, hasher: &GroupHasher, resumed: u64) {
        let hash = hasher.finalize();
        self.batch.bytes.extend(hash.as_bytes());
        self.batch.marks.push(Mark::Ended(End { hash, bytes: hasher.len(), resumed }));
    }

    fn flush_if_full(&mut self) -> Result<(), Stop> {
        if self.batch.bytes.len() >= BATCH || self.batch.marks.len() >= MARKS { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), Stop> {
        let mut bytes = self.spares.try_recv().unwrap_or_default();
        bytes.clear();
        let batch = std::mem::replace(&mut self.batch, Batch { bytes, marks: Vec::new() });
        if batch.bytes.is_empty() && batch.marks.is_empty() {
            Ok(())
        } else {
            self.feed.blocking_send(batch).map_err(|_| Stop::Gone)
        }
    }
}

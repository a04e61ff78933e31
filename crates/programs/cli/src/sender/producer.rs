//! Reading, hashing and encoding of files, on a thread that may block.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use tokio::sync::mpsc;

use super::source::Contents;
use super::tree::Latest;
use super::{Options, SendError, Source};
use crate::groups::{GROUP, GroupHasher, Prefix};
use crate::packing::Packer;
use crate::progress::Screen;
use crate::protocol::{self, FileHeader, Kind, MAX_CHUNK, MAX_UNASKED, Reply};

/// Number of bytes from which on a batch is sent.
const BATCH: usize = 128 << 10;
/// Number of marks from which on a batch is sent.
const MARKS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) marks: Vec<Mark>,
}

/// Part of a batch, for the confirmations and the progress display.
#[derive(Debug)]
pub(super) enum Mark {
    /// The batch has the header of this file.
    Begun { number: u64, source: Arc<Source>, size: Option<u64>, asks: bool },
    /// The contents begin after this number of bytes.
    Resumed(u64),
    /// The batch has this number of bytes of contents.
    Contents(u64),
    /// The batch has the hash of the file.
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

enum Stop {
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
    /// All files before this number need not be sent any more.
    pub(super) settled: Arc<AtomicU64>,
}

pub(super) struct Producer {
    pub(super) feed: mpsc::Sender<Batch>,
    pub(super) spares: Receiver<Vec<u8>>,
    pub(super) replies: Replies,
    pub(super) options: Options,
    pub(super) screen: Screen,
    batch: Batch,
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
    ) -> Self {
        let batch = Batch { bytes: protocol::MAGIC.to_vec(), marks: Vec::new() };
        let latest = Latest::default();
        Self { feed, spares, replies, options, screen, batch, latest, next: 0, packer: None, packs: false }
    }

    /// Produces the batches of `sources` until the connection has failed.
    pub(super) fn run(mut self, sources: Vec<Arc<Source>>) -> Result<(), SendError> {
        if self.options.compress {
            self.packer = Some(Packer::new().map_err(SendError::Compress)?);
        }
        for source in &sources {
            match self.file(source) {
                Ok(()) => {}
                Err(Stop::Gone) => return Ok(()),
                Err(Stop::Unread(error)) => {
                    self.batch.bytes.push(protocol::ABANDONED);
                    self.batch.marks.push(Mark::Unread(error));
                }
            }
        }
        // If this fails, so has the connection, which the sender reports.
        let _ = self.flush();
        Ok(())
    }

    fn file(&mut self, source: &Arc<Source>) -> Result<(), Stop> {
        let begun = source.begin(&mut self.latest).and_then(|(mut header, contents)| {
            header.asks = self.options.resume && header.size.is_some_and(|size| size > MAX_UNASKED);
            header.keeps = self.options.attributes && (header.size.is_some() || header.kind == Kind::Directory);
            let bytes = protocol::encode_header(&header).map_err(io::Error::other)?;
            Ok((bytes, header, contents))
        });
        let (bytes, header, contents) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.batch.marks.push(Mark::Failed { source: Arc::clone(source), error });
                return self.flush_if_full();
            }
        };
        let number = self.next;
        self.next += 1;
        self.batch.bytes.extend(bytes);
        // Compression reduces the zeros of a hole to a few bytes.
        self.packs = self.options.compress || header.data.is_some();
        let (size, asks) = (header.size, header.asks);
        self.batch.marks.push(Mark::Begun { number, source: Arc::clone(source), size, asks });
        let Some(mut contents) = contents else {
            self.batch.marks.push(Mark::Ended(End::EMPTY));
            return self.flush_if_full();
        };
        let mut hasher = GroupHasher::default();
        if header.asks {
            match self.ask(number, source, &mut contents, &header)? {
                Some(before) => hasher = before,
                None => return Ok(()),
            }
        }
        if header.size.is_none() {
            // Earlier files need not wait for these contents, which may come much later.
            self.flush()?;
        }
        let resumed = hasher.len();
        let mut left = header.size.map_or(u64::MAX, |size| size.saturating_sub(resumed));
        while left > 0 {
            if self.is_settled(number) {
                self.batch.bytes.push(protocol::ABANDONED);
                return Ok(());
            }
            let read = self.chunk(&mut contents, left, &mut hasher)?;
            match header.size {
                None if read == 0 => break,
                // More may come much later.
                None => self.flush()?,
                Some(_) if read == 0 => {
                    return Err(Stop::Unread(io::Error::other("it became shorter while it was sent")));
                }
                Some(_) => left -= read,
            }
            self.flush_if_full()?;
        }
        self.batch.bytes.push(protocol::END);
        self.hash(&hasher, resumed);
        self.flush_if_full()
    }

    /// Waits for the reply to a file's header, which says how much of the file the receiver has. Returns the hasher of the
    /// bytes that need not be sent, or `None` if the file need not be sent.
    fn ask(
        &mut self,
        number: u64,
        source: &Arc<Source>,
        contents: &mut Contents,
        header: &FileHeader,
    ) -> Result<Option<GroupHasher>, Stop> {
        let (name, size) = (source.name(), header.size.unwrap_or_default());
        let mut hasher = GroupHasher::default();
        match self.reply(number)? {
            Reply::Go => {}
            Reply::Anew => self.screen.say(&format!("{name} has changed since it was interrupted, and is sent anew")),
            Reply::Offer { groups, digest } => {
                let prefix = Prefix::read(&mut *contents, groups.min(size / GROUP))?;
                let mut from = 0;
                if prefix.groups == groups && prefix.digest.finalize() == digest {
                    from = groups;
                    hasher = prefix.hasher;
                    self.screen.say(&format!("{name} is continued after {} of {size} bytes", hasher.len()));
                    self.batch.marks.push(Mark::Resumed(hasher.len()));
                } else {
                    contents.rewind()?;
                    self.screen.say(&format!("{name} is not what was interrupted, and is sent anew"));
                }
                self.batch.bytes.push(protocol::START);
                self.batch.bytes.extend(from.to_be_bytes());
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
            Reply::Confirmed | Reply::Skipped | Reply::Declined(_) | Reply::Refused(_) => {
                self.batch.bytes.push(protocol::ABANDONED);
                return Ok(None);
            }
        }
        Ok(Some(hasher))
    }

    fn reply(&mut self, number: u64) -> Result<Reply, Stop> {
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
    fn chunk(&mut self, contents: &mut Contents, left: u64, hasher: &mut GroupHasher) -> io::Result<u64> {
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
        let contents = bytes.get(body..).unwrap_or_default();
        hasher.update(contents, |_| io::Result::Ok(()))?;
        if self.packs && self.packer.is_none() {
            self.packer = Some(Packer::new()?);
        }
        if let Some(packed) = self.packer.as_mut().filter(|_| self.packs).and_then(|packer| packer.pack(contents)) {
            bytes.truncate(start);
            bytes.extend(protocol::packed_start(packed.len() as u32));
            bytes.extend(packed);
        }
        self.batch.marks.push(Mark::Contents(read as u64));
        Ok(read as u64)
    }

    fn hash(&mut self, hasher: &GroupHasher, resumed: u64) {
        let hash = hasher.finalize();
        self.batch.bytes.extend(hash.as_bytes());
        self.batch.marks.push(Mark::Ended(End { hash, bytes: hasher.len(), resumed }));
    }

    fn flush_if_full(&mut self) -> Result<(), Stop> {
        if self.batch.bytes.len() >= BATCH || self.batch.marks.len() >= MARKS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Stop> {
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

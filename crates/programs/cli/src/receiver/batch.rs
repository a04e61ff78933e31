//! Small files, directories and links that have arrived completely. One blocking call stores a batch of them: passing each
//! one to another thread would take longer than writing it.

use std::io::{self, Read as _};
use std::ops::Range;
use std::sync::Arc;

use bytes::Buf as _;
use futures_util::FutureExt as _;
use longhaul_tls::Fingerprint;
use tokio::io::AsyncReadExt as _;

use super::body::Peer;
use super::error::Fault;
use super::{Existing, File, Output, Received, Receiver, attributes};
use crate::files::hashing::Stop;
use crate::files::{Latest, Staging};
use crate::mirror::{self, Request};
use crate::names::Name;
use crate::packing::Unpacker;
use crate::protocol::{self, FileHeader, HASH_LEN, Kind, ProtocolError};
use crate::report::Stopwatch;
use crate::sync::completed;

/// Largest file that is stored together with others, in bytes.
const SMALL: u64 = 64 << 10;
/// Number of bytes of contents, and number of entries, at which a batch is stored.
const CONTENTS: usize = 1 << 20;
const ENTRIES: usize = 1024;

/// Complete entries in the order in which they have arrived.
pub(super) struct Batch {
    pub(super) entries: Vec<Entry>,
    /// Contents of all files.
    contents: Vec<u8>,
    arrived: Stopwatch,
}

pub(super) struct Entry {
    pub(super) header: FileHeader,
    contents: Range<usize>,
    hash: blake3::Hash,
}

/// Next message of a sender.
pub(super) enum Next {
    Batch(Batch),
    /// A file whose contents follow.
    File(FileHeader),
    Mirror(Request),
    End,
}

impl Peer<'_> {
    /// Returns the complete entries among the bytes that have arrived. If there are none, waits once for more bytes unless
    /// the next entry does not belong in a batch, and then reads only the header of the next entry.
    pub(super) async fn next_batch(&mut self) -> Result<Next, ProtocolError> {
        let (mut batch, is_cut) = self.take_batch();
        if batch.entries.is_empty() && is_cut {
            self.read_more().await?;
            (batch, _) = self.take_batch();
        }
        if batch.entries.is_empty() { self.next_header().await } else { Ok(Next::Batch(batch)) }
    }

    pub(super) async fn next_header(&mut self) -> Result<Next, ProtocolError> {
        let mut first = [0];
        if self.read(&mut first).await? == 0 {
            self.flush().await?;
            return Ok(Next::End);
        }
        let [first] = first;
        if first == mirror::COMPARE {
            return self.request().await.map(Next::Mirror);
        }
        let header = protocol::read_header(first, self).await?;
        Ok(match header.kind {
            Kind::File => Next::File(header),
            Kind::Directory | Kind::Link(_) => {
                let mut batch = Batch::new();
                batch.entries.push(Entry::without_contents(header));
                Next::Batch(batch)
            }
        })
    }

    /// Reads the beginning of a comparison.
    async fn request(&mut self) -> Result<Request, ProtocolError> {
        let mut fields = [0; mirror::OPTIONS_LEN];
        self.read_exact(&mut fields).await?;
        let [options, ..] = fields;
        let len = self.read_u16().await?;
        tokio::io::copy(&mut self.take(len.into()), &mut tokio::io::sink()).await?;
        Ok(Request::decode(options))
    }

    /// Takes the complete entries at the beginning of the arrived data. Also returns whether the next entry is
    /// incomplete.
    fn take_batch(&mut self) -> (Batch, bool) {
        let mut batch = Batch::new();
        while batch.contents.len() < CONTENTS && batch.entries.len() < ENTRIES {
            let (mut rest, before) = (&*self.ahead, batch.contents.len());
            match entry(&mut rest, &mut batch.contents, &mut self.unpacker) {
                Some(Some(entry)) => batch.entries.push(entry),
                next => {
                    batch.contents.truncate(before);
                    return (batch, next.is_none());
                }
            }
            let taken = self.ahead.len() - rest.len();
            self.ahead.advance(taken);
        }
        (batch, false)
    }
}

impl Batch {
    fn new() -> Self {
        Self { entries: Vec::new(), contents: Vec::new(), arrived: Stopwatch::start() }
    }
}

impl Entry {
    fn without_contents(header: FileHeader) -> Self {
        Self { header, contents: 0..0, hash: [0; HASH_LEN].into() }
    }
}

/// Takes an entry from the beginning of `arrived`, and appends its contents. Returns `None` if it is incomplete, and
/// `Some(None)` if it does not belong in a batch: it is large, asks a question, has several chunks, or is not valid.
fn entry(arrived: &mut &[u8], contents: &mut Vec<u8>, unpacker: &mut Option<Unpacker>) -> Option<Option<Entry>> {
    let first = *arrived.split_off_first()?;
    let header = match protocol::read_header(first, arrived).now_or_never()? {
        Ok(header) => header,
        Err(ProtocolError::EarlyEnd) => return None,
        Err(_) => return Some(None),
    };
    if header.kind != Kind::File {
        return Some(Some(Entry::without_contents(header)));
    }
    let Some(size) = header.size.filter(|size| *size <= SMALL && !header.asks) else { return Some(None) };
    let (size, start) = (size as usize, contents.len());
    let mut message = *arrived.split_off_first()?;
    if matches!(message, protocol::CHUNK | protocol::PACKED) {
        let len = u32::from_be_bytes(*arrived.split_off(..4)?.first_chunk()?) as usize;
        // Compression that does not save bytes is not used.
        if len > size {
            return Some(None);
        }
        let chunk = arrived.split_off(..len)?;
        if message == protocol::CHUNK {
            contents.extend(chunk);
        } else {
            let Ok(ready) = unpacker.take().map_or_else(Unpacker::new, Ok) else { return Some(None) };
            if unpacker.insert(ready).unpack(chunk, contents, size).is_err() {
                return Some(None);
            }
        }
        message = *arrived.split_off_first()?;
    }
    if message != protocol::END || contents.len() - start != size {
        return Some(None);
    }
    let hash = *arrived.split_off(..HASH_LEN)?.first_chunk::<HASH_LEN>()?;
    Some(Some(Entry { header, contents: start..contents.len(), hash: hash.into() }))
}

impl Receiver {
    /// Stores a batch on another thread, and reads ahead meanwhile. Returns the results in the order of the entries. If this
    /// is cancelled, the entry under way is the last one that is stored.
    pub(super) async fn store(&self, peer: &mut Peer<'_>, batch: Batch) -> (Batch, Vec<Result<Received, Fault>>) {
        let (receiver, key, stop) = (self.clone(), self.owner(peer), Stop::default());
        let _guard = stop.on_drop();
        let mut storing = tokio::task::spawn_blocking(move || {
            let mut latest = Latest::default();
            let entries = batch.entries.iter().take_while(|_| !stop.is_set());
            let stored = entries.map(|entry| receiver.store_one(key, &batch, entry, &mut latest)).collect();
            (batch, stored)
        });
        tokio::select! {
            stored = completed(&mut storing) => return stored,
            // The next read finds the failure again.
            _ = peer.failed() => {}
        }
        completed(&mut storing).await
    }

    fn store_one(
        &self,
        key: Option<Fingerprint>,
        batch: &Batch,
        Entry { header, contents, hash }: &Entry,
        latest: &mut Latest,
    ) -> Result<Received, Fault> {
        self.check_name(&header.name)?;
        let Output::Directory(staging) = &self.out else { return Ok(Received::Entry) };
        if header.kind != Kind::File {
            return self.create(key, header, staging);
        }
        let FileHeader { name, data, .. } = header;
        let contents = batch.contents.get(contents.clone()).unwrap_or_default();
        let bytes = contents.len() as u64;
        let file = |name, resumed| File { name, bytes, resumed, took: batch.arrived.elapsed(), hash: *hash };
        let existing = self.existing(header);
        let exists = || match existing {
            Existing::Skip => Ok(Received::Skipped),
            _ if has(staging, name, contents) => Ok(Received::File(file(name.clone(), bytes), Ok(()))),
            _ => Err(Fault::Exists),
        };
        let mut share = self.budget.begin(key, name, bytes).map_err(Fault::TooLarge)?;
        share.add(bytes).map_err(Fault::TooLarge)?;
        let (keeps, owner) = (matches!(existing, Existing::Skip | Existing::Refuse), self.budget.owner(key));
        let is_there = staging.prepare(name, latest).map_err(Fault::Disk)?;
        if is_there && keeps {
            return exists();
        }
        if blake3::hash(contents) != *hash {
            return Err(Fault::WrongHash);
        }
        let at_once = if is_there || data.is_some() {
            Ok(None)
        } else {
            staging.create_at_once(name, contents, attributes(header), &owner, latest)
        };
        let placed = match at_once {
            Ok(Some(kept)) => Ok((name.clone(), kept)),
            Err(error) if keeps || error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(None) | Err(_) => {
                let mut temp = staging.create().map_err(Fault::Disk)?;
                temp.keep_holes(data.is_some());
                temp.write_all(contents).map_err(Fault::Disk)?;
                self.place(temp, header, &owner, latest)
            }
        };
        match placed {
            Ok((name, kept)) => {
                share.keep();
                Ok(Received::File(file(name, 0), kept))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => exists(),
            Err(error) => Err(Fault::Disk(error)),
        }
    }

    /// Creates a directory or a link.
    fn create(&self, key: Option<Fingerprint>, header: &FileHeader, staging: &Arc<Staging>) -> Result<Received, Fault> {
        let (owner, overwrite) = (self.budget.owner(key), self.existing == Existing::Overwrite);
        let created = match &header.kind {
            Kind::Link(target) => staging.link(&header.name, target, overwrite, &owner),
            Kind::Directory | Kind::File => staging.directory(&header.name, attributes(header), overwrite, &owner),
        };
        match created {
            Ok(()) => Ok(Received::Entry),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.existing == Existing::Skip => {
                Ok(Received::Skipped)
            }
            Err(error) => Err(Fault::Entry(error)),
        }
    }
}

/// Returns whether the existing file has these contents.
fn has(staging: &Staging, name: &Name, contents: &[u8]) -> bool {
    let read = || {
        let mut file = staging.existing(name)?;
        let mut there = vec![0; contents.len()];
        let same_length = file.metadata()?.len() == contents.len() as u64;
        io::Result::Ok(same_length && file.read_exact(&mut there).is_ok() && there == contents)
    };
    read().unwrap_or(false)
}

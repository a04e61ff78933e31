//! Reads a sender's messages, with time limits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::time::{self, Interval};

use super::error::Fault;
use super::existing::{Check, Copies};
use super::{File, LeftOut};
use crate::files::Staging;
use crate::files::hashing::Stop;
use crate::files::parts::Lease;
use crate::names::Name;
use crate::packing::Unpacker;
use crate::progress::{self, Progress};
use crate::protocol::{self, HASH_LEN, MAX_CHUNK, ProtocolError, Reply};
use crate::report::Stopwatch;
use crate::sync::blocking;
use crate::transport::Transport;

/// Number of queued bytes at which replies are sent even if more messages have arrived.
const REPLIES: usize = 1024;
/// Minimum speed of a sender that hashes its copy of a part, in groups per second.
const GROUPS_PER_SECOND: u64 = 16;

/// Maximum number of bytes to read ahead.
const AHEAD: usize = 256 << 10;
/// Time between two looks at a connection whose failure reads do not show.
const LOOK: Duration = Duration::from_millis(100);

/// Minimum speed of a sender: `least` bytes of contents per `time` of waiting. If `least` is 1, any data is sufficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(super) least: u64,
    /// Also the time within which the sender must announce its next file.
    pub(super) time: Duration,
}

/// A sender, and the replies to it, which are sent once no more messages have arrived.
pub(super) struct Peer<'a> {
    pub(super) transport: &'a mut (dyn Transport + Send),
    /// Number of the file whose messages are read.
    pub(super) number: u64,
    replies: Vec<u8>,
    /// Bytes that have been read ahead of the messages.
    pub(super) ahead: BytesMut,
    /// `None` before the first batch with a compressed file.
    pub(super) unpacker: Option<Unpacker>,
    /// Whether the transport may still buffer replies.
    unflushed: bool,
    /// A file that the sender may send again at once.
    pub(super) held: Option<LeftOut>,
    pub(super) progress: Progress,
    /// Number of bytes of the completed files.
    pub(super) ended: u64,
    /// Time since the progress was shown.
    shown: Stopwatch,
}

impl<'a> Peer<'a> {
    pub(super) fn new(transport: &'a mut (dyn Transport + Send), progress: Progress) -> Self {
        Self {
            transport,
            number: 0,
            replies: Vec::new(),
            ahead: BytesMut::new(),
            unpacker: None,
            unflushed: false,
            held: None,
            progress,
            ended: 0,
            shown: Stopwatch::start(),
        }
    }

    /// Queues a reply to the current file, which is sent no later than with the next read.
    pub(super) fn reply(&mut self, reply: &Reply) {
        protocol::encode_reply(&mut self.replies, self.number, reply);
    }

    /// Queues bytes that are not a reply to a file.
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.replies.extend(bytes);
    }

    /// Sends all replies. Cancel safe.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while !self.replies.is_empty() {
            self.unflushed = true;
            let written = self.transport.write(&self.replies).await?;
            self.replies.drain(..written);
        }
        if self.unflushed {
            self.transport.flush().await?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Reads bytes, or returns 0 at the end of the stream. Cancel safe.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.replies.len() >= REPLIES {
            self.flush().await?;
        }
        if self.unflushed || !self.replies.is_empty() {
            match AsyncReadExt::read(self, buffer).now_or_never() {
                Some(read) => return read,
                None => self.flush().await?,
            }
        }
        AsyncReadExt::read(self, buffer).await
    }

    /// Reads more bytes ahead. Cancel safe.
    pub(super) async fn read_more(&mut self) -> io::Result<()> {
        if self.read_ahead().now_or_never().transpose()?.is_none() {
            self.flush().await?;
            self.read_ahead().await?;
        }
        Ok(())
    }

    /// Reads bytes ahead, or returns 0 at the end of the stream or if there is no room. Cancel safe.
    async fn read_ahead(&mut self) -> io::Result<usize> {
        let room = AHEAD.saturating_sub(self.ahead.len());
        self.ahead.reserve(room);
        self.transport.read_buf(&mut (&mut self.ahead).limit(room)).await
    }

    /// Shows the progress unless this was done recently.
    pub(super) fn show(&mut self) {
        if self.shown.elapsed() >= progress::INTERVAL {
            self.shown = Stopwatch::start();
            self.progress.update(self.ended);
        }
    }

    /// Runs `hash`, which reads a file that the sender has named, on a thread when it is the sender's turn. If the
    /// connection fails, `hash` is stopped.
    pub(super) async fn hash<R: Send + 'static>(
        &mut self,
        staging: &Arc<Staging>,
        hash: impl FnOnce(&Stop) -> R + Send + 'static,
    ) -> Result<R, Fault> {
        let (staging, key, stop) = (Arc::clone(staging), self.transport.peer_key(), Stop::default());
        let _guard = stop.on_drop();
        let hashed = async move {
            let turn = staging.hashing.turn(key).await;
            // The turn ends with the thread, which may outlive the connection.
            blocking(move || (hash(&stop), drop(turn)).0).await
        };
        self.beside(hashed).await
    }

    /// Waits for `work`, or until the connection fails.
    pub(super) async fn beside<R>(&mut self, work: impl Future<Output = R>) -> Result<R, Fault> {
        tokio::select! {
            done = work => Ok(done),
            error = self.failed() => Err(ProtocolError::from(error).into()),
        }
    }

    /// Sends all replies, and waits until the connection fails. Data that arrives is kept for later reads: without
    /// reading, a failure would not be detected.
    pub(super) async fn failed(&mut self) -> io::Error {
        if let Err(error) = self.flush().await {
            return error;
        }
        loop {
            match self.read_ahead().await {
                // The sender has ended its direction, but may be waiting for the reply, or there is no room.
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return error,
            }
        }
        while !self.transport.has_failed() {
            time::sleep(LOOK).await;
        }
        io::ErrorKind::ConnectionReset.into()
    }
}

impl AsyncRead for Peer<'_> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut *self.transport).poll_read(cx, buffer);
        }
        let len = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(self.ahead.get(..len).unwrap_or_default());
        self.ahead.advance(len);
        Poll::Ready(Ok(()))
    }
}

pub(super) struct Body {
    pub(super) size: Option<u64>,
    /// Number of bytes of the contents that are present.
    pub(super) received: u64,
    pub(super) ended: bool,
    /// Number of bytes of the contents that were taken from the existing file.
    pub(super) copied: u64,
    pub(super) copies: Copies,
    pace: Pace,
    /// Number of ticks spent waiting for the peer since it last made the minimum progress.
    waited: u32,
    /// Number of bytes received when progress was last recorded.
    before: u64,
    /// Additional time while the sender hashes its copy: for the first progress, and for a continued part at any time.
    grace: Duration,
    /// Decompresses from `packed`. `None` before the first compressed chunk.
    unpacker: Option<Unpacker>,
    packed: Vec<u8>,
    pub(super) lease: Option<Arc<Lease>>,
    /// Verifies the data that was already present.
    pub(super) check: Option<Check>,
    watch: Stopwatch,
    ticks: Interval,
}

impl Body {
    pub(super) fn new(size: Option<u64>, pace: Pace) -> Self {
        let ticks = progress::ticks();
        Self {
            size,
            received: 0,
            ended: false,
            copied: 0,
            copies: Copies::default(),
            pace,
            waited: 0,
            before: 0,
            grace: Duration::ZERO,
            unpacker: None,
            packed: Vec::new(),
            lease: None,
            check: None,
            watch: Stopwatch::start(),
            ticks,
        }
    }

    /// Describes the present bytes, such as `3 of 10 bytes`.
    pub(super) fn came(&self) -> String {
        let size = self.size.map(|size| format!(" of {size}")).unwrap_or_default();
        format!("{}{size} bytes", self.received)
    }

    /// Returns the report of the file, which is complete. `resumed` bytes were already present.
    pub(super) fn file(&self, name: Name, resumed: u64, hash: blake3::Hash) -> File {
        File { name, bytes: self.received, resumed, took: self.watch.elapsed(), hash }
    }

    /// Counts the next `bytes` bytes as present.
    pub(super) fn skip(&mut self, bytes: u64, progress: &mut Progress) {
        self.received += bytes;
        self.before = self.received;
        progress.skip(bytes);
    }

    pub(super) fn wait_for_hash(&mut self, groups: u64) {
        self.grace = Duration::from_secs(groups / GROUPS_PER_SECOND);
    }

    /// Reads the next chunk into `chunk`, or returns `None` at the end of the contents.
    pub(super) async fn read(&mut self, peer: &mut Peer<'_>, mut chunk: Vec<u8>) -> Result<Option<Vec<u8>>, Fault> {
        let first = self.message(peer).await?;
        match (first, self.size) {
            (protocol::CHUNK | protocol::PACKED, _) => {}
            (protocol::COPY, _) if self.copies.is_offered => {}
            (protocol::END, Some(size)) if self.received < size => return Err(ProtocolError::WrongSize(size).into()),
            (protocol::END, _) => return Ok(None),
            (other, _) => return Err(ProtocolError::BadMessage(other).into()),
        }
        let len = u32::from_be_bytes(self.fixed(peer).await?);
        if first == protocol::COPY {
            self.check_room(len.into())?;
            let from = self.received;
            self.copied += u64::from(len);
            self.skip(len.into(), &mut peer.progress);
            return self.copies.read(from, len, chunk).await.map(Some);
        }
        if len as usize > MAX_CHUNK {
            return Err(ProtocolError::ChunkTooLong(len).into());
        }
        if first == protocol::PACKED {
            self.unpack(peer, len, &mut chunk).await?;
        } else {
            self.check_room(len.into())?;
            chunk.resize(len as usize, 0);
            self.fill(peer, &mut chunk, true).await?;
        }
        Ok(Some(chunk))
    }

    /// Reads a compressed chunk of `len` bytes and decompresses it into `chunk`.
    async fn unpack(&mut self, peer: &mut Peer<'_>, len: u32, chunk: &mut Vec<u8>) -> Result<(), Fault> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.resize(len as usize, 0);
        let before = self.received;
        // The bytes of a compressed chunk count as progress while they arrive.
        self.fill(peer, &mut packed, true).await?;
        let mut unpacker = match self.unpacker.take() {
            Some(unpacker) => unpacker,
            None => Unpacker::new().map_err(ProtocolError::BadPacking)?,
        };
        chunk.clear();
        let unpacked = unpacker.unpack(&packed, chunk, MAX_CHUNK);
        (self.unpacker, self.packed, self.received) = (Some(unpacker), packed, before);
        unpacked.map_err(ProtocolError::BadPacking)?;
        self.check_room(chunk.len() as u64)?;
        self.received += chunk.len() as u64;
        Ok(())
    }

    /// Checks that `bytes` more bytes of contents do not exceed the size of the file.
    fn check_room(&self, bytes: u64) -> Result<(), Fault> {
        match self.size {
            Some(size) if bytes > size.saturating_sub(self.received) => Err(ProtocolError::WrongSize(size).into()),
            _ => Ok(()),
        }
    }

    /// Reads the first byte of a message. Fails if the sender gives the file up instead.
    pub(super) async fn message(&mut self, peer: &mut Peer<'_>) -> Result<u8, Fault> {
        let [first] = self.fixed(peer).await?;
        self.ended = first == protocol::ABANDONED;
        if self.ended { Err(ProtocolError::Abandoned.into()) } else { Ok(first) }
    }

    /// Reads the first byte of a message, which has to be `wanted`.
    pub(super) async fn expect(&mut self, peer: &mut Peer<'_>, wanted: u8) -> Result<(), Fault> {
        match self.message(peer).await? {
            first if first == wanted => Ok(()),
            other => Err(ProtocolError::BadMessage(other).into()),
        }
    }

    pub(super) async fn hash(&mut self, peer: &mut Peer<'_>) -> Result<blake3::Hash, Fault> {
        let hash = self.fixed::<HASH_LEN>(peer).await?;
        self.ended = true;
        Ok(hash.into())
    }

    pub(super) async fn fixed<const N: usize>(&mut self, peer: &mut Peer<'_>) -> Result<[u8; N], Fault> {
        let mut field = [0; N];
        self.fill(peer, &mut field, false).await?;
        Ok(field)
    }

    /// Fills `buffer`. Its bytes count as progress if they are `contents`.
    async fn fill(&mut self, peer: &mut Peer<'_>, buffer: &mut [u8], contents: bool) -> Result<(), Fault> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            tokio::select! {
                read = peer.read(rest) => match read.map_err(ProtocolError::from)? {
                    0 => return Err(ProtocolError::EarlyEnd.into()),
                    more => {
                        filled += more;
                        if self.pace.least <= 1 {
                            self.waited = 0;
                        }
                        self.lease.as_ref().inspect(|lease| lease.arrived());
                    }
                },
                () = evicted(self.lease.as_deref()) => return Err(Fault::Superseded),
                _ = self.ticks.tick() => {
                    let now = self.received + if contents { filled as u64 } else { 0 };
                    peer.progress.update(peer.ended.saturating_add(now));
                    self.wait(now)?;
                }
            }
        }
        if contents {
            self.received += filled as u64;
        }
        Ok(())
    }

    /// Counts a tick spent waiting, with `now` bytes received so far. Fails if the sender is too slow.
    fn wait(&mut self, now: u64) -> Result<(), Fault> {
        self.waited = self.waited.saturating_add(1);
        if now.saturating_sub(self.before) >= self.pace.least {
            (self.waited, self.before) = (0, now);
            if self.lease.is_none() {
                self.grace = Duration::ZERO;
            }
        }
        let limit = self.pace.time.saturating_add(self.grace);
        if progress::INTERVAL.saturating_mul(self.waited) >= limit { Err(Fault::Slow(self.pace)) } else { Ok(()) }
    }
}

/// Waits until another connection takes over the part. Never completes without a lease.
pub(super) async fn evicted(lease: Option<&Lease>) {
    match lease {
        Some(lease) => lease.evicted().await,
        None => std::future::pending().await,
    }
}

//! Sending end of [`protocol`].

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::TrySendError;
use std::task::{Poll, ready};

use longhaul_tls::{TlsError, tls_error};
use tokio::io::ReadBuf;
use tokio::sync::mpsc;

use crate::names::{Name, NameError};
use crate::progress::{self, Progress};
use crate::protocol::{self, ProtocolError, Reply};
use crate::receiver::may_be_repeated;
use crate::sync::completed;
use crate::transport::Transport;

mod cache;
mod mirror;
mod producer;
mod resume;
mod source;
mod tree;

pub(crate) use mirror::Listed;
use producer::{Batch, End, Mark, Producer, Replies};
pub(crate) use source::{Plan, Source};

const BATCHES_AHEAD: usize = 4;
/// Capacity for replies to the producer. The producer waits for replies to one file at a time, but the last reply to
/// the previous file may still be queued.
const ANSWERS: usize = 4;
/// Maximum number of bytes of replies to read at a time.
const READ: usize = 4096;
/// Maximum number of files that wait for a confirmation.
const MAX_WAITING: usize = 16_384;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("cannot compress: {0}")]
    Compress(io::Error),
    #[error("cannot open {path}: {error}", path = path.display())]
    Open { path: PathBuf, error: io::Error },
    #[error("{path} is not a regular file", path = .0.display())]
    NotAFile(PathBuf),
    #[error("cannot send {path}: {error}", path = path.display())]
    Name { path: PathBuf, error: NameError },
    #[error("cannot read {path}: {error}", path = path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("the receiver refused {name}: {reason}")]
    Refused { name: Name, reason: String },
    /// The receiver refuses a mirror, or does not support mirrors.
    #[error("{0}")]
    Mirror(String),
    #[error("sending {name} failed after {sent}{} bytes: {error}", size.map(|size| format!(" of {size}")).unwrap_or_default())]
    Connection {
        name: Name,
        /// Bytes handed to the connection.
        sent: u64,
        size: Option<u64>,
        error: ProtocolError,
    },
}

impl SendError {
    /// Returns whether the same files can be sent over another connection: the current connection failed, but neither
    /// end refused anything.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Self::Connection { error: ProtocolError::EarlyEnd, .. } => true,
            Self::Connection { error: ProtocolError::Connection(error), .. } => {
                !matches!(tls_error(error), Some(TlsError::Refused))
            }
            _ => false,
        }
    }

    /// Returns whether the receiver or a third party has reset the connection.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self, Self::Connection { error: ProtocolError::Connection(error), .. }
            if error.kind() == io::ErrorKind::ConnectionReset)
    }
}

#[derive(Debug)]
pub(crate) enum Delivery {
    /// The receiver has the file.
    Confirmed {
        hash: blake3::Hash,
        /// Length of the contents in bytes.
        bytes: u64,
        /// Bytes that the receiver had before this connection.
        resumed: u64,
    },
    /// The receiver has kept a different file of this name.
    Skipped,
    /// The receiver has declined the file, for this reason.
    Declined(String),
    Failed(io::Error),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether to ask which part of a large file the receiver has, and to send only the rest.
    pub(crate) resume: bool,
    /// Whether permissions and modification times are kept.
    pub(crate) attributes: bool,
    /// Whether contents are compressed if that saves bytes.
    pub(crate) compress: bool,
    /// Directory for chaining values of files that are sent, if there is one.
    pub(crate) cache: Option<PathBuf>,
}

/// The sending end of a connection.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    transport: T,
    /// Incomplete replies.
    inbox: Vec<u8>,
    /// Whether the buffers of the transport are empty.
    flushed: bool,
    /// Bytes that precede the first file.
    greeting: Vec<u8>,
    /// Whether the latest operation was a read. In that case the next operation is a write, so that a receiver that
    /// sends endlessly does not prevent data from being sent.
    heard: bool,
}

impl<T: Transport> Sender<T> {
    /// Creates a sender on `transport`, on which nothing has been sent.
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, inbox: Vec::new(), flushed: true, greeting: protocol::MAGIC.to_vec(), heard: false }
    }

    pub(crate) fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns the connection, after the last file.
    pub(crate) fn into_transport(self) -> T {
        self.transport
    }

    /// Sends the unsettled files of `plan`, and calls `done` for each file that is settled. `observe` is called
    /// whenever the transport is used. Returns the reason why the receiver does not have all files. In that case, the
    /// connection can no longer be used.
    pub(crate) async fn send(
        &mut self,
        plan: &mut Plan,
        options: Options,
        progress: &mut Progress,
        mut observe: impl FnMut(&T),
        mut done: impl FnMut(&Source, Delivery, &T),
    ) -> Result<(), SendError> {
        let (feed, mut batches) = mpsc::channel(BATCHES_AHEAD);
        let (spare, spares) = std::sync::mpsc::channel();
        let (answer, replies) = std::sync::mpsc::sync_channel(ANSWERS);
        let settled = Arc::new(AtomicU64::new(0));
        let sources = plan.rest().to_vec();
        progress.reconnect(plan.settled_bytes());
        let mut state = State::default();
        let replies = Replies { asked: replies, settled: Arc::clone(&settled) };
        let producer = Producer::new(
            feed,
            spares,
            replies,
            options,
            progress.screen().clone(),
            std::mem::take(&mut self.greeting),
        );
        let mut producer = Some(tokio::task::spawn_blocking(move || producer.run(sources)));
        let (mut bytes, mut written, mut ticks) = (Vec::new(), 0, progress::ticks());
        while !bytes.is_empty() || producer.is_some() || !state.waiting.is_empty() {
            let free = bytes.is_empty() && producer.is_some() && state.waiting.len() < MAX_WAITING;
            tokio::select! {
                heard = self.write_or_hear(bytes.get(written..).unwrap_or_default(), &mut observe) => {
                    written += heard.map_err(|error| state.failed(error.into()))?;
                    while let Some((number, reply)) =
                        protocol::take_reply(&mut self.inbox).map_err(|error| state.failed(error))?
                    {
                        plan.answered();
                        let heard = state.heard(number, &reply)?;
                        if heard.settles {
                            settled.store(number.saturating_add(1), Ordering::Relaxed);
                        }
                        // A full queue is an error of the receiver; a closed one is not, because the producer may have
                        // ended.
                        if heard.is_awaited && let Err(TrySendError::Full(_)) = answer.try_send((number, reply)) {
                            return Err(state.failed(ProtocolError::BadReply));
                        }
                    }
                }
                batch = batches.recv(), if free => match (batch, producer.take()) {
                    (Some(Batch { bytes: next, marks }), running) => {
                        producer = running;
                        bytes = next;
                        marks.into_iter().for_each(|mark| state.mark(mark, progress));
                    }
                    (None, Some(ended)) => {
                        completed(ended).await?;
                    }
                    (None, None) => {}
                },
                _ = ticks.tick() => {
                    // The state during an outage is also observed.
                    observe(&self.transport);
                    progress.file(state.name.to_string());
                    // Data that the peer has not acknowledged may be in the buffers of this machine.
                    let unacknowledged = self.transport.snapshot().unwrap_or_default().unacknowledged_bytes;
                    progress.update(state.total.saturating_sub(unacknowledged));
                }
            }
            state.settled(|source, delivery| {
                plan.settle();
                progress.finish(source.is_file());
                done(source, delivery, &self.transport);
            });
            if written == bytes.len() && written > 0 {
                written = 0;
                // At the end of the files, the producer has ended and accepts no more buffers.
                let _ = spare.send(std::mem::take(&mut bytes));
            }
        }
        Ok(())
    }

    /// Writes part of `data` and returns its length, or reads from the peer and returns 0. If `data` is empty, flushes
    /// what has been written. Cancel safe: a cancelled call has written nothing.
    async fn write_or_hear(&mut self, data: &[u8], observe: &mut impl FnMut(&T)) -> io::Result<usize> {
        poll_fn(|cx| {
            observe(&self.transport);
            if std::mem::take(&mut self.heard)
                && !data.is_empty()
                && let Poll::Ready(written) = Pin::new(&mut self.transport).poll_write(cx, data)
            {
                self.flushed = false;
                return Poll::Ready(written);
            }
            let mut buffer = [0; READ];
            let mut buffer = ReadBuf::new(&mut buffer);
            if let Poll::Ready(read) = Pin::new(&mut self.transport).poll_read(cx, &mut buffer) {
                read?;
                self.inbox.extend(buffer.filled());
                self.heard = true;
                let ended = buffer.filled().is_empty();
                return Poll::Ready(if ended { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(0) });
            }
            if !data.is_empty() {
                self.flushed = false;
                return Pin::new(&mut self.transport).poll_write(cx, data);
            }
            if !self.flushed {
                ready!(Pin::new(&mut self.transport).poll_flush(cx))?;
                self.flushed = true;
            }
            Poll::Pending
        })
        .await
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// The file whose contents are being written.
    name: Name,
    size: Option<u64>,
    /// Number of bytes of that file that have been written, or that the receiver already had.
    sent: u64,
    /// Sum of these numbers for all files.
    total: u64,
}

struct Waiting {
    /// `None` if the file is not sent.
    number: Option<u64>,
    source: Arc<Source>,
    informs: Informs,
    /// Reason why the rest of the file is not sent.
    failed: Option<io::Error>,
    /// Whether the file is sent again if the receiver's part of it turns out to be wrong.
    repeats: bool,
    end: Option<End>,
    delivery: Option<Delivery>,
}

/// Intermediate replies to a file that may still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Informs {
    /// None, because the sender has not asked.
    Unasked,
    /// `Groups`, and then any other answer.
    Groups,
    /// Any answer to the sender's question.
    Any,
    /// `Go`: the sender has to prove that it has the same file, and the receiver may ask for the contents nevertheless.
    Go,
    /// None, because the question has been answered.
    Heard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    /// Whether no further reply to the file follows.
    settles: bool,
    /// Whether the producer waits for replies to this file.
    is_awaited: bool,
}

impl State {
    /// Records a mark in the batch that is written next.
    fn mark(&mut self, mark: Mark, progress: &mut Progress) {
        match mark {
            Mark::Begun { number, source, size, informs } => {
                (self.name, self.size, self.sent) = (source.name().clone(), size, 0);
                self.waiting.push_back(Waiting::new(Some(number), source, informs));
            }
            Mark::Failed { source, error } => {
                let waiting = Waiting::new(None, source, Informs::Unasked);
                self.waiting.push_back(Waiting { delivery: Some(Delivery::Failed(error)), ..waiting });
            }
            Mark::Unread(error) => {
                if let Some(file) = self.waiting.back_mut() {
                    file.failed = Some(error);
                }
            }
            Mark::Resumed { bytes, repeats } => {
                self.count(bytes);
                progress.skip(bytes);
                if let Some(file) = self.waiting.back_mut() {
                    file.repeats |= repeats;
                }
            }
            Mark::Contents(more) => self.count(more),
            Mark::Ended(end) => {
                if let Some(file) = self.waiting.back_mut() {
                    file.end = Some(end);
                }
            }
        }
    }

    /// Records the reply to file `number`. Only the first unsettled file that is sent can have a reply, and each kind
    /// of reply at most once, so that a receiver cannot make memory use grow.
    fn heard(&mut self, number: u64, reply: &Reply) -> Result<Heard, SendError> {
        if let Reply::Refused(reason) = reply {
            let file = self.waiting.iter().find(|file| file.number == Some(number));
            let name = file.map_or(&self.name, |file| file.source.name()).clone();
            return Err(SendError::Refused { name, reason: reason.clone() });
        }
        let first = self.waiting.iter_mut().find(|file| file.delivery.is_none());
        if let Some(file) = &first
            && file.number == Some(number)
            && file.is_repeated(reply)
        {
            // This file is the last one, because the producer waits for this reply.
            self.waiting.pop_back();
            self.total = self.total.saturating_sub(std::mem::take(&mut self.sent));
            return Ok(Heard { settles: true, is_awaited: true });
        }
        let heard = first.filter(|file| file.number == Some(number)).and_then(|file| file.heard(reply));
        heard.ok_or_else(|| self.failed(ProtocolError::BadReply))
    }

    /// Calls `done` for each file that is settled, in order.
    fn settled(&mut self, mut done: impl FnMut(&Source, Delivery)) {
        while self.waiting.front().is_some_and(|file| file.delivery.is_some()) {
            if let Some(Waiting { source, delivery: Some(delivery), .. }) = self.waiting.pop_front() {
                done(&source, delivery);
            }
        }
    }

    /// Counts contents. Saturates, because files with holes can have any length.
    fn count(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
        self.total = self.total.saturating_add(bytes);
    }

    fn failed(&self, error: ProtocolError) -> SendError {
        SendError::Connection { name: self.name.clone(), sent: self.sent, size: self.size, error }
    }
}

impl Waiting {
    fn new(number: Option<u64>, source: Arc<Source>, informs: Informs) -> Self {
        Self { number, source, informs, failed: None, repeats: false, end: None, delivery: None }
    }

    /// Returns whether the file is sent again because of this reply.
    fn is_repeated(&self, reply: &Reply) -> bool {
        let Reply::Declined(reason) = reply else { return false };
        self.repeats && self.failed.is_none() && may_be_repeated(reason)
    }

    /// Records a reply. Returns `None` if it is not valid now.
    fn heard(&mut self, reply: &Reply) -> Option<Heard> {
        let is_awaited = self.informs != Informs::Unasked;
        let informs = match (reply, self.informs) {
            (Reply::Go, Informs::Any | Informs::Go) | (Reply::Anew | Reply::Offer { .. }, Informs::Any) => {
                Informs::Heard
            }
            (Reply::Same, Informs::Any) => Informs::Go,
            (Reply::Groups(_), Informs::Groups) => Informs::Any,
            (Reply::Go | Reply::Anew | Reply::Offer { .. } | Reply::Same | Reply::Groups(_) | Reply::Refused(_), _) => {
                return None;
            }
            (Reply::Skipped, _) => return self.settled(Delivery::Skipped, is_awaited),
            (Reply::Declined(reason), _) => {
                let failed = self.failed.take().map(Delivery::Failed);
                return self.settled(failed.unwrap_or_else(|| Delivery::Declined(reason.clone())), is_awaited);
            }
            (Reply::Confirmed, _) => {
                let End { hash, bytes, resumed } = self.end?;
                return self.settled(Delivery::Confirmed { hash, bytes, resumed }, is_awaited);
            }
        };
        self.informs = informs;
        Some(Heard { settles: false, is_awaited })
    }

    fn settled(&mut self, delivery: Delivery, is_awaited: bool) -> Option<Heard> {
        self.delivery = Some(delivery);
        Some(Heard { settles: true, is_awaited })
    }
}

#[cfg(test)]
mod tests;

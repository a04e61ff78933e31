//! Sending end of [`protocol`].

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::Interval;

use crate::names::NameError;
use crate::progress::{self, Progress};
use crate::protocol::{self, FileHeader, MAX_CHUNK, ProtocolError, Reply};
use crate::transport::Transport;

/// Number of chunks read ahead.
const CHUNKS_AHEAD: usize = 4;

/// Reason why a file was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The file cannot be opened.
    #[error("cannot open {path}: {error}", path = path.display())]
    Open {
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The path names a directory or a device.
    #[error("{path} is not a regular file", path = .0.display())]
    NotAFile(PathBuf),
    /// The receiver would refuse the name.
    #[error("cannot send {path}: {error}", path = path.display())]
    Name {
        /// The file's path.
        path: PathBuf,
        /// What is wrong with its name.
        error: NameError,
    },
    /// The file cannot be read completely.
    #[error("cannot read {path}: {error}", path = path.display())]
    Read {
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The receiver refused the file.
    #[error("the receiver refused {name}: {reason}")]
    Refused {
        /// The file's name.
        name: String,
        /// The receiver's reason.
        reason: String,
    },
    /// The receiver's hash differs from the sender's.
    #[error("{0} was damaged on the way: the receiver found another hash")]
    WrongHash(String),
    /// The connection failed.
    #[error("sending {name} failed after {sent}{} bytes: {error}", size.map(|size| format!(" of {size}")).unwrap_or_default())]
    Connection {
        /// The file's name.
        name: String,
        /// Bytes handed to the connection.
        sent: u64,
        /// The file's size, if it is known.
        size: Option<u64>,
        /// The connection's error.
        error: ProtocolError,
    },
}

/// A file opened for sending.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    header: FileHeader,
    input: Input,
}

#[derive(Debug)]
enum Input {
    File(File),
    Stdin,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Stdin => io::stdin().lock().read(buffer),
        }
    }
}

/// Result of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver has the file.
    Confirmed {
        /// Hash of the contents.
        hash: blake3::Hash,
        /// Length of the contents in bytes.
        bytes: u64,
    },
    /// The receiver has kept another file of this name.
    Skipped,
}

impl Delivery {
    /// Returns the hash of a delivered file.
    #[must_use]
    pub fn hash(self) -> Option<blake3::Hash> {
        match self {
            Self::Confirmed { hash, .. } => Some(hash),
            Self::Skipped => None,
        }
    }
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, is not a regular file, or has a name that cannot be sent.
    pub fn open(path: &Path) -> Result<Self, SendError> {
        let open = |error| SendError::Open { path: path.to_owned(), error };
        // Checked before the file is opened, because opening a pipe waits for its other end.
        if !path.metadata().map_err(open)?.is_file() {
            return Err(SendError::NotAFile(path.to_owned()));
        }
        let file = File::open(path).map_err(open)?;
        let size = file.metadata().map_err(open)?.len();
        let name = path.file_name().unwrap_or_default();
        let name = name.to_str().ok_or_else(|| NameError::NotPlain(name.to_string_lossy().into_owned()));
        let header = name.map(|name| FileHeader { name: name.to_owned(), size: Some(size) });
        let header = header.and_then(|header| protocol::encode_header(&header).map(|_| header));
        let header = header.map_err(|error| SendError::Name { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), header, input: Input::File(file) })
    }

    /// Uses standard input, whose contents are sent under the name `stdin`.
    ///
    /// # Errors
    /// Returns an error if standard input is a terminal.
    pub fn stdin() -> Result<Self, SendError> {
        let path = PathBuf::from("-");
        if io::stdin().is_terminal() {
            return Err(SendError::Read { path, error: io::Error::other("standard input is a terminal") });
        }
        Ok(Self { path, header: FileHeader { name: "stdin".to_owned(), size: None }, input: Input::Stdin })
    }

    /// Returns the name under which the file is sent.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// Returns the path given to [`open`](Self::open).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file's size in bytes, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.header.size
    }
}

/// The sending end of a connection.
#[derive(Debug)]
pub struct Sender<T> {
    transport: T,
    greeted: bool,
    ticks: Interval,
}

/// Result of [`write_or_hear`].
enum Heard {
    /// This number of bytes was written.
    Wrote(usize),
    /// The peer answered: the first byte of its reply, or `None` at the end of the stream.
    Answer(Option<u8>),
}

impl<T: Transport> Sender<T> {
    /// Creates a sender on `transport`, on which nothing has been sent.
    pub fn new(transport: T) -> Self {
        Self { transport, greeted: false, ticks: progress::ticks() }
    }

    /// Returns the connection.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns the connection, after the last file.
    pub fn into_transport(self) -> T {
        self.transport
    }

    /// Sends a file and waits for the receiver's confirmation, or until the receiver skips the file.
    ///
    /// # Errors
    /// Returns why the receiver does not have the file. The connection cannot be used any further then.
    pub async fn send(&mut self, source: Source, progress: &mut Progress) -> Result<Delivery, SendError> {
        let FileHeader { name, size } = source.header.clone();
        let mut sent = 0;
        let failed = |sent, error: ProtocolError| SendError::Connection { name: name.clone(), sent, size, error };

        let mut start = if self.greeted { Vec::new() } else { protocol::MAGIC.to_vec() };
        self.greeted = true;
        let header = protocol::encode_header(&source.header);
        start.extend(header.map_err(|error| SendError::Name { path: source.path.clone(), error })?);
        let (feed, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
        let (spare, spares) = std::sync::mpsc::channel();
        let reader = tokio::task::spawn_blocking(move || read_chunks(source, &feed, &spares));
        let mut answer = self.write(&mut &start[..], &mut 0, progress).await.map_err(|e| failed(0, e))?;
        // The rest of a chunk whose sending was interrupted by an answer.
        let mut rest = Vec::new();
        while answer.is_none()
            && let Some(chunk) = chunks.recv().await
        {
            let len = (chunk.len() as u32).to_be_bytes();
            let (mut head, mut body) = (&len[..], &chunk[..]);
            answer = self.write(&mut head, &mut 0, progress).await.map_err(|e| failed(sent, e))?;
            if answer.is_none() {
                answer = self.write(&mut body, &mut sent, progress).await.map_err(|e| failed(sent, e))?;
            }
            if answer.is_some() {
                rest = [head, body].concat();
            }
            // At the end of the file the reader has ended and takes no buffers.
            let _ = spare.send(chunk);
        }
        drop(chunks);
        if answer.is_none() {
            let hash = reader.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
            rest = [&protocol::END.to_be_bytes(), &hash.as_bytes()[..]].concat();
            let mut end = &rest[..];
            answer = self.write(&mut end, &mut 0, progress).await.map_err(|e| failed(sent, e))?;
            if answer.is_none() {
                let reply = self.confirmation(sent, progress).await.map_err(|e| failed(sent, e))?;
                return check(reply, hash, sent, name);
            }
            rest = end.to_vec();
        } else {
            rest.extend(protocol::ABANDONED.to_be_bytes());
        }
        // An answer before the end of the contents can only be a refusal, or that the file is skipped.
        match self.reply(answer.flatten()).await.map_err(|e| failed(sent, e))? {
            Reply::Refused(reason) => Err(SendError::Refused { name, reason }),
            Reply::Confirmed(_) => Err(failed(sent, ProtocolError::BadReply)),
            Reply::Skipped => {
                // The next file begins after this one.
                self.transport.write_all(&rest).await.map_err(|e| failed(sent, e.into()))?;
                Ok(Delivery::Skipped)
            }
        }
    }

    /// Writes `data`, of which the unwritten part remains, and adds its length to `sent`; returns early if the peer
    /// replies.
    async fn write(
        &mut self,
        data: &mut &[u8],
        sent: &mut u64,
        progress: &mut Progress,
    ) -> Result<Option<Option<u8>>, ProtocolError> {
        while !data.is_empty() {
            tokio::select! {
                heard = write_or_hear(&mut self.transport, data) => match heard? {
                    Heard::Answer(answer) => return Ok(Some(answer)),
                    Heard::Wrote(written) => {
                        *data = data.get(written..).unwrap_or_default();
                        *sent += written as u64;
                    }
                },
                _ = self.ticks.tick() => progress.update(*sent, &self.transport.snapshot()),
            }
        }
        Ok(None)
    }

    async fn confirmation(&mut self, sent: u64, progress: &mut Progress) -> Result<Reply, ProtocolError> {
        self.transport.flush().await?;
        let mut first = [0];
        loop {
            tokio::select! {
                read = self.transport.read(&mut first) => {
                    let first = (read? > 0).then_some(first[0]);
                    return self.reply(first).await;
                }
                _ = self.ticks.tick() => progress.update(sent, &self.transport.snapshot()),
            }
        }
    }

    async fn reply(&mut self, first: Option<u8>) -> Result<Reply, ProtocolError> {
        protocol::read_reply(first.ok_or(ProtocolError::EarlyEnd)?, &mut self.transport).await
    }
}

fn check(reply: Reply, hash: blake3::Hash, bytes: u64, name: String) -> Result<Delivery, SendError> {
    match reply {
        Reply::Skipped => Ok(Delivery::Skipped),
        Reply::Confirmed(theirs) if theirs == hash => Ok(Delivery::Confirmed { hash, bytes }),
        Reply::Confirmed(_) => Err(SendError::WrongHash(name)),
        Reply::Refused(reason) => Err(SendError::Refused { name, reason }),
    }
}

/// Writes part of `data`, or reads a byte if the peer sends one. Cancel safe: a cancelled call has done neither.
async fn write_or_hear(transport: &mut (impl Transport + ?Sized), data: &[u8]) -> io::Result<Heard> {
    poll_fn(|cx| {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        if let Poll::Ready(read) = Pin::new(&mut *transport).poll_read(cx, &mut buffer) {
            return Poll::Ready(read.map(|()| Heard::Answer(buffer.filled().first().copied())));
        }
        Pin::new(&mut *transport).poll_write(cx, data).map_ok(Heard::Wrote)
    })
    .await
}

/// Reads and hashes a file until the receiver of its chunks is dropped. Used buffers come back through `spares`.
fn read_chunks(
    source: Source,
    feed: &mpsc::Sender<Vec<u8>>,
    spares: &std::sync::mpsc::Receiver<Vec<u8>>,
) -> Result<blake3::Hash, SendError> {
    let Source { path, header, mut input } = source;
    let failed = |error| SendError::Read { path: path.clone(), error };
    let mut hasher = blake3::Hasher::new();
    let mut left = header.size.unwrap_or(u64::MAX);
    while left > 0 {
        let mut chunk = spares.try_recv().unwrap_or_default();
        chunk.resize(left.min(MAX_CHUNK as u64) as usize, 0);
        let read = loop {
            match input.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(failed)?,
            }
        };
        if read == 0 && header.size.is_none() {
            break;
        } else if read == 0 {
            return Err(failed(io::Error::other("it became shorter while it was sent")));
        }
        chunk.truncate(read);
        hasher.update(&chunk);
        left -= read as u64;
        if feed.blocking_send(chunk).is_err() {
            break;
        }
    }
    Ok(hasher.finalize())
}

//! Tunnels: connections between `forward` and `gateway` that carry forwarded TCP connections, one at a time.
//!
//! Both ends first send [`MAGIC`]. Then frames follow in both directions: a byte for the kind, the length of the
//! payload in two bytes, and the payload. The side that opens streams sends `OPEN` with the target, followed directly
//! by data. Each side ends its direction of the stream with `END` (half-close) or `RESET`. After one of these has
//! passed in each direction, the tunnel is idle and the next stream may be opened on it. `RESET` may also follow `END`
//! while the other direction continues. It could then arrive after the next `OPEN` was sent, so it contains the number
//! of its stream: streams are counted from 1 on each tunnel. A `RESET` of an earlier stream is ignored. Other frames
//! need no number.
//!
//! | kind | name | payload |
//! |---|---|---|
//! | 1 | `OPEN` | port in two bytes, host name or address as text |
//! | 2 | `DATA` | data of the stream |
//! | 3 | `END` | none |
//! | 4 | `RESET` | number of the stream in four bytes, reason in one byte |
//! | 5 | `PING` | none |
//! | 6 | `PONG` | none; the answer to `PING` |
//! | 7 | `BYE` | none; the sender will accept no further stream |
//! | 8 | `LISTEN` | group in 16 bytes, port in two bytes, length of an address in one byte, the address as text, and a target as in `OPEN` |
//! | 9 | `LISTENING` | port in two bytes |
//! | 10 | `OFFER` | group in 16 bytes |
//!
//! A forwarder that wants the gateway to listen opens a tunnel for this purpose, and sends one `LISTEN` per listener.
//! The gateway answers each with `LISTENING`, or with `RESET` for stream 0. The listeners are closed when this tunnel
//! ends. For their connections, the forwarder offers further tunnels by `OFFER` with the same random group. On these,
//! the gateway opens the streams, with the target that the forwarder has given for the listener.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use longhaul_tls::tls_error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::frame::FrameReader;
use self::shared::Side;
use crate::transport::Connection;

mod connect;
mod frame;
pub(crate) mod jobs;
pub(crate) mod rate;
mod relay;
mod shared;
mod stdio;
mod target;

pub(crate) use connect::Lookups;
pub(crate) use connect::connect;
pub use frame::{Frame, Group, Listen, Reason};
pub(crate) use relay::{Client, Ended, Flow, Local, Owner, Traffic, prepare, relay};
pub(crate) use shared::Watch;
pub(crate) use stdio::{Standard, Stdio};
pub use target::{ParseTargetError, Target};

/// First bytes of a tunnel; the last byte is the version.
pub const MAGIC: [u8; 8] = *b"longfwd\x01";
/// Maximum time for both directions of a stream to end after a reset. After that, the tunnel is abandoned, because the
/// data queued before the reset may not be worth transmitting.
const SETTLE: Duration = Duration::from_secs(10);
const CLOSE: Duration = Duration::from_secs(5);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Closes the connection of a tunnel that has ended at both ends. A failure has no consequence, because the peer may
/// have disappeared.
pub(crate) async fn close(stream: impl Connection) {
    let _ = tokio::time::timeout(CLOSE, stream.close()).await;
}

/// Accepts connections and serves each in a task, which ends with this future. Does not return. `failed` is called if a
/// connection cannot be accepted, for example because too many files are open.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    failed: impl Fn(io::Error),
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    tasks.spawn(serve(stream, from));
                }
                Err(error) => {
                    failed(error);
                    sleep(PAUSE).await;
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Events of a tunnel's streams and of listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    Opened(&'a Target),
    Refused(&'a Target, Reason),
    Ended(&'a Target, Ended),
    Listening(SocketAddr, &'a Target),
    NotListening(&'a Target, Reason),
}

#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    #[error(transparent)]
    Connection(#[from] io::Error),
    #[error("the peer is not a forwarder or gateway, or uses another version of the protocol")]
    NotOurs,
    #[error("the peer violates the protocol: {0}")]
    Protocol(&'static str),
    #[error("the peer did not end a stream that was reset")]
    Unsettled,
}

impl TunnelError {
    /// Returns whether another connection may succeed: the current one failed, but not because of a key.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Connection(error) if tls_error(error).is_none())
    }
}

#[derive(Debug)]
pub struct Tunnel<S> {
    frames: FrameReader<Side<S>>,
    writer: Side<S>,
    /// Number of the latest stream; 0 before the first one.
    stream: u32,
    leaving: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Tunnel<S> {
    /// Sends [`MAGIC`] and waits for the peer's [`MAGIC`].
    pub async fn start(mut stream: S) -> Result<Self, TunnelError> {
        stream.write_all(&MAGIC).await?;
        stream.flush().await?;
        let mut magic = [0; MAGIC.len()];
        stream.read_exact(&mut magic).await?;
        if magic != MAGIC {
            return Err(TunnelError::NotOurs);
        }
        let writer = Side::new(stream);
        Ok(Self { frames: FrameReader::new(writer.other()), writer, stream: 0, leaving: false })
    }

    /// Returns the next frame, or `None` at the end of the connection.
    ///
    /// Cancel safety: this method is cancel safe.
    pub async fn next(&mut self) -> Result<Option<Frame<'_>>, TunnelError> {
        let frame = self.frames.next().await?;
        self.leaving |= matches!(frame, Some(Frame::Bye));
        Ok(frame)
    }

    /// Sends a frame without data.
    ///
    /// Cancel safety: this method is not cancel safe; part of the frame may have been sent.
    pub async fn send(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        self.writer.write_all(&frame.encode()).await?;
        self.writer.flush().await
    }

    /// Opens a stream to `target` on an idle tunnel.
    ///
    /// Cancel safety: this method is not cancel safe; part of the frame may have been sent.
    pub(crate) async fn open(&mut self, target: Target) -> io::Result<()> {
        self.begin();
        self.send(&Frame::Open(target)).await
    }

    /// Counts a stream that the peer has opened.
    pub(crate) fn begin(&mut self) {
        self.stream = self.stream.wrapping_add(1);
    }

    /// Refuses a stream that the peer has opened, before any of its data is read. Returns the reason if the tunnel
    /// failed, after which it can no longer be used.
    pub(crate) async fn refuse(&mut self, reason: Reason) -> Result<(), TunnelError> {
        self.send(&Frame::Reset { stream: self.stream, reason }).await?;
        let settle = relay::discard(self);
        tokio::time::timeout(SETTLE, settle).await.map_err(|_| TunnelError::Unsettled)?
    }

    /// Returns whether the peer has sent `BYE`. It still accepts a stream that was opened before it received an answer.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }

    pub(crate) fn inspect<T>(&self, f: impl FnOnce(&S) -> T) -> Option<T> {
        self.writer.inspect(f)
    }

    /// Returns a handle to inspect the connection while the tunnel is in use. The handle does not keep the connection
    /// open.
    pub(crate) fn watch(&self) -> Watch<S> {
        self.writer.watch()
    }

    /// Returns the connection of an idle tunnel.
    pub(crate) fn into_inner(self) -> Option<S> {
        drop(self.frames);
        self.writer.into_inner()
    }
}

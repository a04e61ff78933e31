//! Relay between a stream on a tunnel and the forwarded TCP connection. It is the same at both ends.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::frame::{Frame, FrameReader, HEAD, Reason, data_head};
use super::rate::Limits;
use super::shared::Side;
use super::{SETTLE, Tunnel, TunnelError};

/// Size in bytes of the buffer between the forwarded connection and the tunnel.
const BUFFER: usize = 32 << 10;
/// An idle stream is detected with a delay of up to the idle time divided by this number.
const IDLE_CHECKS: u32 = 8;

/// The forwarded TCP connection, or a substitute for it in tests. Dropping it resets it, except after
/// [`finish`](Self::finish).
pub(crate) trait Local: Send + Sync {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
    fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;
    /// Ends this end's direction of the connection.
    fn end(&self) -> io::Result<()>;
    /// Completes when the connection has failed, even while it is neither read nor written.
    fn failed(&self) -> BoxFuture<'_, ()>;
    /// Lets the connection end in order when dropped.
    fn finish(&self);
    /// Returns the process to which the outcome of the stream is reported, if it is not the forwarder.
    fn owner(&self) -> Option<Owner> {
        None
    }
}

/// A forwarded connection. A TCP connection was [prepared](prepare).
pub(crate) type Client = Box<dyn Local>;

/// Connection to the process that has handed over standard input and output.
pub(crate) type Owner = Arc<UnixStream>;

/// Prepares a TCP connection for [`relay`]: it is reset when dropped, even if the process is killed.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Data from the tunnel was collected at its other end; Nagle's algorithm would only delay it again.
    stream.set_nodelay(true)?;
    stream.set_zero_linger()
}

impl Local for TcpStream {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_read_ready(cx))?;
            match self.try_read(buf.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    buf.advance(read?);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_write_ready(cx))?;
            match self.try_write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn end(&self) -> io::Result<()> {
        socket2::SockRef::from(self).shutdown(std::net::Shutdown::Write)
    }

    fn failed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.ready(Interest::ERROR).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn finish(&self) {
        // If the option cannot be set, the connection has already failed.
        let _ = socket2::SockRef::from(self).set_linger(None);
    }
}

/// Number of bytes that a stream has carried so far, readable while it runs.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Number of bytes from the forwarded connection to the tunnel.
    pub(crate) sent: AtomicU64,
    /// Number of bytes from the tunnel to the forwarded connection.
    pub(crate) received: AtomicU64,
}

impl Traffic {
    pub(crate) fn now(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    fn total(&self) -> u64 {
        let (sent, received) = self.now();
        sent + received
    }
}

/// Settings and counters of a relayed stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow<'a> {
    /// Time after which a stream without traffic is reset.
    pub(crate) idle: Duration,
    /// Rate limits in both directions.
    pub(crate) limits: &'a Limits,
    /// Counts the bytes.
    pub(crate) traffic: &'a Traffic,
}

/// Outcome of a stream. The tunnel is idle afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both directions ended in order.
    Orderly,
    /// The forwarded connection at this end failed or was idle for too long.
    Here(Reason),
    /// The other end of the tunnel reset the stream.
    There(Reason),
}

/// Relays the stream that was opened on `tunnel` until both directions have ended. `local`, which was
/// [prepared](prepare), is reset if the stream does not end in order.
/// Returns the reason if the tunnel failed; it cannot be used any more.
pub(crate) async fn relay<S: AsyncRead + AsyncWrite + Unpin>(
    tunnel: &mut Tunnel<S>,
    local: Client,
    flow: Flow<'_>,
) -> Result<Ended, TunnelError> {
    let mut up = Upload { buffer: vec![0; BUFFER].into(), start: 0, end: 0, ended: false };
    let mut down = Download { stream: tunnel.stream, ended: false, leaving: false };
    let halt = {
        let upload = up.run(&*local, &mut tunnel.writer, flow);
        let frames = &mut tunnel.frames;
        let both = async {
            let mut upload = pin!(upload);
            let mut sent = false;
            {
                let mut download = pin!(down.run(&*local, frames, flow));
                loop {
                    tokio::select! {
                        result = &mut upload, if !sent => sent = result.map(|()| true)?,
                        result = &mut download => break result?,
                    }
                }
            }
            // One direction has ended; the peer may still reset the stream.
            while !sent {
                tokio::select! {
                    biased;
                    result = &mut upload => sent = result.map(|()| true)?,
                    frame = down.next(frames) => if frame?.is_some() {
                        return Err(TunnelError::Protocol("data follows the end of a stream").into());
                    },
                }
            }
            Ok::<_, Halt>(())
        };
        tokio::select! {
            both = both => both.err(),
            () = local.failed() => Some(Halt::Local(Reason::Reset)),
            () = silence(flow.idle, flow.traffic) => Some(Halt::Local(Reason::Idle)),
        }
    };
    let Some(halt) = halt else {
        tunnel.leaving |= down.leaving;
        local.finish();
        return Ok(Ended::Orderly);
    };
    drop(local);
    let (ended, reason) = match halt {
        Halt::Tunnel(error) => return Err(error),
        Halt::Local(reason) => (Ended::Here(reason), Some(reason)),
        // If our `END` has been sent, the peer's reset needs no answer.
        Halt::Peer(reason) => (Ended::There(reason), (!up.ended).then_some(Reason::Reset)),
    };
    let settle = async {
        let send = async {
            let Some(reason) = reason else { return Ok(()) };
            up.write(&mut tunnel.writer).await?;
            tunnel.writer.write_all(&Frame::Reset { stream: tunnel.stream, reason }.encode()).await?;
            Ok::<_, TunnelError>(tunnel.writer.flush().await?)
        };
        tokio::try_join!(send, down.discard(&mut tunnel.frames))
    };
    tokio::time::timeout(SETTLE, settle).await.map_err(|_| TunnelError::Unsettled)??;
    tunnel.leaving |= down.leaving;
    Ok(ended)
}

pub(super) async fn discard<S: AsyncRead + AsyncWrite + Unpin>(tunnel: &mut Tunnel<S>) -> Result<(), TunnelError> {
    let mut down = Download { stream: tunnel.stream, ended: false, leaving: false };
    let result = down.discard(&mut tunnel.frames).await;
    tunnel.leaving |= down.leaving;
    result
}

enum Halt {
    Local(Reason),
    Peer(Reason),
    Tunnel(TunnelError),
}

impl From<TunnelError> for Halt {
    fn from(error: TunnelError) -> Self {
        Self::Tunnel(error)
    }
}

fn local_failed(_: io::Error) -> Halt {
    Halt::Local(Reason::Reset)
}

/// Direction from the forwarded connection to the tunnel.
struct Upload {
    /// A frame, of which `start..end` has not been written yet.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Whether the frame in the buffer is the last one.
    ended: bool,
}

impl Upload {
    async fn run<S: AsyncWrite + Unpin>(
        &mut self,
        local: &dyn Local,
        writer: &mut Side<S>,
        flow: Flow<'_>,
    ) -> Result<(), Halt> {
        let most = HEAD + flow.limits.quantum(BUFFER - HEAD);
        while !self.ended {
            let mut part = ReadBuf::new(self.buffer.get_mut(HEAD..most).unwrap_or_default());
            poll_fn(|cx| local.poll_read(cx, &mut part)).await.map_err(local_failed)?;
            let read = part.filled().len();
            if read > 0 {
                self.put(0, &data_head(read));
                self.end = HEAD + read;
                flow.traffic.sent.fetch_add(read as u64, Ordering::Relaxed);
                flow.limits.sent(read).await;
            } else {
                self.end = self.put(0, &Frame::End.encode());
                self.ended = true;
            }
            self.write(writer).await?;
        }
        Ok(())
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> usize {
        if let Some(place) = self.buffer.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at + bytes.len()
    }

    async fn write<S: AsyncWrite + Unpin>(&mut self, writer: &mut Side<S>) -> Result<(), TunnelError> {
        while let Some(rest) = self.buffer.get(self.start..self.end).filter(|rest| !rest.is_empty()) {
            match writer.write(rest).await? {
                0 => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                written => self.start += written,
            }
        }
        (self.start, self.end) = (0, 0);
        Ok(writer.flush().await?)
    }
}

/// Direction from the tunnel to the forwarded connection.
struct Download {
    stream: u32,
    ended: bool,
    /// Whether the peer has sent `BYE`.
    leaving: bool,
}

impl Download {
    async fn run<R: AsyncRead + Unpin>(
        &mut self,
        local: &dyn Local,
        frames: &mut FrameReader<R>,
        flow: Flow<'_>,
    ) -> Result<(), Halt> {
        let most = flow.limits.quantum(usize::MAX);
        while !self.ended {
            let Some(data) = self.next(frames).await? else { continue };
            flow.traffic.received.fetch_add(data.len() as u64, Ordering::Relaxed);
            for mut part in data.chunks(most) {
                flow.limits.received(part.len()).await;
                while !part.is_empty() {
                    let written = poll_fn(|cx| local.poll_write(cx, part)).await.map_err(local_failed)?;
                    part = part.get(written..).unwrap_or_default();
                }
            }
        }
        local.end().map_err(local_failed)
    }

    async fn discard<R: AsyncRead + Unpin>(&mut self, frames: &mut FrameReader<R>) -> Result<(), TunnelError> {
        while !self.ended {
            match self.next(frames).await {
                Ok(_) | Err(Halt::Peer(_)) => {}
                Err(Halt::Tunnel(error)) => return Err(error),
                Err(Halt::Local(_)) => break,
            }
        }
        Ok(())
    }

    /// Returns data if the next frame is a data frame.
    async fn next<'a, R: AsyncRead + Unpin>(
        &mut self,
        frames: &'a mut FrameReader<R>,
    ) -> Result<Option<&'a [u8]>, Halt> {
        match frames.next().await? {
            Some(Frame::Data(data)) => return Ok(Some(data)),
            Some(Frame::End) => self.ended = true,
            Some(Frame::Reset { stream, reason }) if stream == self.stream => {
                self.ended = true;
                return Err(Halt::Peer(reason));
            }
            // A late reset of a stream that has ended, or a late answer to a probe of the idle tunnel.
            Some(Frame::Reset { .. } | Frame::Pong) => {}
            Some(Frame::Bye) => self.leaving = true,
            Some(Frame::Open(_) | Frame::Ping | Frame::Listen(_) | Frame::Listening(_) | Frame::Offer(_)) => {
                return Err(TunnelError::Protocol("a frame is not allowed during a stream").into());
            }
            None => return Err(TunnelError::from(io::Error::from(io::ErrorKind::UnexpectedEof)).into()),
        }
        Ok(None)
    }
}

/// Completes when the stream has carried no data for `idle`.
async fn silence(idle: Duration, traffic: &Traffic) {
    let mut sleep = pin!(tokio::time::sleep(idle / IDLE_CHECKS));
    let (mut silent, mut before) = (0, traffic.total());
    while silent <= IDLE_CHECKS {
        sleep.as_mut().await;
        let now = traffic.total();
        silent = if now == before { silent + 1 } else { 0 };
        before = now;
        sleep.set(tokio::time::sleep(idle / IDLE_CHECKS));
    }
}

#[cfg(test)]
mod tests;

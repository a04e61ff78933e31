//! Operations of a stream and its halves other than plain reads and writes.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use longhaul_tcp::{Blocked, Config, Connection, State};
use longhaul_units::Rate;
use tokio::io::{Interest, ReadBuf, Ready};
use tokio::task::coop;

use super::{COPY_LIMIT, Handle, Wait, read_into, room};
use crate::chunks::Chunks;
use crate::error::{from_blocked, from_connection};
use crate::info::{SocketInfo, TcpInfo};
use crate::io::Io;
use crate::shared::slot;
use crate::waiters::{self, Key, WakerSet};

/// Maximum number of bytes that one read moves without a copy under the endpoint's lock.
const MOVE_LIMIT: usize = 1 << 20;
/// Maximum number of bytes that are read into a buffer that can grow: the size of one receive buffer.
const GROWTH: usize = 64 << 10;

/// A future that waits for events, and is forgotten when it is dropped.
pub(crate) struct Waiting<'a> {
    handle: &'a Handle,
    /// Present once it has had to wait.
    key: Option<Key>,
}

impl Waiting<'_> {
    fn key(&mut self) -> Key {
        *self.key.get_or_insert_with(waiters::key)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut state = self.handle.shared.lock();
        let former = slot(&mut state.waiters, self.handle.id).forget(key);
        drop(state);
        drop(former);
    }
}

impl Handle {
    /// Returns a future's place among the waiting tasks.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        Waiting { handle: self, key: None }
    }

    /// Runs `act`; fails with `WouldBlock` if it would block.
    fn attempt<R>(&self, act: impl FnOnce(&mut Connection) -> Result<R, Blocked>) -> io::Result<R> {
        let mut state = self.shared.lock_alive()?;
        let now = Io::now();
        let result = state.with(now, self.id, |connection, _| {
            act(connection).map_err(|b| from_blocked(b, connection).unwrap_or(io::ErrorKind::WouldBlock.into()))
        });
        self.shared.settle(state, now);
        result.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
    }

    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = buffer.len().min(COPY_LIMIT);
        self.attempt(|connection| read_into(connection, &mut buffer[..limit]))
    }

    pub(crate) fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        let part = &data[..data.len().min(COPY_LIMIT)];
        self.attempt(|connection| connection.write(part))
    }

    pub(crate) fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.attempt(|connection| read_vectored(connection, buffers))
    }

    pub(crate) fn try_read_bytes(&self, max: usize) -> io::Result<Bytes> {
        self.attempt(|connection| connection.read(max))
    }

    pub(crate) fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        let data = self.try_read_bytes(buf.remaining_mut().min(GROWTH))?;
        buf.put_slice(&data);
        Ok(data.len())
    }

    pub(crate) fn try_write_vectored(&self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        self.attempt(|connection| write_vectored(connection, data))
    }

    pub(crate) fn try_write_bytes(&self, data: &mut impl Buf) -> io::Result<usize> {
        self.attempt(|connection| connection.writer().write_bytes(data))
    }

    pub(crate) fn poll_write_vectored(&self, cx: &mut Context<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.poll(cx, Wait::Write, |connection| write_vectored(connection, data))
    }

    pub(crate) fn poll_write_bytes(&self, cx: &mut Context<'_>, data: &mut impl Buf) -> Poll<io::Result<usize>> {
        self.poll(cx, Wait::Write, |connection| connection.writer().write_bytes(data))
    }

    pub(crate) fn poll_read_bytes(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        self.poll(cx, Wait::Read, |connection| connection.read(max))
    }

    pub(crate) async fn read_bytes(&self, max: usize) -> io::Result<Bytes> {
        poll_fn(|cx| self.poll_read_bytes(cx, max)).await
    }

    pub(crate) fn poll_read_chunks(
        &self,
        cx: &mut Context<'_>,
        chunks: &mut Chunks,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, Wait::Read, |connection| connection.reader().read_chunks(&mut chunks.0, max.min(MOVE_LIMIT)))
    }

    pub(crate) async fn read_chunks(&self, chunks: &mut Chunks, max: usize) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read_chunks(cx, chunks, max)).await
    }

    pub(crate) async fn write_bytes(&self, mut data: impl Buf) -> io::Result<()> {
        while data.has_remaining() {
            poll_fn(|cx| self.poll_write_bytes(cx, &mut data)).await?;
        }
        Ok(())
    }

    /// Ready with data that is not consumed yet, and its offset in the stream.
    pub(crate) fn poll_front(&self, cx: &mut Context<'_>) -> Poll<io::Result<(u64, Bytes)>> {
        self.poll(cx, Wait::Read, |connection| connection.reader().front())
    }

    pub(crate) fn consume_to(&self, offset: u64) {
        self.shared.drive(self.id, |connection, _| connection.reader().consume_to(offset));
    }

    pub(crate) fn poll_peek(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let seen = ready!(self.poll(cx, Wait::Read, |connection| peek(connection, room(connection, buffer))))?;
        buffer.advance(seen);
        Poll::Ready(Ok(seen))
    }

    pub(crate) fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = buffer.len().min(COPY_LIMIT);
        self.attempt(|connection| peek(connection, &mut buffer[..limit]))
    }

    pub(crate) async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            self.readable().await?;
            match self.try_peek(buf) {
                // Another task has read the data.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let mut waiting = self.waiting();
        poll_fn(move |cx| self.poll_ready(cx, interest, Some(&mut waiting))).await
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Runs `operation` if the connection is ready for `interest`; otherwise fails with `WouldBlock`.
    pub(crate) fn try_io<R>(&self, interest: Interest, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let mut state = self.shared.lock_alive()?;
        let ready = state.with(Io::now(), self.id, |connection, _| readiness(connection, interest));
        drop(state);
        match ready {
            None => Err(io::ErrorKind::NotConnected.into()),
            Some(ready) if ready.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            Some(_) => operation(),
        }
    }

    /// Ready when the connection is ready for `interest`, or its socket has failed.
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        future: Option<&mut Waiting<'_>>,
    ) -> Poll<io::Result<Ready>> {
        let budget = ready!(coop::poll_proceed(cx));
        let result = self.poll_ready_unbudgeted(cx, interest, future);
        if result.is_ready() {
            budget.made_progress();
        }
        result
    }

    fn poll_ready_unbudgeted(
        &self,
        cx: &Context<'_>,
        interest: Interest,
        mut future: Option<&mut Waiting<'_>>,
    ) -> Poll<io::Result<Ready>> {
        // Dropped after the lock is released.
        let mut former = [const { None }; 3];
        let mut state = self.shared.lock_alive()?;
        let now = Io::now();
        let ready = state.with(now, self.id, |connection, waiters| {
            let ready = readiness(connection, interest);
            if ready.is_empty() {
                let mut register = |waiters: &mut WakerSet| match &mut future {
                    Some(future) => waiters.register_future(future.key(), cx),
                    None => waiters.register(cx),
                };
                if interest.is_readable() {
                    former[0] = register(&mut waiters.read);
                }
                if interest.is_writable() {
                    former[1] = register(waiters.write());
                }
                if interest.is_error() {
                    former[2] = register(waiters.state());
                }
            }
            ready
        });
        self.shared.settle(state, now);
        match ready {
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Some(ready) if ready.is_empty() => Poll::Pending,
            Some(ready) => Poll::Ready(Ok(ready)),
        }
    }

    /// Ready when both directions have ended, or the connection has failed.
    pub(crate) fn poll_closed(&self, cx: &Context<'_>, future: &mut Waiting<'_>) -> Poll<io::Result<()>> {
        let mut former = [const { None }; 2];
        drop(self.shared.lock_alive()?);
        let closed =
            self.shared.look(self.id, |connection, waiters| match (connection.status().error(), connection.state()) {
                (Some(error), _) => Some(Err(from_connection(error, connection))),
                (None, State::Closed | State::TimeWait) => Some(Ok(())),
                _ => {
                    // The peer's FIN wakes readers; any other step of the close is a change of state.
                    former[0] = waiters.read.register_future(future.key(), cx);
                    former[1] = waiters.state().register_future(future.key(), cx);
                    None
                }
            });
        match closed {
            None => Poll::Ready(Ok(())),
            Some(None) => Poll::Pending,
            Some(Some(result)) => Poll::Ready(result),
        }
    }

    /// Queues the FIN. Fails if the connection has failed before.
    pub(crate) fn end_stream(&self) -> io::Result<()> {
        let mut state = self.shared.lock_alive()?;
        let now = Io::now();
        let error = state.with(now, self.id, |connection, _| {
            connection.shutdown();
            connection.status().error().map(|error| from_connection(error, connection))
        });
        self.shared.settle(state, now);
        match error {
            None => Err(io::ErrorKind::NotConnected.into()),
            Some(Some(error)) => Err(error),
            Some(None) => Ok(()),
        }
    }

    pub(crate) fn abort(&self) {
        self.shared.drive(self.id, |connection, _| connection.abort());
    }

    pub(crate) fn read_setting<R>(&self, look: impl FnOnce(&Connection) -> R) -> io::Result<R> {
        self.shared.look(self.id, |connection, _| look(connection)).ok_or(io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Config)) -> io::Result<()> {
        let done = self.shared.drive(self.id, |connection, _| connection.update_config(change));
        done.ok_or(io::ErrorKind::NotConnected.into())
    }

    #[cfg(feature = "unstable-experiments")]
    pub(crate) fn share_window(&self, window: longhaul_units::Bytes) -> io::Result<()> {
        let now = Io::now();
        let done = self.shared.drive(self.id, |connection, _| connection.share_window(now, window));
        done.ok_or(io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        let done = self.shared.drive(self.id, |connection, _| connection.writer().set_nodelay(nodelay));
        done.ok_or(io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn tcp_info(&self) -> io::Result<TcpInfo> {
        let state = self.shared.lock();
        let connection = state.endpoint.connection(self.id).ok_or(io::ErrorKind::NotConnected)?;
        let ceiling = Some(connection.status().config().max_pacing_rate).filter(|rate| *rate != Rate::MAX);
        let socket = SocketInfo::new(state.stats, self.shared.buffers);
        Ok(TcpInfo::new(&connection.info(Io::now()), socket, ceiling))
    }

    pub(crate) fn linger(&self) -> Option<Duration> {
        *self.linger.lock()
    }

    pub(crate) fn set_linger(&self, linger: Option<Duration>) {
        *self.linger.lock() = linger;
    }

    /// Returns the connection's error the first time it is called, then `None`.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        let look = |connection: &Connection| Some(from_connection(connection.status().error()?, connection));
        let error = self.shared.look(self.id, |connection, _| look(connection)).flatten()?;
        (!self.error_taken.swap(true, Ordering::Relaxed)).then_some(error)
    }
}

fn readiness(connection: &mut Connection, interest: Interest) -> Ready {
    let mut ready = Ready::EMPTY;
    if interest.is_readable() && connection.status().is_readable() {
        ready |= Ready::READABLE;
        if connection.status().is_read_closed() {
            ready |= Ready::READ_CLOSED;
        }
    }
    if interest.is_writable() && connection.writer().is_writable() {
        ready |= Ready::WRITABLE;
        if connection.status().is_write_closed() {
            ready |= Ready::WRITE_CLOSED;
        }
    }
    if interest.is_error() && connection.status().error().is_some() {
        ready |= Ready::ERROR;
    }
    ready
}

/// Copies data without consuming it. An empty buffer waits for data.
fn peek(connection: &mut Connection, buffer: &mut [u8]) -> Result<usize, Blocked> {
    if buffer.is_empty() { read_into(connection, buffer) } else { connection.reader().peek(buffer) }
}

fn read_vectored(connection: &mut Connection, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Blocked> {
    let mut total = 0;
    for buffer in buffers.iter_mut().filter(|buffer| !buffer.is_empty()) {
        let limit = buffer.len().min(COPY_LIMIT - total);
        match connection.reader().read_into(&mut buffer[..limit]) {
            Ok(read) => total += read,
            Err(_) if total > 0 => break,
            Err(blocked) => return Err(blocked),
        }
        if total == COPY_LIMIT || total == 0 {
            break;
        }
    }
    Ok(total)
}

fn write_vectored(connection: &mut Connection, data: &[IoSlice<'_>]) -> Result<usize, Blocked> {
    let mut total = 0;
    for part in data.iter().filter(|part| !part.is_empty()) {
        let part = &part[..part.len().min(COPY_LIMIT - total)];
        match connection.write(part) {
            Ok(written) => {
                total += written;
                if written < part.len() || total == COPY_LIMIT {
                    break;
                }
            }
            Err(_) if total > 0 => break,
            Err(blocked) => return Err(blocked),
        }
    }
    if total == 0 {
        // There is no data to write: find out whether a write would fail.
        return connection.write(&[]);
    }
    Ok(total)
}

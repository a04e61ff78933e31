//! Operations of a stream and its halves other than plain reads and writes.

use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll};

use longhaul_tcp::{Blocked, Config, Connection, State};
use tokio::io::{Interest, ReadBuf, Ready};

use super::{COPY_LIMIT, Handle, budgeted};
use crate::error::{from_blocked, from_connection};
use crate::io::Io;
use crate::shared::slot;
use crate::waiters::{self, Key, Wait, Waiters, WakerSet};

/// A future that waits for events, and is deregistered on drop.
pub(crate) struct Waiting<'a> {
    handle: &'a Handle,
    /// Present after the future has had to wait.
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

    /// Runs `act`, unless the socket has failed, and sends the resulting segments.
    fn act<R>(&self, act: impl FnOnce(&mut Connection, &mut Waiters) -> R) -> io::Result<R> {
        let mut state = self.shared.lock_alive()?;
        let now = Io::now();
        let result = state.with(now, self.id, act);
        self.shared.settle(state, now);
        result.ok_or(io::ErrorKind::NotConnected.into())
    }

    /// Runs `act`; fails with `WouldBlock` if it would block.
    pub(crate) fn attempt<R>(&self, act: impl FnOnce(&mut Connection) -> Result<R, Blocked>) -> io::Result<R> {
        self.act(|connection, _| {
            act(connection).map_err(|b| from_blocked(b, connection).unwrap_or(io::ErrorKind::WouldBlock.into()))
        })?
    }

    /// Ready when the connection is ready for `interest`, or its socket has failed.
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut future: Option<&mut Waiting<'_>>,
    ) -> Poll<io::Result<Ready>> {
        budgeted(cx, |cx| {
            // Dropped after the lock is released.
            let mut former = [const { None }; 3];
            let ready = self.act(|connection, waiters| {
                let ready = readiness(connection, interest);
                if ready.is_empty() {
                    let mut register = |waiters: &mut WakerSet| match &mut future {
                        Some(future) => waiters.register_future(future.key(), cx),
                        None => waiters.register(cx),
                    };
                    if interest.is_readable() {
                        former[0] = register(waiters.of(Wait::Read));
                    }
                    if interest.is_writable() {
                        former[1] = register(waiters.of(Wait::Write));
                    }
                    if interest.is_error() {
                        former[2] = register(waiters.of(Wait::State));
                    }
                }
                ready
            })?;
            if ready.is_empty() { Poll::Pending } else { Poll::Ready(Ok(ready)) }
        })
    }

    /// Ready when both directions have ended or the connection has failed.
    pub(crate) fn poll_closed(&self, cx: &Context<'_>, future: &mut Waiting<'_>) -> Poll<io::Result<()>> {
        let mut former = [const { None }; 2];
        drop(self.shared.lock_alive()?);
        let look =
            |connection: &Connection, waiters: &mut Waiters| match (connection.status().error(), connection.state()) {
                (Some(error), _) => Poll::Ready(Err(from_connection(error, connection))),
                (None, State::Closed | State::TimeWait) => Poll::Ready(Ok(())),
                _ => {
                    // The peer's FIN wakes readers; all other steps of the close are state changes.
                    former[0] = waiters.of(Wait::Read).register_future(future.key(), cx);
                    former[1] = waiters.of(Wait::State).register_future(future.key(), cx);
                    Poll::Pending
                }
            };
        self.shared.look(self.id, look).unwrap_or(Poll::Ready(Ok(())))
    }

    /// Queues the FIN. Fails if the connection has already failed.
    pub(crate) fn end_stream(&self) -> io::Result<()> {
        self.attempt(|connection| {
            connection.shutdown();
            connection.status().error().map_or(Ok(()), |error| Err(Blocked::Failed(error)))
        })
    }

    /// Runs `act`, even if the socket has failed.
    pub(crate) fn drive<R>(&self, act: impl FnOnce(&mut Connection) -> R) -> io::Result<R> {
        self.shared.drive(self.id, |connection, _| act(connection)).ok_or(io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn read_setting<R>(&self, look: impl FnOnce(&Connection) -> R) -> io::Result<R> {
        self.shared.look(self.id, |connection, _| look(connection)).ok_or(io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Config)) -> io::Result<()> {
        self.drive(|connection| connection.update_config(change))
    }
}

/// Returns a slice of `buffer` with the length of the readable data, at least one byte, so that no more of the buffer
/// is initialized.
pub(crate) fn room<'a>(connection: &Connection, buffer: &'a mut ReadBuf<'_>) -> &'a mut [u8] {
    let len = connection.status().unread().clamp(1, COPY_LIMIT).min(buffer.remaining());
    buffer.initialize_unfilled_to(len)
}

/// Reads data. With an empty buffer, waits for data without consuming any, as with kernel TCP.
pub(crate) fn read_into(connection: &mut Connection, buffer: &mut [u8]) -> Result<usize, Blocked> {
    if buffer.is_empty() && !connection.status().is_readable() {
        return Err(Blocked::WouldBlock);
    }
    connection.reader().read_into(buffer)
}

pub(crate) fn readiness(connection: &mut Connection, interest: Interest) -> Ready {
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

/// Copies data without consuming it. With an empty buffer, waits for data.
pub(crate) fn peek(connection: &mut Connection, buffer: &mut [u8]) -> Result<usize, Blocked> {
    if buffer.is_empty() { read_into(connection, buffer) } else { connection.reader().peek(buffer) }
}

pub(crate) fn read_vectored(connection: &mut Connection, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Blocked> {
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

pub(crate) fn write_vectored(connection: &mut Connection, data: &[IoSlice<'_>]) -> Result<usize, Blocked> {
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

//! One connection as its stream and its halves share it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use longhaul_tcp::{Blocked, ConnId, Connection, Info, State};

use crate::error::{from_blocked, from_connection};
use crate::io::Io;
use crate::shared::Shared;
use crate::waiters::Waiters;

/// Bytes copied under the endpoint's lock by one read or write.
const COPY_LIMIT: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: ConnId,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// What a handle waits for.
#[derive(Clone, Copy)]
enum Wait {
    Read,
    Write,
    State,
}

impl Handle {
    /// The caller has counted the handle in the endpoint's state.
    pub(crate) fn new(shared: Arc<Shared>, id: ConnId, local: SocketAddr, peer: SocketAddr) -> Self {
        Self { shared, id, local, peer }
    }

    /// Tries `act`; if it would block, `cx` is woken when that may have changed.
    fn poll<R>(
        &self,
        cx: &Context<'_>,
        wait: Wait,
        act: impl FnOnce(&mut Connection) -> Result<R, Blocked>,
    ) -> Poll<io::Result<R>> {
        let mut state = self.shared.lock();
        if let Some(kind) = state.fatal {
            return Poll::Ready(Err(kind.into()));
        }
        let now = Io::now();
        let result = state.with(now, self.id, |connection, waiters| {
            let result = act(connection);
            if matches!(result, Err(Blocked::WouldBlock)) {
                waiting(waiters, wait).register(cx);
            }
            result.map_err(from_blocked)
        });
        self.shared.settle(state, now);
        match result {
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Some(Ok(value)) => Poll::Ready(Ok(value)),
            Some(Err(Some(error))) => Poll::Ready(Err(error)),
            Some(Err(None)) => Poll::Pending,
        }
    }

    pub(crate) fn poll_read(&self, cx: &Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let limit = buffer.len().min(COPY_LIMIT);
        self.poll(cx, Wait::Read, |connection| connection.read_into(&mut buffer[..limit]))
    }

    pub(crate) fn poll_write(&self, cx: &Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let part = &data[..data.len().min(COPY_LIMIT)];
        self.poll(cx, Wait::Write, |connection| connection.write(part))
    }

    pub(crate) fn shutdown(&self) {
        self.shared.drive(self.id, |connection, _| connection.shutdown());
    }

    /// Ready when the handshake is over, one way or the other.
    pub(crate) fn poll_connected(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, Wait::State, |connection| match (connection.error(), connection.state()) {
            (Some(error), _) => Err(Blocked::Failed(error)),
            (None, State::SynSent | State::SynReceived) => Err(Blocked::WouldBlock),
            (None, _) => Ok(()),
        })
    }

    /// Ready when everything written, and the FIN, is acknowledged, or the connection is over.
    pub(crate) fn poll_finished(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, Wait::State, |connection| match (connection.error(), connection.is_finished()) {
            (Some(error), _) => Err(Blocked::Failed(error)),
            (None, true) => Ok(()),
            (None, false) => Err(Blocked::WouldBlock),
        })
    }

    pub(crate) fn info(&self) -> io::Result<Info> {
        let now = Io::now();
        self.shared.look(self.id, |connection, _| connection.info(now)).ok_or(io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.shared.look(self.id, |connection, _| connection.error()).flatten().map(from_connection)
    }
}

fn waiting(waiters: &mut Waiters, wait: Wait) -> &mut crate::waiters::WakerSet {
    match wait {
        Wait::Read => &mut waiters.read,
        Wait::Write => &mut waiters.write,
        Wait::State => &mut waiters.state,
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let now = Io::now();
        state.handles -= 1;
        state.endpoint.release(now, self.id);
        state.forget_waiters(self.id);
        if state.handles == 0 {
            state.wake_driver();
        }
        self.shared.settle(state, now);
    }
}

//! The handle of a connection, shared by its stream and the stream's halves.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use longhaul_tcp::{Blocked, ConnId, Connection, State};
use tokio::runtime::RuntimeFlavor;
use tokio::task::coop;

use crate::error::{from_blocked, from_connection};
use crate::io::Io;
use crate::observe::local_of;
use crate::setup::Habits;
use crate::shared::Shared;
use crate::sync::Mutex;
use crate::waiters::{Wait, Waiters};

pub(crate) mod ops;

/// Maximum number of bytes that one read or write copies under the endpoint's lock.
pub(crate) const COPY_LIMIT: usize = 256 << 10;

pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: ConnId,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    /// With a linger time of zero, dropping the handle aborts the connection.
    pub(crate) linger: Mutex<Option<Duration>>,
    pub(crate) error_taken: AtomicBool,
}

impl Handle {
    /// Creates a handle. The caller has already counted it in the endpoint's state.
    pub(crate) fn new(shared: &Arc<Shared>, id: ConnId, [local, peer]: [SocketAddr; 2], habits: &Habits) -> Arc<Self> {
        let linger = Mutex::new(habits.linger);
        let shared = Arc::clone(shared);
        Arc::new(Self { shared, id, local, peer, linger, error_taken: AtomicBool::new(false) })
    }

    /// Returns the current local and peer addresses of the connection, or those of its beginning if it is over.
    pub(crate) fn addresses(&self) -> [SocketAddr; 2] {
        let state = self.shared.lock();
        let local = state.roaming.as_ref().map_or(self.local, |roaming| roaming.local);
        state.endpoint.tuple(self.id).map_or([local, self.peer], |tuple| [local_of(local, &tuple), tuple.remote])
    }

    /// Returns the state of the connection, unless the connection has been removed or the endpoint is in use.
    pub(crate) fn state(&self) -> Option<State> {
        self.shared.try_lock()?.endpoint.state(self.id)
    }

    /// Runs `act`. If it would block, registers the task to be woken when it may succeed.
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        wait: Wait,
        act: impl FnOnce(&mut Connection) -> Result<R, Blocked>,
    ) -> Poll<io::Result<R>> {
        budgeted(cx, |cx| {
            // Dropped after the lock is released.
            let mut former = None;
            let mut state = self.shared.lock_alive()?;
            let now = Io::now();
            let result = state.with(now, self.id, |connection, waiters| {
                let result = act(connection);
                if matches!(result, Err(Blocked::WouldBlock)) {
                    former = waiters.of(wait).register(cx);
                }
                // Our FIN may follow and then carries the ACK of the peer's FIN.
                let ends_next = matches!(wait, Wait::Read) && connection.status().may_end_next() && driver_follows();
                (result.map_err(|blocked| from_blocked(blocked, connection)), ends_next)
            });
            if result.as_ref().is_some_and(|(_, ends_next)| *ends_next) {
                self.shared.settle_later(state);
            } else {
                // Another write may follow immediately.
                self.shared.settle_except(state, now, Some(self.id));
            }
            match result.map(|(result, _)| result) {
                None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                Some(Ok(value)) => Poll::Ready(Ok(value)),
                Some(Err(Some(error))) => Poll::Ready(Err(error)),
                Some(Err(None)) => Poll::Pending,
            }
        })
    }

    /// Ready when the handshake has completed or failed.
    ///
    /// The ACK of the handshake is deferred until the application's first write or the next run of the driver.
    pub(crate) fn poll_connected(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let state = self.shared.lock_alive()?;
        if !driver_follows() {
            self.shared.settle(state, Io::now());
        } else {
            drop(state);
        }
        let mut former = None;
        let look =
            |connection: &Connection, waiters: &mut Waiters| match (connection.status().error(), connection.state()) {
                (Some(error), _) => Poll::Ready(Err(from_connection(error, connection))),
                (None, State::SynSent | State::SynReceived) => {
                    former = waiters.of(Wait::State).register(cx);
                    Poll::Pending
                }
                (None, _) => Poll::Ready(Ok(())),
            };
        self.shared.look(self.id, look).unwrap_or_else(|| Poll::Ready(Err(io::ErrorKind::NotConnected.into())))
    }
}

/// Polls within the task's cooperative budget. As with tokio's own types, each result consumes one unit, so a task that
/// never has to wait yields to other tasks after about 128 calls.
pub(crate) fn budgeted<T>(cx: &mut Context<'_>, poll: impl FnOnce(&Context<'_>) -> Poll<T>) -> Poll<T> {
    let budget = ready!(coop::poll_proceed(cx));
    let result = poll(cx);
    if result.is_ready() {
        budget.made_progress();
    }
    result
}

/// Returns whether the driver will run even if the calling task does nothing further. This is not certain for the task
/// of `block_on` in a single-threaded runtime: when it returns, the runtime stops.
pub(crate) fn driver_follows() -> bool {
    let runtime = tokio::runtime::Handle::try_current();
    tokio::task::try_id().is_some() || runtime.is_ok_and(|r| r.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let now = Io::now();
        state.handles -= 1;
        if *self.linger.get_mut() == Some(Duration::ZERO) {
            state.with(now, self.id, |connection, _| connection.abort());
        }
        state.endpoint.release(now, self.id);
        state.forget_waiters(self.id);
        if state.handles == 0 {
            state.wake_driver();
        }
        self.shared.settle(state, now);
    }
}

#[cfg(test)]
mod tests;

//! The listener type of the public API.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::ToSocketAddrs;
use tokio::task::coop;

use crate::config::Config;
use crate::connect;
use crate::driver::Driver;
use crate::io::{Io, Role as SocketRole};
use crate::observe::local_of;
use crate::rebind;
use crate::setup::{Habits, Setup};
use crate::shared::Shared;
use crate::stream::TcpStream;

/// A TCP listener, like `tokio::net::TcpListener`. All its connections share its UDP socket.
#[derive(Debug)]
pub struct TcpListener {
    pub(crate) shared: Arc<Shared>,
    pub(crate) habits: Habits,
}

impl TcpListener {
    /// Listens on the first of `addr`'s addresses that can be bound. If the last listener of this runtime on an
    /// address is gone, the address can be bound again at once, even while connections remain: they share the UDP
    /// socket with the new ones.
    ///
    /// # Errors
    /// The same as `tokio::net::TcpListener::bind`.
    pub async fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = None;
        for addr in tokio::net::lookup_host(addr).await? {
            match rebind::listen(addr, Setup::default()) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(connect::no_address))
    }

    /// Listens on `addr`. Every accepted connection is given the settings in `config`.
    ///
    /// # Errors
    /// The same as [`bind`](Self::bind).
    pub async fn bind_with(addr: SocketAddr, config: Config) -> io::Result<Self> {
        rebind::listen(addr, config.into())
    }

    pub(crate) fn over(socket: std::net::UdpSocket, setup: Setup) -> io::Result<Self> {
        let (shared, habits, config) = connect::endpoint(socket, setup, SocketRole::Listener)?;
        let mut state = shared.lock();
        habits.observe_incoming(&mut state, shared.local);
        state.endpoint.listen(config);
        state.handles += 1;
        drop(state);
        rebind::remember(&shared);
        Driver::spawn(Arc::clone(&shared));
        Ok(Self { shared, habits })
    }

    /// Accepts the next connection.
    ///
    /// Cancel safety: this method is cancel safe; no connection is lost.
    ///
    /// # Errors
    /// Fails if the UDP socket has failed.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Polls for the next connection, like [`accept`](Self::accept).
    ///
    /// # Errors
    /// The same as [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let budget = ready!(coop::poll_proceed(cx));
        let result = self.poll_accept_unbudgeted(cx);
        if result.is_ready() {
            budget.made_progress();
        }
        result
    }

    fn poll_accept_unbudgeted(&self, cx: &Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let mut state = self.shared.lock();
        if let Some(kind) = state.fatal {
            return Poll::Ready(Err(kind.into()));
        }
        let Some(id) = state.endpoint.accept() else {
            state.incoming.register(cx);
            return Poll::Pending;
        };
        let Some(tuple) = state.endpoint.tuple(id) else {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        };
        state.handles += 1;
        drop(state);
        let local = local_of(self.shared.local, &tuple);
        let handle = self.habits.handle(&self.shared, id, [local, tuple.remote]);
        Poll::Ready(Ok((TcpStream { handle: Arc::new(handle) }, tuple.remote)))
    }

    /// Stops listening and waits until all connections of this socket have ended: until the peers have acknowledged
    /// everything that was written to the streams that have been closed or dropped. It waits for streams that the
    /// program still holds, too. Connections that were not accepted are reset.
    ///
    /// Cancel safety: the listener is closed even if the future is dropped.
    ///
    /// # Errors
    /// Fails if the UDP socket has failed.
    pub async fn close(self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        drop(self);
        std::future::poll_fn(|cx| {
            let mut state = shared.lock();
            if state.endpoint.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if let Some(kind) = state.fatal {
                return Poll::Ready(Err(kind.into()));
            }
            state.idle.register(cx);
            Poll::Pending
        })
        .await
    }

    /// Returns the local address of the listener.
    ///
    /// # Errors
    /// Never fails; it returns a `Result` for compatibility with tokio.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.shared.local)
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let now = Io::now();
        state.handles -= 1;
        state.endpoint.unlisten(now);
        state.wake_driver();
        self.shared.settle(state, now);
    }
}

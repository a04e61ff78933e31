//! The listener type of the public API.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::ToSocketAddrs;

use crate::accept_queue::{AcceptQueue, Accepting};
use crate::config::Config;
use crate::connect;
use crate::connector::TcpConnector;
use crate::driver::Driver;
use crate::handle::{Handle, budgeted};
use crate::io::{Io, Role};
use crate::listener_info::ListenerInfo;
use crate::observe::local_of;
use crate::rebind;
use crate::setup::{Habits, Setup};
use crate::shared::Shared;
use crate::stream::TcpStream;
use crate::waiters::{self, Key};

/// A TCP listener, like `tokio::net::TcpListener`. All its connections share its UDP socket.
///
/// One socket is served by one core at a time. A listener with several shards ([`bind_sharded`](Self::bind_sharded))
/// has a socket for each, with the same address, among which the system distributes the connections by the addresses of
/// their peers.
pub struct TcpListener {
    /// The shards, at least one.
    shards: Vec<Arc<Shared>>,
    queue: Arc<AcceptQueue>,
    habits: Habits,
    config: Arc<longhaul_tcp::Config>,
}

impl TcpListener {
    /// Listens on the first of `addr`'s addresses that can be bound. After the last listener of this runtime on an
    /// address is dropped, the address can be bound again at once, even while connections remain: they share the UDP
    /// socket with the new ones.
    ///
    /// # Errors
    /// The errors of `tokio::net::TcpListener::bind`.
    pub async fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(addr, &Config::default()).await
    }

    /// Listens like [`bind`](Self::bind). All accepted connections use the settings in `config`.
    ///
    /// # Errors
    /// The errors of [`bind`](Self::bind).
    pub async fn bind_with(addr: impl ToSocketAddrs, config: &Config) -> io::Result<Self> {
        connect::first_bound(addr, |addr| rebind::listen(addr, config.clone().into())).await
    }

    /// Listens on the first of `addr`'s addresses that can be bound, with `shards` sockets, each with its own lock and
    /// task, so that a multi-threaded runtime can use as many cores. All of them share one accept queue and one set of
    /// limits. The number of cores, [`available_parallelism`](std::thread::available_parallelism), is a sensible number
    /// for a server with many clients. For other settings, see [`TcpSocket::set_shards`](crate::TcpSocket::set_shards),
    /// which describes shards further.
    ///
    /// # Errors
    /// The errors of [`bind`](Self::bind), and `InvalidInput` if `shards` is not between 1 and 256.
    pub async fn bind_sharded(addr: impl ToSocketAddrs, shards: usize) -> io::Result<Self> {
        connect::first_bound(addr, |addr| rebind::listen(addr, Setup::sharded(shards)?)).await
    }

    /// Listens on a bound socket, and on additional sockets with the same address if several shards are configured.
    pub(crate) fn over(socket: std::net::UdpSocket, setup: Setup) -> io::Result<Self> {
        let members = setup.open_shards(socket, Role::Listener)?;
        let (habits, config) = setup.split();
        members.iter().for_each(|shared| shared.lock().handles += 1);
        rebind::remember(&members);
        let listener = Self::on(members, habits, config);
        listener.shards.iter().for_each(|shared| Driver::spawn(Arc::clone(shared)));
        Ok(listener)
    }

    /// Makes shards listen, in which the listener is counted already.
    pub(crate) fn on(shards: Vec<Arc<Shared>>, habits: Habits, config: Arc<longhaul_tcp::Config>) -> Self {
        let queue = Arc::new(AcceptQueue::default());
        for (shared, index) in shards.iter().zip(0..) {
            let mut state = shared.lock();
            habits.observe_incoming(&mut state, shared.local);
            state.accepting = Some((Arc::clone(&queue), index));
            state.endpoint.listen(Arc::clone(&config));
        }
        Self { shards, queue, habits, config }
    }

    pub(crate) fn set_ttl_of_all(&self, ttl: u32) -> io::Result<()> {
        self.shards.iter().try_for_each(|shared| shared.set_ttl(ttl))
    }

    pub(crate) fn first(&self) -> &Arc<Shared> {
        &self.shards[0]
    }

    pub(crate) fn all(&self) -> &[Arc<Shared>] {
        &self.shards
    }

    /// Accepts the next connection.
    ///
    /// Cancel safety: this method is cancel safe; no connection is lost.
    ///
    /// # Errors
    /// Fails if the UDP socket has failed.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut accepting = Accepting::new(&self.queue);
        std::future::poll_fn(|cx| {
            let accepted = self.poll_accept_for(cx, Some(accepting.key));
            accepting.waits = accepted.is_pending();
            accepted
        })
        .await
    }

    /// Polls for the next connection, like [`accept`](Self::accept). If several tasks poll, the last one is woken.
    ///
    /// # Errors
    /// The errors of [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.poll_accept_for(cx, None)
    }

    /// Polls for the next connection on behalf of the future with this key, if there is one.
    fn poll_accept_for(&self, cx: &mut Context<'_>, key: Option<Key>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        budgeted(cx, |cx| {
            loop {
                let index = ready!(self.queue.poll_pop(cx, key))?;
                let Some(shared) = self.shards.get(index as usize) else { continue };
                let mut state = shared.lock();
                let Some(id) = state.endpoint.accept() else { continue };
                let Some(tuple) = state.endpoint.tuple(id) else { continue };
                state.handles += 1;
                drop(state);
                let local = local_of(shared.local, &tuple);
                let handle = Handle::new(shared, id, [local, tuple.remote], &self.habits);
                return Poll::Ready(Ok((TcpStream { handle }, tuple.remote)));
            }
        })
    }

    /// Divides a listener of several shards into one per shard, each with its own accept queue, so that a program with
    /// one accepting task per core shares no queue. Connections that wait to be accepted keep their order. The limits
    /// remain shared.
    ///
    /// New connections go to all of the listeners as long as their sockets exist: those that arrive at a dropped or
    /// closed listener are refused until its last connection has ended. Drop all of them together.
    ///
    /// **The tasks of all shards run in the runtime that bound the listener**, no matter where their connections are
    /// accepted: a shard stops while that runtime is not running, as a single-threaded runtime outside `block_on`. For
    /// a runtime per core, give each runtime its own socket, with [`SO_REUSEPORT`](crate::TcpSocket::set_reuseport);
    /// the [guide](https://github.com/longhaul-rs/longhaul/blob/main/docs/guide.md#a-runtime-per-core) shows how.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> std::io::Result<()> {
    /// let listener = longhaul::TcpListener::bind_sharded("127.0.0.1:0", 8).await?;
    /// # let peer = listener.local_addr()?;
    /// for shard in listener.into_shards() {
    ///     tokio::spawn(async move {
    ///         while let Ok((stream, peer)) = shard.accept().await {
    ///             # drop((stream, peer));
    ///         }
    ///     });
    /// }
    /// # longhaul::TcpStream::connect(peer).await?.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn into_shards(mut self) -> Vec<Self> {
        let shards = std::mem::take(&mut self.shards);
        let alone = |(shared, index): (Arc<Shared>, u32)| {
            let mut state = shared.lock();
            // A shard whose lock is held contributes nothing.
            let queue = Arc::new(self.queue.of_shard(index));
            if let Some(kind) = state.fatal {
                queue.fail(kind, &mut Vec::new());
            }
            state.accepting = Some((Arc::clone(&queue), 0));
            drop(state);
            Self { shards: vec![shared], queue, habits: self.habits.clone(), config: Arc::clone(&self.config) }
        };
        shards.into_iter().zip(0..).map(alone).collect()
    }

    /// Returns a connector whose connections have the listener's UDP sockets and settings. A NAT then gives them the
    /// address at which peers can reach the listener.
    #[must_use]
    pub fn connector(&self) -> TcpConnector {
        TcpConnector::on(self.shards.clone(), self.habits.clone(), Arc::clone(&self.config))
    }

    /// Stops listening and waits until all connections of the listener's sockets have ended: until the peers have
    /// acknowledged everything that was written to the streams that have been closed or dropped. This includes streams
    /// that the program still holds. Connections that were not accepted are reset.
    ///
    /// Cancel safety: the listener is closed even if the future is dropped.
    ///
    /// # Errors
    /// Fails if the UDP socket has failed.
    pub async fn close(self) -> io::Result<()> {
        let shards = self.shards.clone();
        drop(self);
        let key = waiters::key();
        for shared in &shards {
            std::future::poll_fn(|cx| {
                let mut state = shared.lock();
                if state.endpoint.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                if let Some(kind) = state.fatal {
                    return Poll::Ready(Err(io::Error::from(kind)));
                }
                let former = state.idle.register_future(key, cx);
                drop(state);
                drop(former);
                Poll::Pending
            })
            .await?;
        }
        Ok(())
    }

    /// Returns the number of shards: that of [`TcpSocket::set_shards`](crate::TcpSocket::set_shards) on Linux, and 1
    /// elsewhere. A listener that took over the sockets of an earlier one has the number of sockets that remained.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the state of the listener and all of its shards. The call locks one shard at a time, so the numbers are
    /// not a consistent snapshot.
    #[must_use]
    pub fn info(&self) -> ListenerInfo {
        let mut info = ListenerInfo::default();
        self.shards.iter().for_each(|shared| info.add(&shared.lock()));
        info
    }

    /// Returns the local address of the listener.
    #[doc = errors!(never)]
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.first().local)
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        for shared in &self.shards {
            let mut state = shared.lock();
            let now = Io::now();
            state.handles -= 1;
            state.accepting = None;
            state.endpoint.unlisten(now);
            state.wake_driver();
            shared.settle(state, now);
        }
    }
}

//! Many connections from one UDP socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::ToSocketAddrs;

use crate::config::Config;
use crate::connect::{self, connected, unspecified};
use crate::driver::Driver;
use crate::io::{Io, Role, canonical};
use crate::setup::{Habits, Setup};
use crate::shared::Shared;
use crate::stream::TcpStream;

/// Opens connections to many peers from one UDP socket. All of them share one descriptor and one pair of kernel
/// buffers, whereas [`TcpStream::connect`] uses a socket per connection.
///
/// The TCP inside UDP has the same port numbers as the UDP socket. A connector can therefore have at most one
/// connection to a given address and port at a time; another attempt fails with `AddrInUse`. For several
/// connections to one peer, use a connector of several shards ([`bind_sharded`](Self::bind_sharded)) or
/// [`TcpStream::connect`]. The connections of one shard are served by one core at a time.
///
/// Dropping the connector does not affect its connections. The socket is closed when the last of them has ended.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let listener = longhaul::TcpListener::bind("127.0.0.1:0").await?;
/// # let peers = [listener.local_addr()?];
/// let connector = longhaul::TcpConnector::bind("0.0.0.0:0").await?;
/// let mut streams = Vec::new();
/// for peer in peers {
///     streams.push(connector.connect(peer).await?);
/// }
/// # Ok(())
/// # }
/// ```
pub struct TcpConnector {
    /// The shards, at least one.
    shards: Vec<Arc<Shared>>,
    /// The shard of the next connection, modulo their number.
    next: AtomicUsize,
    habits: Habits,
    config: Arc<longhaul_tcp::Config>,
}

impl TcpConnector {
    /// Binds a connector to the first of `addr`'s addresses that can be bound. Use `0.0.0.0:0` for IPv4 peers and
    /// `[::]:0` for IPv6 peers; the latter also reaches IPv4 peers if the system's IPv6 sockets are dual-stack by
    /// default. For settings other than the address, see [`TcpSocket::connector`](crate::TcpSocket::connector).
    ///
    /// # Errors
    /// Fails with the system's error, such as `AddrInUse`.
    pub async fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        connect::first_bound(addr, |addr| Self::over(UdpSocket::bind(addr)?, Setup::default())).await
    }

    /// Binds a connector with `shards` sockets, each with its own lock and task, to the first of `addr`'s addresses
    /// that can be bound. The first socket is bound to `addr`, and the others to the same IP address and any port. New
    /// connections go to the sockets in turn, so a connector can have this many connections to one peer address. See
    /// [`TcpSocket::set_shards`](crate::TcpSocket::set_shards).
    ///
    /// # Errors
    /// The errors of [`bind`](Self::bind), and `InvalidInput` if `shards` is not between 1 and 256.
    pub async fn bind_sharded(addr: impl ToSocketAddrs, shards: usize) -> io::Result<Self> {
        connect::first_bound(addr, |addr| Self::over(UdpSocket::bind(addr)?, Setup::sharded(shards)?)).await
    }

    pub(crate) fn over(socket: UdpSocket, setup: Setup) -> io::Result<Self> {
        let shards = setup.open_shards(socket, Role::Connector)?;
        let (habits, config) = setup.split();
        let connector = Self::on(shards, habits, config);
        connector.shards.iter().for_each(|shared| Driver::spawn(Arc::clone(shared)));
        Ok(connector)
    }

    pub(crate) fn on(shards: Vec<Arc<Shared>>, habits: Habits, config: Arc<longhaul_tcp::Config>) -> Self {
        shards.iter().for_each(|shared| shared.lock().handles += 1);
        Self { shards, next: AtomicUsize::new(0), habits, config }
    }

    pub(crate) fn first(&self) -> &Arc<Shared> {
        &self.shards[0]
    }

    /// Opens a connection to the first of `addr`'s addresses that answers, as [`TcpStream::connect`] does.
    ///
    /// Cancel safety: if the future is dropped, the attempt is abandoned and the peer discards it.
    ///
    /// # Errors
    /// The errors of [`TcpStream::connect`], and `AddrInUse` while the connector has a connection to that address.
    pub async fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<TcpStream> {
        self.connect_to(addr, &self.config).await
    }

    /// Opens a connection like [`connect`](Self::connect), with its own settings.
    ///
    /// # Errors
    /// The errors of [`connect`](Self::connect), and `InvalidInput` for a congestion controller that must be allowed
    /// first.
    pub async fn connect_with(&self, addr: impl ToSocketAddrs, config: &Config) -> io::Result<TcpStream> {
        let setup = Setup::from(config.clone());
        setup.check()?;
        self.connect_to(addr, &setup.split().1).await
    }

    async fn connect_to(&self, addr: impl ToSocketAddrs, config: &Arc<longhaul_tcp::Config>) -> io::Result<TcpStream> {
        let addresses = tokio::net::lookup_host(addr).await?;
        connect::race(addresses, |addr| self.connect_one(addr, config)).await
    }

    async fn connect_one(&self, addr: SocketAddr, config: &Arc<longhaul_tcp::Config>) -> io::Result<TcpStream> {
        let addr = canonical(addr);
        if addr.is_ipv6() && self.first().local.is_ipv4() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the connector's socket supports IPv4 only"));
        }
        // Ask the system whether there is a route, and which local address it uses.
        let route = connect::reach(&UdpSocket::bind(unspecified(addr))?, addr)?;
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut outcome = self.open_on(first, route, config);
        // Each shard can have one connection to an address: find one that has none.
        for offset in 1..self.shards.len() {
            if !outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
                break;
            }
            outcome = self.open_on(first.wrapping_add(offset), route, config);
        }
        connected(outcome?).await
    }

    /// Opens a connection on the shard with this number modulo the number of shards.
    fn open_on(
        &self,
        index: usize,
        [mut local, peer]: [SocketAddr; 2],
        config: &Arc<longhaul_tcp::Config>,
    ) -> io::Result<TcpStream> {
        let shared = &self.shards[index % self.shards.len()];
        if shared.local.ip().is_unspecified() {
            local.set_port(shared.local.port());
        } else {
            local = shared.local;
        }
        connect::open(shared, &self.habits, Arc::clone(config), [local, peer])
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the local address of the connector, or that of its first shard; the other shards have other ports.
    #[doc = errors!(never)]
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.first().local)
    }
}

impl Drop for TcpConnector {
    fn drop(&mut self) {
        for shared in &self.shards {
            let mut state = shared.lock();
            state.handles -= 1;
            state.wake_driver();
            shared.settle(state, Io::now());
        }
    }
}

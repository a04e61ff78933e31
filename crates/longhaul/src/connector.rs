//! Many connections from one UDP socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use longhaul_tcp::Config;
use tokio::net::ToSocketAddrs;

use crate::connect::{self, connected, unspecified};
use crate::driver::Driver;
use crate::io::{Io, Role, canonical};
use crate::setup::{Habits, Setup};
use crate::shared::Shared;
use crate::stream::TcpStream;

/// Opens connections to many peers from one UDP socket: one descriptor and one pair of the kernel's buffers for all of
/// them, where [`TcpStream::connect`] takes one for each.
///
/// The ports of UDP are those of the TCP inside it, so that a connector has at most one connection to the same address
/// and port at a time; a further one is refused with `AddrInUse`. For several to one peer open several connectors, or use
/// [`TcpStream::connect`]. The connections of one connector are served by one core at a time.
///
/// Dropping the connector leaves its connections alone; the socket is closed with the last of them.
///
/// ```no_run
/// # async fn example(peers: Vec<std::net::SocketAddr>) -> std::io::Result<()> {
/// let connector = longhaul::TcpConnector::bind("0.0.0.0:0").await?;
/// let mut streams = Vec::new();
/// for peer in peers {
///     streams.push(connector.connect(peer).await?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TcpConnector {
    pub(crate) shared: Arc<Shared>,
    habits: Habits,
    config: Arc<Config>,
}

impl TcpConnector {
    /// A connector on the first of `addr`'s addresses that can be bound: `0.0.0.0:0` for IPv4 peers, `[::]:0` for IPv6
    /// peers, and for both where the system's IPv6 sockets are so by default. To set more than the address see
    /// [`TcpSocket::connector`](crate::TcpSocket::connector).
    ///
    /// # Errors
    /// The system's, such as `AddrInUse`.
    pub async fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = None;
        for addr in tokio::net::lookup_host(addr).await? {
            match UdpSocket::bind(addr).and_then(|socket| Self::over(socket, Setup::default())) {
                Ok(connector) => return Ok(connector),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(connect::no_address))
    }

    pub(crate) fn over(socket: UdpSocket, setup: Setup) -> io::Result<Self> {
        let (shared, habits, config) = connect::endpoint(socket, setup, Role::Connector)?;
        shared.lock().handles += 1;
        Driver::spawn(Arc::clone(&shared));
        Ok(Self { shared, habits, config })
    }

    /// Opens a connection, to the first of `addr`'s addresses that answers, as [`TcpStream::connect`] does.
    ///
    /// Cancel safety: when the future is dropped the attempt is given up, and the peer forgets it.
    ///
    /// # Errors
    /// As [`TcpStream::connect`]; `AddrInUse` while the connector has a connection to that address.
    pub async fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<TcpStream> {
        let addresses = tokio::net::lookup_host(addr).await?;
        connect::race(addresses, |addr| self.connect_one(addr, &self.config)).await
    }

    /// As [`connect`](Self::connect), with settings for this connection.
    ///
    /// # Errors
    /// As there, and `InvalidInput` for a congestion control that must be allowed first; it cannot be allowed here.
    pub async fn connect_with(&self, addr: SocketAddr, config: Config) -> io::Result<TcpStream> {
        let setup = Setup::from(config);
        setup.check()?;
        self.connect_one(addr, &Arc::new(setup.config)).await
    }

    async fn connect_one(&self, addr: SocketAddr, config: &Arc<Config>) -> io::Result<TcpStream> {
        let addr = canonical(addr);
        if addr.is_ipv6() && self.shared.local.is_ipv4() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the connector's socket knows IPv4 only"));
        }
        // Asks the system for a route, and which address of ours is on it.
        let [mut local, peer] = connect::reach(&UdpSocket::bind(unspecified(addr))?, addr)?;
        local.set_port(self.shared.local.port());
        if !self.shared.local.ip().is_unspecified() {
            local = self.shared.local;
        }
        connected(connect::open(&self.shared, &self.habits, Arc::clone(config), [local, peer])?).await
    }

    /// The address that the connector is bound to.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.shared.local)
    }
}

impl Drop for TcpConnector {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.handles -= 1;
        state.wake_driver();
        self.shared.settle(state, Io::now());
    }
}

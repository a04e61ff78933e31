//! Many connections from one UDP socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

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
/// connections to one peer, use several connectors or [`TcpStream::connect`]. The connections of one connector are
/// served by one core at a time.
///
/// Dropping the connector does not affect its connections. The socket is closed when the last of them has ended.
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

    /// Opens a connection to the first of `addr`'s addresses that answers, as [`TcpStream::connect`] does.
    ///
    /// Cancel safety: if the future is dropped, the attempt is abandoned and the peer discards it.
    ///
    /// # Errors
    /// The same as [`TcpStream::connect`], and `AddrInUse` while the connector has a connection to that address.
    pub async fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<TcpStream> {
        let addresses = tokio::net::lookup_host(addr).await?;
        connect::race(addresses, |addr| self.connect_one(addr, &self.config)).await
    }

    /// Opens a connection like [`connect`](Self::connect), with its own settings.
    ///
    /// # Errors
    /// The same as [`connect`](Self::connect), and `InvalidInput` for a congestion controller that must be allowed
    /// first, which is not possible here.
    pub async fn connect_with(&self, addr: SocketAddr, config: Config) -> io::Result<TcpStream> {
        let setup = Setup::from(config);
        setup.check()?;
        self.connect_one(addr, &Arc::new(setup.config.engine)).await
    }

    async fn connect_one(&self, addr: SocketAddr, config: &Arc<longhaul_tcp::Config>) -> io::Result<TcpStream> {
        let addr = canonical(addr);
        if addr.is_ipv6() && self.shared.local.is_ipv4() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the connector's socket supports IPv4 only"));
        }
        // Ask the system whether there is a route, and which local address it uses.
        let [mut local, peer] = connect::reach(&UdpSocket::bind(unspecified(addr))?, addr)?;
        local.set_port(self.shared.local.port());
        if !self.shared.local.ip().is_unspecified() {
            local = self.shared.local;
        }
        connected(connect::open(&self.shared, &self.habits, Arc::clone(config), [local, peer])?).await
    }

    /// Returns the local address of the connector.
    ///
    /// # Errors
    /// Never fails; it returns a `Result` for compatibility with tokio.
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

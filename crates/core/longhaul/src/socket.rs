//! Sockets that are configured before they connect or listen.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::capture::Capture;
use crate::config::{Config, KeepAlive};
use crate::connect::{connect_over, unspecified};
use crate::connector::TcpConnector;
use crate::io::{UdpBackend, canonical};
use crate::listener::TcpListener;
#[cfg(feature = "qlog")]
use crate::qlog::Place;
use crate::rebind;
use crate::setup::Setup;
use crate::stream::TcpStream;
use crate::sync::{Mutex, MutexGuard};

/// A TCP socket that is not yet connected or listening, like `tokio::net::TcpSocket`. It consists of a UDP socket and
/// the settings for the TCP that the socket carries. A listener's settings apply to every connection that it accepts.
///
/// [`config`](Self::config) has all settings of connections. The methods here are for the socket itself: its address,
/// options and captures, and the limits and shards of a listener or connector. The methods of tokio's `TcpSocket` also
/// exist under the same names; those for the buffers, keep-alive and the Nagle algorithm change the settings in
/// `config`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let listener = longhaul::TcpListener::bind("127.0.0.1:0").await?;
/// # let peer = listener.local_addr()?;
/// let mut socket = longhaul::TcpSocket::new_v4()?;
/// socket.config().congestion(longhaul::Congestion::new_reno()).nodelay(true);
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let stream = socket.connect(peer).await?;
/// # Ok(())
/// # }
/// ```
pub struct TcpSocket {
    pub(crate) udp: Socket,
    setup: Mutex<Setup>,
    /// The address to which an unbound socket is bound.
    unspecified: SocketAddr,
}

impl TcpSocket {
    /// Creates a socket for IPv4.
    ///
    /// # Errors
    /// Fails with the system's error if no socket can be created.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(Domain::IPV4, (Ipv4Addr::UNSPECIFIED, 0).into())
    }

    /// Creates a socket for IPv6. It also serves IPv4 if the system's IPv6 sockets are dual-stack by default.
    ///
    /// # Errors
    /// Fails with the system's error if no socket can be created.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(Domain::IPV6, (Ipv6Addr::UNSPECIFIED, 0).into())
    }

    fn new(domain: Domain, unspecified: SocketAddr) -> io::Result<Self> {
        Ok(Self { udp: non_blocking(domain)?, setup: Mutex::new(Setup::default()), unspecified })
    }

    pub(crate) fn over(udp: Socket) -> io::Result<Self> {
        udp.set_nonblocking(true)?;
        let local = udp.local_addr()?;
        let is_v4 = local.is_ipv4();
        let unspecified = local.as_socket().map_or((Ipv4Addr::UNSPECIFIED, 0).into(), unspecified);
        // Options of a socket created elsewhere are kept.
        let tos = if is_v4 { udp.tos_v4() } else { tclass(&udp) }.unwrap_or(0);
        let setup = Setup { dscp: ((tos & 0xff) >> 2) as u8, ..Setup::default() };
        Ok(Self { udp, setup: Mutex::new(setup), unspecified })
    }

    pub(crate) fn setup(&self) -> MutexGuard<'_, Setup> {
        self.setup.lock()
    }

    /// Returns the settings of connections, to be changed in place or replaced: `*socket.config() = config`.
    pub fn config(&mut self) -> &mut Config {
        &mut self.setup.get_mut().config
    }

    /// Chooses the implementation of the UDP socket.
    ///
    /// # Errors
    /// Connecting or listening fails with `Unsupported` if the system does not have the chosen one.
    pub fn set_udp_backend(&self, backend: UdpBackend) {
        self.setup().udp = backend;
    }

    /// Sets the limit in bytes on data that is unsent or unacknowledged. This is the stream's send buffer, like
    /// `SO_SNDBUF` of kernel TCP. The buffer of the UDP socket is chosen automatically.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if the size is zero.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.setup().config.send_buffer(nonzero(size)?);
        Ok(())
    }

    /// Returns the size of the stream's send buffer in bytes.
    #[doc = errors!(never)]
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.setup().config.engine.send_buffer).unwrap_or(u32::MAX))
    }

    /// Sets a fixed size for the receive window in bytes and so disables its auto-tuning. To limit auto-tuning
    /// instead, use [`Config::recv_buffer_max`]. This is the stream's receive buffer, like `SO_RCVBUF` of kernel TCP.
    /// The buffer of the UDP socket is chosen automatically.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if the size is zero.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        let size = nonzero(size)?;
        self.setup().config.recv_buffer(size).recv_buffer_max(size);
        Ok(())
    }

    /// Returns the initial size of the receive window in bytes.
    #[doc = errors!(never)]
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.setup().config.engine.recv_buffer).unwrap_or(u32::MAX))
    }

    /// Enables keep-alive probes, which are sent after two idle hours, as in kernel TCP. For other times, use
    /// [`Config::keep_alive`]: NATs expire idle UDP flows after some 30 s to 5 min.
    #[doc = errors!(never)]
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.setup().config.keep_alive(keepalive.then(KeepAlive::default));
        Ok(())
    }

    /// Returns whether keep-alive probes are enabled.
    #[doc = errors!(never)]
    pub fn keepalive(&self) -> io::Result<bool> {
        Ok(self.setup().config.engine.keep_alive.is_some())
    }

    /// Disables the Nagle algorithm: small writes are sent at once instead of being gathered while another one is in
    /// flight.
    #[doc = errors!(never)]
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.setup().config.nodelay(nodelay);
        Ok(())
    }

    /// Returns whether the Nagle algorithm is disabled.
    #[doc = errors!(never)]
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(!self.setup().config.engine.nagle)
    }

    /// Sets the linger option; see [`TcpStream::set_linger`].
    #[doc = errors!(never)]
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.setup().habits.linger = linger;
        Ok(())
    }

    /// Makes dropping the stream abort the connection; see [`TcpStream::set_zero_linger`].
    #[doc = errors!(never)]
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// Returns the value set by [`set_linger`](Self::set_linger).
    #[doc = errors!(never)]
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.setup().habits.linger)
    }

    /// Sets `SO_REUSEADDR` on the UDP socket. Listeners of kernel TCP set it because of connections in TIME-WAIT; here
    /// such connections hold the port for at most one second. For UDP the option does more: another socket of this host
    /// that also sets it can be bound to the same address and receive this socket's datagrams.
    #[doc = errors!(system)]
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.udp.set_reuse_address(reuseaddr)
    }

    /// Returns whether `SO_REUSEADDR` is set.
    #[doc = errors!(system)]
    pub fn reuseaddr(&self) -> io::Result<bool> {
        self.udp.reuse_address()
    }

    /// Sets `SO_REUSEPORT` on the UDP socket: several listeners can share a port, and the kernel distributes
    /// connections among them by address. When one of the listeners is closed, its connections are lost.
    #[doc = errors!(system)]
    #[cfg(unix)]
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.udp.set_reuse_port(reuseport)
    }

    /// Returns whether `SO_REUSEPORT` is set.
    #[doc = errors!(system)]
    #[cfg(unix)]
    pub fn reuseport(&self) -> io::Result<bool> {
        self.udp.reuse_port()
    }

    /// Binds the socket to a network interface: only that interface is used to send and receive. `None` removes the
    /// binding.
    ///
    /// # Errors
    /// Fails with the system's error; privileges may be required.
    #[cfg(target_os = "linux")]
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        self.udp.bind_device(interface)
    }

    /// Returns the network interface set by [`bind_device`](Self::bind_device).
    #[doc = errors!(system)]
    #[cfg(target_os = "linux")]
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        self.udp.device()
    }

    /// Sets the type of service of sent IPv4 packets. The two ECN bits are controlled by the connection and ignored
    /// here.
    ///
    /// # Errors
    /// Fails with `InvalidInput` above 255.
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        let byte = u8::try_from(tos).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.setup().dscp = byte >> 2;
        Ok(())
    }

    /// Returns the type of service of sent IPv4 packets.
    #[doc = errors!(never)]
    pub fn tos_v4(&self) -> io::Result<u32> {
        Ok(u32::from(self.setup().dscp) << 2)
    }

    /// Sets the traffic class of sent IPv6 packets, like [`set_tos_v4`](Self::set_tos_v4) for IPv4.
    ///
    /// # Errors
    /// Fails with `InvalidInput` above 255.
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.set_tos_v4(tclass)
    }

    /// Returns the traffic class of sent IPv6 packets.
    #[doc = errors!(never)]
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// Captures all packets to a new file, as plain TCP with IP headers, for Wireshark, tshark and tcptrace. The file
    /// is complete when the stream, or the listener and all its streams, have been closed and the driver task has
    /// ended.
    ///
    /// A separate thread writes the file. If the disk is too slow, packets are omitted, and a warning states how many.
    /// If it is full, the capture ends with a warning. In both cases, the connection is not affected. When the socket
    /// is closed, it waits at most a few seconds for the thread, so that the capture of a program that exits is
    /// complete.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn set_pcap(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.setup().capture = Some(Arc::new(Mutex::new(Capture::create(path.as_ref())?)));
        Ok(())
    }

    /// Writes to the same capture as `other`, for instance a socket that tries another address of the same peer.
    pub fn share_pcap(&self, other: &Self) {
        let capture = other.setup().capture.clone();
        self.setup().capture = capture;
    }

    /// Writes one qlog file per connection to this directory, which is created if necessary. The log contains every
    /// segment and every change of the congestion window, the RTT, loss recovery and other metrics, from the first SYN.
    /// A peer that does not complete its handshake leaves no file.
    ///
    /// A separate thread writes the files. If the disk is too slow or fails, records are lost but the connection is
    /// not affected. When the socket is closed, it waits at most a few seconds for the thread, so that the log of a
    /// program that exits is complete.
    #[cfg(feature = "qlog")]
    pub fn set_qlog_dir(&self, dir: impl AsRef<Path>) {
        self.setup().habits.qlog = Some(Place::Dir(dir.as_ref().to_owned()));
    }

    /// Writes a qlog to this file, like [`set_qlog_dir`](Self::set_qlog_dir). With a listener, the first
    /// connection that completes its handshake is logged. The later of the two calls takes effect.
    #[cfg(feature = "qlog")]
    pub fn set_qlog_file(&self, file: impl AsRef<Path>) {
        self.setup().habits.qlog = Some(Place::file(file.as_ref().to_owned()));
    }

    /// Binds to a local address. If the last listener of this runtime on the address has been dropped but some of its
    /// connections remain, the address can be bound again for [`listen`](Self::listen). The new listener then takes
    /// over the old UDP socket with its options.
    ///
    /// # Errors
    /// Fails with the system's error, such as `AddrInUse`.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        match self.udp.bind(&addr.into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let free = rebind::abandoned(addr);
                if free.is_empty() {
                    return Err(error);
                }
                self.setup().takes_over = free;
                Ok(())
            }
            bound => bound,
        }
    }

    /// Returns the local address of the socket.
    #[doc = errors!(system)]
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        if let Some(shared) = self.setup().takes_over.first() {
            return Ok(shared.local);
        }
        self.udp.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Returns and clears the pending error of the socket.
    #[doc = errors!(system)]
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.udp.take_error()
    }

    /// Sets all addresses of the server to which [`connect`](Self::connect) connects. If there are two, one of each
    /// family, an encrypted connection can [move](TcpStream::relocate) to the other one. [`TcpStream::connect`] does
    /// this with the addresses of a name.
    pub fn set_server_addrs(&self, addresses: &[SocketAddr]) {
        self.setup().server = addresses.to_vec();
    }

    /// Opens a connection to `addr`.
    ///
    /// Cancel safety: if the future is dropped, the attempt is abandoned and the peer discards it.
    ///
    /// # Errors
    /// Fails with `ConnectionRefused` if the port is closed, `TimedOut` if there is no answer, `InvalidInput` for a
    /// congestion controller that must be allowed first, `Unsupported` for one that needs an option that the peer
    /// does not offer, for local paths ([`set_local_paths`](Self::set_local_paths)) of the other address family, or the
    /// system's error.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        let mut paths = std::mem::take(&mut self.setup().paths);
        paths.begin((&self.udp).into(), canonical(addr))?;
        self.setup().paths = paths;
        let (udp, setup) = self.into_client()?;
        connect_over(udp, addr, setup).await
    }

    /// Turns the socket into a connector, which opens connections to many peers. An unbound socket is bound to any
    /// port.
    ///
    /// # Errors
    /// Fails with `InvalidInput` for a congestion controller that must be allowed first, or the system's error.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn connector(self) -> io::Result<TcpConnector> {
        self.bind_if_unbound()?;
        let (udp, setup) = self.into_client()?;
        TcpConnector::over(udp, setup)
    }

    /// Listens for connections. While `backlog` connections are in the handshake or wait to be accepted, further
    /// handshakes are done statelessly with SYN cookies.
    ///
    /// # Errors
    /// Fails with `InvalidInput` for a congestion controller that must be allowed first, or the system's error.
    ///
    /// # Panics
    /// Panics outside a tokio runtime, as tokio's does.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.bind_if_unbound()?;
        let (udp, mut setup) = self.into_parts();
        setup.backlog = Some(backlog.max(1) as usize);
        match std::mem::take(&mut setup.takes_over) {
            free if free.is_empty() => TcpListener::over(udp, setup),
            free => rebind::take_over(free, setup),
        }
    }

    fn bind_if_unbound(&self) -> io::Result<()> {
        match self.local_addr() {
            Ok(local) if local.port() != 0 => Ok(()),
            Ok(local) => self.bind(local),
            // Windows reports no address of an unbound socket (WSAEINVAL).
            Err(_) => self.bind(self.unspecified),
        }
    }

    fn into_client(self) -> io::Result<(std::net::UdpSocket, Setup)> {
        let (udp, setup) = self.into_parts();
        // A socket taken over from a listener can only listen.
        if !setup.takes_over.is_empty() { Err(io::ErrorKind::AddrInUse.into()) } else { Ok((udp, setup)) }
    }

    pub(crate) fn into_parts(self) -> (std::net::UdpSocket, Setup) {
        (self.udp.into(), self.setup.into_inner())
    }
}

#[cfg(target_os = "linux")]
fn non_blocking(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))
}

#[cfg(not(target_os = "linux"))]
fn non_blocking(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn nonzero(size: u32) -> io::Result<usize> {
    if size == 0 { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(size as usize) }
}

#[cfg(unix)]
fn tclass(udp: &Socket) -> io::Result<u32> {
    udp.tclass_v6()
}

#[cfg(not(unix))]
fn tclass(_: &Socket) -> io::Result<u32> {
    Ok(0)
}

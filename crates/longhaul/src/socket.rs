//! A socket to be configured before it connects or listens.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_tcp::{Config, KeepAlive};
use longhaul_units::Rate;
use socket2::{Domain, Protocol, Socket, Type};

use crate::capture::Capture;
use crate::connect::connect_over;
use crate::connector::TcpConnector;
use crate::handle::to_span;
use crate::listener::TcpListener;
use crate::qlog::Place;
use crate::rebind;
use crate::setup::{IntoCongestion, Setup};
use crate::stream::TcpStream;

/// A TCP socket that has not yet been connected or set to listen, as `tokio::net::TcpSocket` is one: a UDP socket,
/// and the settings for the TCP inside it. Those of a listener are the settings of every connection that it accepts.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let socket = longhaul::TcpSocket::new_v4()?;
/// socket.set_congestion("new-reno")?;
/// socket.set_nodelay(true)?;
/// let stream = socket.connect("192.0.2.1:7000".parse().unwrap()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TcpSocket {
    pub(crate) udp: Socket,
    setup: Mutex<Setup>,
}

impl TcpSocket {
    /// A socket for IPv4.
    ///
    /// # Errors
    /// The system's, when it gives no socket.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(Domain::IPV4)
    }

    /// A socket for IPv6, and for IPv4 too where the system's IPv6 sockets are so by default.
    ///
    /// # Errors
    /// The system's, when it gives no socket.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<Self> {
        Self::over(Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?)
    }

    pub(crate) fn over(udp: Socket) -> io::Result<Self> {
        udp.set_nonblocking(true)?;
        let is_v4 = udp.local_addr()?.is_ipv4();
        // What was set for a socket that comes from elsewhere stays.
        let tos = if is_v4 { udp.tos_v4() } else { tclass(&udp) }.unwrap_or(0);
        Ok(Self { udp, setup: Mutex::new(Setup::with_dscp(tos)) })
    }

    pub(crate) fn setup(&self) -> MutexGuard<'_, Setup> {
        self.setup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All settings of the TCP, to be changed in place.
    pub fn config(&mut self) -> &mut Config {
        &mut self.setup.get_mut().unwrap_or_else(PoisonError::into_inner).config
    }

    /// Replaces all settings of the TCP.
    pub fn set_config(&self, config: Config) {
        self.setup().config = config;
    }

    /// Chooses the congestion control: a text such as `"cubic"` or `"slow-start(iw=4)+new-reno"`
    /// (see [`cc::registry`](crate::cc::registry)), or a [`Congestion`](crate::cc::Congestion). It cannot be changed once
    /// there is a connection.
    ///
    /// # Errors
    /// `InvalidInput` if the text names none; the message lists what exists. Whether it may run on a shared network is
    /// checked by [`connect`](Self::connect) and [`listen`](Self::listen).
    pub fn set_congestion(&self, congestion: impl IntoCongestion) -> io::Result<()> {
        self.setup().config.congestion = congestion.into_congestion()?;
        Ok(())
    }

    /// The name of the congestion control chosen.
    #[must_use]
    pub fn congestion(&self) -> String {
        self.setup().config.congestion.name()
    }

    /// Allows congestion control that takes more than its share from others, or stands on answers of routers that the
    /// Internet's do not give. Only for a network of one's own.
    pub fn allow_unsafe_congestion(&self, allow: bool) {
        self.setup().allow_unsafe = allow;
    }

    /// Bytes of data that may wait for transmission or acknowledgment. This is the stream's buffer, as `SO_SNDBUF` is
    /// of kernel TCP; the UDP socket's own is set to what suits.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.setup().config.send_buffer = nonzero(size)?;
        Ok(())
    }

    /// Bytes of data that may wait for transmission or acknowledgment.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.setup().config.send_buffer).unwrap_or(u32::MAX))
    }

    /// Fixes the receive window's size: it is then not tuned. For a ceiling of the tuning see
    /// [`Config::recv_buffer_max`]. This is the stream's buffer, as `SO_RCVBUF` is of kernel TCP; the UDP socket's own
    /// is set to what suits.
    ///
    /// # Errors
    /// `InvalidInput` for zero.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        let size = nonzero(size)?;
        let config = &mut self.setup().config;
        (config.recv_buffer, config.recv_buffer_max) = (size, size);
        Ok(())
    }

    /// The receive window's size at the start of a connection.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.setup().config.recv_buffer).unwrap_or(u32::MAX))
    }

    /// Probes an idle peer, after two hours as kernel TCP does; [`set_keepalive_params`](Self::set_keepalive_params)
    /// for other times. NATs forget UDP flows after some 30 s to 5 min.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.set_keepalive_params(keepalive.then(KeepAlive::default));
        Ok(())
    }

    /// Whether an idle peer is probed.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn keepalive(&self) -> io::Result<bool> {
        Ok(self.setup().config.keep_alive.is_some())
    }

    /// When to probe an idle peer, and when to give it up. Times below a second count as one.
    pub fn set_keepalive_params(&self, keep_alive: Option<KeepAlive>) {
        self.setup().config.keep_alive = keep_alive;
    }

    /// Sends small writes at once instead of gathering them while data is in flight (the Nagle algorithm).
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.setup().config.nagle = !nodelay;
        Ok(())
    }

    /// Whether small writes are sent at once.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(!self.setup().config.nagle)
    }

    /// Gives a connection up when data stays unacknowledged for so long (RFC 5482); `None` is some 15 minutes.
    pub fn set_user_timeout(&self, timeout: Option<Duration>) {
        self.setup().config.user_timeout = timeout.map(to_span);
    }

    /// Tells the peer of the user timeout, and heeds what it tells of its own (RFC 5482). What was set by
    /// [`set_user_timeout`](Self::set_user_timeout) stays; without it the peer's is adopted if it is longer than our 15
    /// minutes, up to an hour. Off by default.
    pub fn set_user_timeout_option(&self, enabled: bool) {
        self.setup().config.user_timeout_option = enabled;
    }

    /// A ceiling for the pacing rate in bytes per second; `None` is none.
    pub fn set_max_pacing_rate(&self, bytes_per_second: Option<u64>) {
        self.setup().config.max_pacing_rate = bytes_per_second.map_or(Rate::MAX, Rate::from_bytes_per_sec);
    }

    /// See [`TcpStream::set_linger`].
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.setup().linger = linger;
        Ok(())
    }

    /// See [`TcpStream::set_zero_linger`].
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// What was set by [`set_linger`](Self::set_linger).
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.setup().linger)
    }

    /// Whether a listener answers probes of the path, such as those of the example `probe`, with their times of arrival.
    /// Anybody may ask, and is told when the datagram came and with which TTL; an answer is never longer than the probe.
    /// Off by default. A socket that connects answers none.
    pub fn set_reflect(&self, reflect: bool) {
        self.setup().reflect = reflect;
    }

    /// `SO_REUSEADDR` of the UDP socket. Kernel TCP's listeners want it because of connections in TIME-WAIT; here such
    /// connections hold the port for a second at most. For UDP it means more: another socket of this host that sets it
    /// too may be bound to the same address, and take its datagrams over.
    ///
    /// # Errors
    /// The system's.
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.udp.set_reuse_address(reuseaddr)
    }

    /// Whether `SO_REUSEADDR` is set.
    ///
    /// # Errors
    /// The system's.
    pub fn reuseaddr(&self) -> io::Result<bool> {
        self.udp.reuse_address()
    }

    /// `SO_REUSEPORT` of the UDP socket: several listeners on one port share its connections, which the kernel deals
    /// out by address. When one of them goes away its connections are lost.
    ///
    /// # Errors
    /// The system's.
    #[cfg(unix)]
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.udp.set_reuse_port(reuseport)
    }

    /// Whether `SO_REUSEPORT` is set.
    ///
    /// # Errors
    /// The system's.
    #[cfg(unix)]
    pub fn reuseport(&self) -> io::Result<bool> {
        self.udp.reuse_port()
    }

    /// Sends and receives through this network interface only; `None` is any.
    ///
    /// # Errors
    /// The system's; there may be need of privileges.
    #[cfg(target_os = "linux")]
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        self.udp.bind_device(interface)
    }

    /// The network interface that [`bind_device`](Self::bind_device) has set.
    ///
    /// # Errors
    /// The system's.
    #[cfg(target_os = "linux")]
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        self.udp.device()
    }

    /// The type of service or traffic class of packets sent, of IPv4 and IPv6 alike: what
    /// [`set_tos_v4`](Self::set_tos_v4) and [`set_tclass_v6`](Self::set_tclass_v6) set, too.
    ///
    /// # Errors
    /// `InvalidInput` above 255.
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        self.set_tos_v4(tos)
    }

    /// The type of service or traffic class of packets sent.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn tos(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// The type of service of IPv4 packets sent. Its two ECN bits are the connection's own and are ignored here.
    ///
    /// # Errors
    /// `InvalidInput` above 255.
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        let byte = u8::try_from(tos).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.setup().dscp = byte >> 2;
        Ok(())
    }

    /// The type of service of IPv4 packets sent.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn tos_v4(&self) -> io::Result<u32> {
        Ok(u32::from(self.setup().dscp) << 2)
    }

    /// The traffic class of IPv6 packets sent; otherwise as [`set_tos_v4`](Self::set_tos_v4).
    ///
    /// # Errors
    /// `InvalidInput` above 255.
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.set_tos_v4(tclass)
    }

    /// The traffic class of IPv6 packets sent.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.tos_v4()
    }

    /// Captures all packets to a new file, as plain TCP with IP headers, for Wireshark, tshark and tcptrace. The file is
    /// complete once the stream, or the listener and all its streams, are closed and the runtime has seen to it.
    ///
    /// Writing is part of sending and receiving: a slow disk slows the connection down. A full one ends the capture
    /// with a warning, and nothing else.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn set_pcap(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.setup().capture = Some(Capture::create(path.as_ref())?);
        Ok(())
    }

    /// Writes a qlog file for each connection into this directory, which is made if there is need: every segment, and
    /// congestion window, RTT, losses and so on over time.
    ///
    /// A thread of its own writes. Where the disk does not keep up, or fails, the log suffers and not the connection; the
    /// socket's end waits some seconds for it at most, so that a program that ends leaves a whole log.
    pub fn set_qlog_dir(&self, dir: impl AsRef<Path>) {
        self.setup().qlog = Some(Place::Dir(dir.as_ref().to_owned()));
    }

    /// As [`set_qlog_dir`](Self::set_qlog_dir), into this one file: of a listener's connections the first that is
    /// accepted is logged. The two replace each other.
    pub fn set_qlog_file(&self, file: impl AsRef<Path>) {
        self.setup().qlog = Some(Place::File(Arc::new(Mutex::new(Some(file.as_ref().to_owned())))));
    }

    /// Binds to a local address. One that a listener of this runtime has left, and where some of its connections are not
    /// over, can be bound to again in order to [`listen`](Self::listen): the new listener takes the old UDP socket over,
    /// with the options of that one.
    ///
    /// # Errors
    /// The system's, such as `AddrInUse`.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        match self.udp.bind(&addr.into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let Some(shared) = rebind::abandoned(addr) else { return Err(error) };
                self.setup().takes_over = Some(shared);
                Ok(())
            }
            bound => bound,
        }
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        if let Some(shared) = &self.setup().takes_over {
            return Ok(shared.local);
        }
        self.udp.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// The socket's pending error.
    ///
    /// # Errors
    /// The system's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.udp.take_error()
    }

    /// Opens a connection to `addr`.
    ///
    /// Cancel safety: when the future is dropped the attempt is given up, and the peer forgets it.
    ///
    /// # Errors
    /// `ConnectionRefused` if nobody listens there, `TimedOut` if nobody answers, `InvalidInput` for a congestion
    /// control that must be allowed first, `Unsupported` for one that needs what the peer does not offer; the system's.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        let (udp, setup) = self.into_client()?;
        connect_over(udp, addr, setup).await
    }

    /// Makes connections to many peers from this socket. It is bound to any port of its family if it is not yet.
    ///
    /// # Errors
    /// `InvalidInput` for a congestion control that must be allowed first; the system's.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connector(self) -> io::Result<TcpConnector> {
        self.bind_if_unbound()?;
        let (udp, setup) = self.into_client()?;
        TcpConnector::over(udp, setup)
    }

    /// Listens. Beyond `backlog` connections that are in the handshake or wait to be accepted, the handshake is done
    /// without memory of it (SYN cookies).
    ///
    /// # Errors
    /// `InvalidInput` for a congestion control that must be allowed first; the system's.
    ///
    /// # Panics
    /// Outside a tokio runtime, as tokio's does.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.bind_if_unbound()?;
        let (udp, mut setup) = self.into_parts();
        setup.backlog = Some(backlog.max(1) as usize);
        match setup.takes_over.take() {
            Some(shared) => rebind::take_over(shared, setup),
            None => TcpListener::over(udp, setup),
        }
    }

    fn bind_if_unbound(&self) -> io::Result<()> {
        let local = self.local_addr()?;
        if local.port() == 0 { self.bind(local) } else { Ok(()) }
    }

    fn into_client(self) -> io::Result<(std::net::UdpSocket, Setup)> {
        let (udp, setup) = self.into_parts();
        // What a listener has left is for listeners.
        if setup.takes_over.is_some() { Err(io::ErrorKind::AddrInUse.into()) } else { Ok((udp, setup)) }
    }

    pub(crate) fn into_parts(self) -> (std::net::UdpSocket, Setup) {
        (self.udp.into(), self.setup.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
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

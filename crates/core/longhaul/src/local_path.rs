//! Local paths: the addresses and interfaces from which a client sends, in the order in which they are used.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use longhaul_tcp::Info;
use longhaul_units::{Span, Time};
use socket2::SockRef;

use crate::connect::{reach, unspecified};
use crate::socket::TcpSocket;

/// Number of round trips without an answer after which another path is tried, and the minimum of that time.
const SILENT_ROUND_TRIPS: u64 = 3;
const MIN_SILENCE: Span = Span::from_millis(200);
/// Factor by which that time grows with each further silent path, and its maximum.
const PATIENCE: u64 = 4;
const MAX_SILENCE: Span = Span::from_secs(8);
/// Minimum interval between two checks of a path. If the round-trip time is longer, it is the interval.
const LOOK_INTERVAL: Span = Span::from_millis(100);
/// Interval between two probes of a path that is kept open.
const WARM_INTERVAL: Span = Span::from_secs(20);

/// A path that begins at an address or a network interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalPath {
    /// Datagrams have this source address. The routing table chooses the interface, also by the source address if there
    /// are rules for it.
    Address(IpAddr),
    /// Datagrams leave by the interface of this name, with an address that the system chooses. Linux only.
    Interface(String),
}

impl LocalPath {
    /// Checks that a socket can be bound to the path.
    ///
    /// # Errors
    /// Fails with the system's error: `AddrNotAvailable` for an address of another host, `ENODEV` for an unknown
    /// interface, or `Unsupported` for interfaces on other systems than Linux.
    pub fn check(&self) -> io::Result<()> {
        let family = match self {
            Self::Address(ip) => SocketAddr::new(*ip, 0),
            Self::Interface(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        let socket = socket2::Socket::new(socket2::Domain::for_address(family), socket2::Type::DGRAM, None)?;
        self.bind(SockRef::from(&socket), family)
    }

    /// Returns whether a peer can be reached from an address of this family.
    fn has_family_of(&self, peer: SocketAddr) -> bool {
        match self {
            Self::Address(ip) => ip.is_ipv4() == peer.is_ipv4(),
            Self::Interface(_) => true,
        }
    }

    /// Binds an unbound socket of the family of `peer` to the path and any port.
    pub(crate) fn bind(&self, socket: SockRef<'_>, peer: SocketAddr) -> io::Result<()> {
        let mut local = unspecified(peer);
        match self {
            Self::Address(ip) => local.set_ip(*ip),
            #[cfg(target_os = "linux")]
            Self::Interface(name) => socket.bind_device(Some(name.as_bytes()))?,
            #[cfg(not(target_os = "linux"))]
            Self::Interface(_) => return Err(io::ErrorKind::Unsupported.into()),
        }
        socket.bind(&local.into())
    }

    /// Returns a socket that is connected to a peer over the path, if it has a route there.
    fn open(&self, peer: SocketAddr) -> io::Result<UdpSocket> {
        let socket = socket2::Socket::new(socket2::Domain::for_address(peer), socket2::Type::DGRAM, None)?;
        self.bind(SockRef::from(&socket), peer)?;
        let socket = UdpSocket::from(socket);
        reach(&socket, peer)?;
        Ok(socket)
    }

    fn reaches(&self, peer: SocketAddr) -> bool {
        self.has_family_of(peer) && self.open(peer).is_ok()
    }

    /// Returns whether the path leads from `local`, which is still an address of it, to `peer`.
    pub(crate) fn leads(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        self.has(local).is_ok() && self.reaches(peer)
    }

    fn has(&self, mut local: SocketAddr) -> io::Result<()> {
        local.set_port(0);
        let socket = socket2::Socket::new(socket2::Domain::for_address(local), socket2::Type::DGRAM, None)?;
        #[cfg(target_os = "linux")]
        if let Self::Interface(name) = self {
            socket.bind_device(Some(name.as_bytes()))?;
        }
        socket.bind(&local.into())
    }
}

/// The local paths of a client's connection, of which one is in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalPaths {
    pub(crate) list: Vec<LocalPath>,
    current: usize,
    /// Whether the next path is kept open, and the time of the next probe.
    pub(crate) warm: bool,
    warm_at: Time,
    /// Number of segments received, and the last time at which it had increased or no data was unacknowledged.
    heard: (u64, Time),
    /// Number of consecutive silent paths.
    silent: u32,
}

impl LocalPaths {
    /// Returns the path in use.
    pub(crate) fn current(&self) -> Option<&LocalPath> {
        self.list.get(self.current)
    }

    /// Chooses the first path for a connection to `peer`, and binds its socket.
    pub(crate) fn begin(&mut self, socket: SockRef<'_>, peer: SocketAddr) -> io::Result<()> {
        if self.list.is_empty() {
            return Ok(());
        }
        let text = || format!("none of the local addresses has the address family of {peer}");
        let first = self.list.iter().position(|path| path.has_family_of(peer));
        self.current = first.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, text()))?;
        self.current().map_or(Ok(()), |path| path.bind(socket, peer))
    }

    /// Returns the time of the next check.
    pub(crate) fn next_look(&self, now: Time, info: &Info) -> Time {
        now + info.srtt.unwrap_or_default().max(LOOK_INTERVAL)
    }

    /// Returns whether data is unacknowledged and nothing has arrived for longer than the round-trip time explains.
    pub(crate) fn is_silent(&mut self, now: Time, info: &Info) -> bool {
        if info.segments_in != self.heard.0 {
            self.silent = 0;
        }
        if info.segments_in != self.heard.0 || info.unacked_segments == 0 {
            self.heard = (info.segments_in, now);
        }
        let first = (info.srtt.unwrap_or_default() * SILENT_ROUND_TRIPS).max(MIN_SILENCE);
        let patience = (0..self.silent).fold(first, |time, _| (time * PATIENCE).min(MAX_SILENCE));
        now - self.heard.1 >= patience
    }

    /// Switches to the next path that reaches one of these addresses of the peer, which may be the current one, and
    /// returns that address.
    pub(crate) fn advance(&mut self, now: Time, peers: &[SocketAddr]) -> Option<SocketAddr> {
        let order = self.others().chain([self.current]);
        let peer = self.switch(order, peers)?;
        self.silent = self.silent.saturating_add(1);
        self.heard.1 = now;
        Some(peer)
    }

    /// Switches to the first path that reaches the peer, beginning with the current one.
    pub(crate) fn choose(&mut self, peer: SocketAddr) -> io::Result<()> {
        let order = [self.current].into_iter().chain(self.others());
        let text = || format!("none of the local paths leads to {peer}");
        let found = self.switch(order, &[peer]).map(drop);
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NetworkUnreachable, text()))
    }

    fn switch(&mut self, mut order: impl Iterator<Item = usize>, peers: &[SocketAddr]) -> Option<SocketAddr> {
        let reached = |index: usize| peers.iter().find(|peer| self.list[index].reaches(**peer)).copied();
        let (index, peer) = order.find_map(|index| Some((index, reached(index)?)))?;
        self.current = index;
        Some(peer)
    }

    /// Returns the other paths, in the order in which they are tried.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (current, len) = (self.current, self.list.len());
        (1..len).map(move |more| (current + more) % len)
    }

    /// Sends an empty datagram over the next path if one is due, so that it stays open.
    pub(crate) fn keep_warm(&mut self, now: Time, peers: &[SocketAddr]) {
        if !self.warm || self.warm_at > now {
            return;
        }
        self.warm_at = now + WARM_INTERVAL;
        // A path that is down now is probed again later.
        let open = |index: usize| peers.iter().find_map(|peer| self.list[index].open(*peer).ok());
        let _ = self.others().find_map(open).map(|socket| socket.send(&[]));
    }
}

impl TcpSocket {
    /// Names the local paths of a client. [`connect`](Self::connect) uses the first one that has the family of the
    /// peer's address, and binds the socket to it. An encrypted connection moves to the next one when its path ends, or
    /// when the peer has not answered for three round trips. A plain one fails, because only the keys of TLS prove that
    /// another address belongs to the same client.
    ///
    /// If `warm`, an empty datagram every 20 s keeps the next path open: 4,320 per day.
    pub fn set_local_paths(&self, paths: &[LocalPath], warm: bool) {
        self.setup().paths = LocalPaths { list: paths.to_vec(), warm, ..LocalPaths::default() };
    }
}

#[cfg(test)]
mod tests;

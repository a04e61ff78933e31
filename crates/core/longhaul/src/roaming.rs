//! Clients whose local address changes: their connections move (`docs/wire.md`, "Move").

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use longhaul_tcp::{ConnId, Mobility};
use longhaul_units::{Span, Time};

use crate::connect::{reach, unspecified};
use crate::handle::Handle;
use crate::io::{Io, canonical};
use crate::local_path::LocalPaths;
use crate::shared::{Shared, State};
use crate::stream::TcpStream;

/// Interval between look-ups in the routing table, with a route and without one.
const LOOK_INTERVAL: Span = Span::from_secs(2);
const RETRY_INTERVAL: Span = Span::from_millis(250);

/// State of a client's socket whose only connection can move.
#[derive(Debug)]
pub(crate) struct Roaming {
    /// The connection, once it can move.
    connection: Option<ConnId>,
    /// The current local address.
    pub(crate) local: SocketAddr,
    /// Addresses of the server. The first one that has a route is used.
    server: Vec<SocketAddr>,
    /// Paths that the application has named.
    paths: LocalPaths,
    /// Time of the next look-up in the routing table; `None` if the application has chosen the address.
    pub(crate) look_at: Option<Time>,
    /// Whether the path may have ended.
    is_doubtful: bool,
}

impl Roaming {
    fn new(local: SocketAddr, server: Vec<SocketAddr>, paths: LocalPaths) -> Self {
        Self { connection: None, local, server, paths, look_at: None, is_doubtful: false }
    }

    /// Returns the local address of a socket, which changes with that of its only connection.
    pub(crate) fn local(roaming: Option<&Self>, shared: &Shared) -> SocketAddr {
        roaming.map_or(shared.local, |roaming| roaming.local)
    }

    /// Returns the first address of the server that has a route, and the local address from which it is reached.
    fn route(&self) -> io::Result<[SocketAddr; 2]> {
        let mut outcome = Err(io::ErrorKind::NetworkUnreachable.into());
        for peer in &self.server {
            match route_to(*peer) {
                Ok(local) => return Ok([local, *peer]),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }
}

impl State {
    /// Makes the socket a client of the server at `peer`, whose address of the other family is `alternative`. `paths`
    /// are the paths that the application has named, if any.
    pub(crate) fn begin_client(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
        alternative: Option<SocketAddr>,
        paths: LocalPaths,
    ) {
        self.client = Some(peer);
        if alternative.is_some() || !paths.list.is_empty() {
            let server = [peer].into_iter().chain(alternative).collect();
            self.roaming = Some(Box::new(Roaming::new(local, server, paths)));
        }
    }

    /// Looks at the routing table at `at` or earlier, because the path may have ended.
    pub(crate) fn look_soon(&mut self, at: Time) {
        if let Some(roaming) = &mut self.roaming {
            roaming.look_at = roaming.look_at.map(|planned| planned.min(at));
            roaming.is_doubtful = true;
        }
    }

    /// Moves the connection of a client if the routing table now prefers another local address or another address of
    /// the server, and the current path is gone or may have ended.
    pub(crate) fn follow_route(&mut self, shared: &Shared, now: Time) {
        let (Some(roaming), Some(client)) = (&mut self.roaming, self.client) else { return };
        if roaming.look_at.is_none_or(|at| at > now) {
            return;
        }
        if roaming.connection.is_none_or(|id| self.endpoint.connection(id).is_none()) {
            self.roaming = None;
            return;
        }
        if !roaming.paths.list.is_empty() {
            return self.follow_path(shared, now, client);
        }
        let route = roaming.route();
        let is_doubtful = std::mem::take(&mut roaming.is_doubtful);
        roaming.look_at = Some(now + if route.is_ok() { LOOK_INTERVAL } else { RETRY_INTERVAL });
        let Ok([local, peer]) = route else { return };
        let is_gone = || UdpSocket::bind((roaming.local.ip(), 0)).is_err();
        let has_no_route = || peer != client && route_to(client).is_err();
        let is_other = (peer, local.ip()) != (client, roaming.local.ip());
        if is_other && (is_doubtful || is_gone() || has_no_route()) && self.relocate(shared, now, peer).is_err() {
            self.look_soon(now + RETRY_INTERVAL);
        }
    }

    /// Moves the connection to the next of the paths that the application has named if the current one has ended or is
    /// silent.
    fn follow_path(&mut self, shared: &Shared, now: Time, peer: SocketAddr) {
        let Some(roaming) = &mut self.roaming else { return };
        let Some(connection) = roaming.connection.and_then(|id| self.endpoint.connection(id)) else { return };
        let (info, paths) = (connection.info(now), &mut roaming.paths);
        let is_silent = paths.is_silent(now, &info) && paths.list.len() > 1;
        let ends = is_silent || !paths.current().is_some_and(|path| path.leads(roaming.local, peer));
        let peers: Vec<_> = [peer].into_iter().chain(roaming.server.iter().copied().filter(|it| *it != peer)).collect();
        roaming.is_doubtful = false;
        roaming.look_at = Some(paths.next_look(now, &info));
        paths.keep_warm(now, &peers);
        let next = if ends { paths.advance(now, &peers) } else { None };
        if next.is_some_and(|peer| self.relocate(shared, now, peer).is_err()) {
            self.look_soon(now + RETRY_INTERVAL);
        }
    }

    fn relocate(&mut self, shared: &Shared, now: Time, peer: SocketAddr) -> io::Result<SocketAddr> {
        let Some((roaming, id)) = self.roaming.as_mut().and_then(|roaming| roaming.connection.map(|id| (roaming, id)))
        else {
            return Err(cannot_move());
        };
        // The endpoint must not move if the socket cannot.
        if roaming.paths.list.is_empty() {
            route_to(peer)?;
        } else {
            roaming.paths.choose(peer)?;
        }
        if !self.endpoint.relocate(now, id, Shared::client_tuple(peer)) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "the connection is over or has moved just now"));
        }
        // A batch that the socket has not accepted belongs to the former path.
        self.stuck = None;
        shared.io.reconnect(peer, roaming.paths.current())?;
        self.client = Some(peer);
        let local = shared.io.options().local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        roaming.local = canonical(local);
        let local = roaming.local;
        tracing::debug!(%local, %peer, "a connection moves");
        // The driver may have to monitor another socket.
        self.wake_driver();
        Ok(local)
    }
}

fn cannot_move() -> io::Error {
    let text = "only an encrypted connection with a socket of its own can move, and only if the peer supports it";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Returns the local address from which the routing table reaches a peer. A link-local address reaches only link-local
/// peers, although systems choose it if an interface has no other.
fn route_to(peer: SocketAddr) -> io::Result<SocketAddr> {
    let [local, _] = reach(&UdpSocket::bind(unspecified(peer))?, peer)?;
    let is_link_local = |address: SocketAddr| matches!(address.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local());
    if is_link_local(local) && !is_link_local(peer) {
        return Err(io::ErrorKind::NetworkUnreachable.into());
    }
    Ok(local)
}

impl TcpStream {
    /// Lets the connection continue on other paths. Both ends must call this with the same keys, after the last data
    /// that an attacker without these keys could have written. Returns whether the connection is open.
    #[doc(hidden)]
    pub fn set_mobility(&self, mobility: Mobility) -> bool {
        let (mut state, id) = (self.handle.shared.lock(), self.handle.id);
        let is_client = mobility.is_client;
        let is_set = state.endpoint.set_mobility(id, mobility);
        if is_set && is_client && state.client.is_some() && self.handle.shared.io.reconnects() {
            let Handle { local, peer, .. } = *self.handle;
            let new = || Box::new(Roaming::new(local, vec![peer], LocalPaths::default()));
            let roaming = state.roaming.get_or_insert_with(new);
            let has_paths = !roaming.paths.list.is_empty();
            let follows = has_paths || route_to(peer).is_ok_and(|route| route.ip() == local.ip());
            roaming.connection = Some(id);
            roaming.look_at = follows.then(|| Io::now() + if has_paths { Span::ZERO } else { LOOK_INTERVAL });
            state.wake_driver();
        }
        State::wake(state);
        is_set
    }

    /// Moves the connection to another local address and port, which the system chooses by its routing table, and returns
    /// them. The connection continues from there within two round trips; until then, writes wait. A client does this by
    /// itself when its local address is gone. If there is no route to the server's address any more, but one to its
    /// address of the other family ([`TcpSocket::set_server_addrs`](crate::TcpSocket::set_server_addrs)), the
    /// connection moves there.
    ///
    /// # Errors
    /// Fails with `Unsupported` unless this is the client's end of a connection of `longhaul-tls` with a socket of its own,
    /// the peer supports moves, and the system is Linux. Fails with `WouldBlock` if the connection has moved within the last
    /// 100 ms or is over, and with the system's error if there is no route.
    pub fn relocate(&self) -> io::Result<SocketAddr> {
        self.relocate_if(|state, current| {
            let other = || state.roaming.as_ref().and_then(|roaming| roaming.route().ok());
            Some(current).filter(|peer| route_to(*peer).is_ok()).or_else(|| other().map(|[_, peer]| peer))
        })
    }

    /// Moves the connection like [`relocate`](Self::relocate), and to another address of the same server, which may be of
    /// the other family. There, the server needs a socket of the same listener, for instance one bound to `[::]`. If
    /// another program has this address, the connection may be reset.
    ///
    /// # Errors
    /// The errors of [`relocate`](Self::relocate).
    pub fn relocate_to(&self, server: SocketAddr) -> io::Result<SocketAddr> {
        self.relocate_if(|_, _| Some(canonical(server)))
    }

    /// Moves the connection to the server's address that `choose` returns for the current one.
    fn relocate_if(&self, choose: impl FnOnce(&State, SocketAddr) -> Option<SocketAddr>) -> io::Result<SocketAddr> {
        let shared = &self.handle.shared;
        let (mut state, now) = (shared.lock_alive()?, Io::now());
        let current = state.client.ok_or_else(cannot_move)?;
        let peer = choose(&state, current).unwrap_or(current);
        let local = state.relocate(shared, now, peer);
        shared.settle(state, now);
        local
    }
}

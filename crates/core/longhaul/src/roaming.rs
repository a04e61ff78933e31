//! Clients whose local address changes: their connections move (`docs/wire.md`, "Move").

use std::io;
use std::net::{SocketAddr, UdpSocket};

use longhaul_tcp::{ConnId, Mobility};
use longhaul_units::{Span, Time};

use crate::connect::{reach, unspecified};
use crate::io::{Io, canonical};
use crate::shared::{Shared, State};
use crate::stream::TcpStream;

/// Interval between two looks at the routing table, and the one while there is no route.
const LOOK_INTERVAL: Span = Span::from_secs(2);
const RETRY_INTERVAL: Span = Span::from_millis(250);

/// What a socket knows of the moves of its only connection, as a client.
#[derive(Debug)]
pub(crate) struct Roaming {
    connection: ConnId,
    /// The current local address.
    pub(crate) local: SocketAddr,
    /// When to look at the routing table; `None` if the application has chosen the address.
    pub(crate) look_at: Option<Time>,
    /// Whether the path may have ended.
    is_doubtful: bool,
}

impl State {
    /// Looks at the routing table at `at` or earlier, because the path may have ended.
    pub(crate) fn look_soon(&mut self, at: Time) {
        if let Some(roaming) = &mut self.roaming {
            roaming.look_at = roaming.look_at.map(|planned| planned.min(at));
            roaming.is_doubtful = true;
        }
    }

    /// Moves the connection of a client if the routing table has another local address for it by now, and the former one
    /// is gone or its path may have ended.
    pub(crate) fn follow_route(&mut self, shared: &Shared, now: Time) {
        let (Some(roaming), Some(client)) = (&mut self.roaming, self.client) else { return };
        if roaming.look_at.is_none_or(|at| at > now) {
            return;
        }
        if self.endpoint.connection(roaming.connection).is_none() {
            self.roaming = None;
            return;
        }
        let route = route_to(client.remote);
        let is_doubtful = std::mem::take(&mut roaming.is_doubtful);
        let is_gone = || UdpSocket::bind((roaming.local.ip(), 0)).is_err();
        let moves = route.as_ref().is_ok_and(|local| local.ip() != roaming.local.ip()) && (is_doubtful || is_gone());
        roaming.look_at = Some(now + if route.is_ok() { LOOK_INTERVAL } else { RETRY_INTERVAL });
        if moves && self.relocate(shared, now).is_err() {
            self.look_soon(now + RETRY_INTERVAL);
        }
    }

    fn relocate(&mut self, shared: &Shared, now: Time) -> io::Result<SocketAddr> {
        let (Some(roaming), Some(tuple)) = (&mut self.roaming, self.client) else {
            let text =
                "only an encrypted connection with a socket of its own can move, and only if the peer supports it";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        route_to(tuple.remote)?;
        if !self.endpoint.relocate(now, roaming.connection, tuple) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "the connection is over or has moved just now"));
        }
        // A batch that the socket has not accepted is of the former path.
        self.stuck = None;
        shared.io.reconnect(tuple.remote)?;
        let local = shared.io.options().local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        roaming.local = canonical(local);
        Ok(roaming.local)
    }
}

/// Returns the local address from which the routing table reaches a peer.
fn route_to(peer: SocketAddr) -> io::Result<SocketAddr> {
    reach(&UdpSocket::bind(unspecified(peer))?, peer).map(|[local, _]| local)
}

impl TcpStream {
    /// Lets the connection continue on other paths. Both ends must do this with the same keys, once nothing is sent any
    /// more that an attacker without these keys could have written. Returns whether the connection is open.
    #[doc(hidden)]
    pub fn set_mobility(&self, mobility: Mobility) -> bool {
        let (mut state, id) = (self.handle.shared.lock(), self.handle.id);
        let is_client = mobility.is_client;
        let is_set = state.endpoint.set_mobility(id, mobility);
        if is_set && is_client && state.client.is_some() && self.handle.shared.io.reconnects() {
            let local = self.handle.local;
            let follows = route_to(self.handle.peer).is_ok_and(|route| route.ip() == local.ip());
            let look_at = follows.then(|| Io::now() + LOOK_INTERVAL);
            state.roaming = Some(Box::new(Roaming { connection: id, local, look_at, is_doubtful: false }));
            state.wake_driver();
        }
        State::wake(state);
        is_set
    }

    /// Moves the connection to another local address and port, which the system chooses by its routing table, and returns
    /// them. The connection continues from there within two round trips; until then, writes wait. A client does this by
    /// itself when its local address is gone.
    ///
    /// # Errors
    /// Fails with `Unsupported` unless this is the client's end of a connection of `longhaul-tls` with a socket of its own,
    /// the peer supports moves, and the system is Linux. Fails with `WouldBlock` if the connection has moved within the last
    /// 100 ms or is over, and with the system's error if there is no route.
    pub fn relocate(&self) -> io::Result<SocketAddr> {
        let shared = &self.handle.shared;
        let (mut state, now) = (shared.lock_alive()?, Io::now());
        let local = state.relocate(shared, now);
        shared.settle(state, now);
        local
    }
}

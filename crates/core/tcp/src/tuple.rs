//! Pair of addresses that identifies a connection.

use std::net::{IpAddr, SocketAddr};

/// Addresses that identify a connection of an endpoint: the peer's address and our own (unspecified if the socket has
/// only one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// UDP address of the peer.
    pub remote: SocketAddr,
    /// Our address, as in the peer's datagrams.
    pub local: IpAddr,
}

impl Tuple {
    /// Returns whether both ends are valid addresses of hosts (RFC 9293, section 3.9.2.3): the port is not 0, and the
    /// addresses are neither unspecified nor multicast nor broadcast.
    #[must_use]
    pub fn joins_two_hosts(&self) -> bool {
        let everybody = |ip: IpAddr| ip.is_multicast() || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        let remote = self.remote.ip();
        self.remote.port() != 0 && !remote.is_unspecified() && !everybody(remote) && !everybody(self.local)
    }

    /// Returns whether the path is IPv6.
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        matches!(self.remote, SocketAddr::V6(_))
    }
}

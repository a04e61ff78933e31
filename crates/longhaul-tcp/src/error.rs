//! Why a connection ended, and what the host says of its path.

/// The end of a connection that did not end in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer answered our SYN by a RST, or its host says that nobody listens.
    #[error("connection refused")]
    Refused,
    /// Our own SYN came back: what answers is no TCP over UDP but a service that echoes datagrams.
    #[error("connection refused: the peer echoes our own datagrams and speaks no TCP over UDP")]
    Echoed,
    /// The host or the network cannot be reached, as the host said twice: of two SYNs.
    #[error("{0}")]
    Unreachable(HostError),
    /// Nobody listens on the peer's port any more, as its host said of several segments while nothing else came.
    #[error("connection reset: the peer's host says that its port is closed")]
    Gone,
    /// The peer sent a RST.
    #[error("connection reset by peer")]
    Reset,
    /// The peer did not answer within the user timeout, or to any retransmission.
    #[error("connection timed out")]
    TimedOut,
    /// The application gave the connection up.
    #[error("connection aborted")]
    Aborted,
    /// The congestion controller needs something that peer or path do not offer: named by `need`.
    #[error("the congestion controller needs {need}, which this path or peer does not offer")]
    NeedNotGranted {
        /// What it needs.
        need: &'static str,
    },
}

/// What the host says of the way to the peer: an ICMP message that its socket was told of, or its own routing.
///
/// A single report ends no connection: what it says may pass (RFC 1122, section 4.2.3.9; RFC 5461, section 2.2), and anybody
/// on the path, or who guesses the ports, can forge it (RFC 5927, section 4). It is remembered as the likely cause should
/// the connection time out. [`Connection::handle_host_error`](crate::Connection::handle_host_error) says which reports are
/// believed once they are confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Nobody listens on the port (ICMP destination unreachable, code 3).
    #[error("connection refused")]
    Refused,
    /// The host cannot be reached, or the packet's time to live was over on the way.
    #[error("host unreachable")]
    HostUnreachable,
    /// There is no route.
    #[error("network unreachable")]
    NetworkUnreachable,
    /// The interface is down.
    #[error("network down")]
    NetworkDown,
    /// A filter of this host does not let it pass.
    #[error("prohibited")]
    Prohibited,
    /// Something else that may pass.
    #[error("sending failed for a passing reason")]
    Other,
}

impl HostError {
    /// A short name for logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::HostUnreachable => "host-unreachable",
            Self::NetworkUnreachable => "network-unreachable",
            Self::NetworkDown => "network-down",
            Self::Prohibited => "prohibited",
            Self::Other => "other",
        }
    }
}

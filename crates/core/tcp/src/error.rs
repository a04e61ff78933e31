//! Connection errors and host errors.

/// Reason why a connection ended other than by an orderly close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer answered the SYN with a RST, or its host reports that the port is closed.
    #[error("connection refused")]
    Refused,
    /// The SYN itself came back: the remote service echoes datagrams and does not speak TCP over UDP.
    #[error("connection refused: the remote service echoes datagrams and does not speak TCP over UDP")]
    Echoed,
    /// The host or the network is unreachable, as reported for two SYNs.
    #[error("{0}")]
    Unreachable(HostError),
    /// The peer's port is closed, as its host reported for several segments while nothing else arrived.
    #[error("connection reset: the peer's host reports that the port is closed")]
    Gone,
    /// The peer sent a RST.
    #[error("connection reset by peer")]
    Reset,
    /// The peer did not answer within the user timeout, or did not answer any retransmission.
    #[error("connection timed out")]
    TimedOut,
    /// The application aborted the connection.
    #[error("connection aborted")]
    Aborted,
    /// The congestion controller needs a feature that the peer or the path does not offer.
    #[error("the congestion controller needs {need}, which this path or peer does not offer")]
    #[non_exhaustive]
    NeedNotGranted {
        /// The missing feature.
        need: &'static str,
    },
}

/// Error that the host reports about the path to the peer: an ICMP message delivered to the socket, or an error of
/// the local routing.
///
/// A single report does not close a connection: the condition may be temporary (RFC 1122, section 4.2.3.9; RFC
/// 5461, section 2.2), and an attacker on the path, or one who guesses the ports, can forge the message (RFC 5927,
/// section 4). The last report is kept as the probable cause in case the connection times out. Two consecutive reports
/// that the peer cannot be reached end an attempt to connect. Later, reports that the port is closed end the connection if
/// three probes in succession are refused and nothing arrives from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The port is closed (ICMP destination unreachable, code 3).
    #[error("connection refused")]
    Refused,
    /// The host is unreachable, or the TTL of a packet expired on the path.
    #[error("host unreachable")]
    HostUnreachable,
    /// The network is unreachable: there is no route.
    #[error("network unreachable")]
    NetworkUnreachable,
    /// The interface is down.
    #[error("network down")]
    NetworkDown,
    /// A filter of the local host dropped the packet. This may be temporary, as while its rules are reloaded.
    #[error("sending prohibited by a local filter")]
    Prohibited,
    /// Another temporary error.
    #[error("temporary send error")]
    Other,
}

impl HostError {
    /// Returns whether the error says that the peer cannot be reached, not that the local host did not send.
    pub(crate) const fn is_about_path(self) -> bool {
        !matches!(self, Self::Prohibited | Self::Other)
    }

    /// Returns a short name for logs.
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

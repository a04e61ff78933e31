//! Why a connection ended.

/// The end of a connection that did not end in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer answered our SYN by a RST, or its host says that nobody listens.
    #[error("connection refused")]
    Refused,
    /// The peer sent a RST.
    #[error("connection reset by peer")]
    Reset,
    /// The peer did not answer within the user timeout, or to any retransmission.
    #[error("connection timed out")]
    TimedOut,
    /// The application gave the connection up.
    #[error("connection aborted")]
    Aborted,
    /// No route to the peer, as the local host says.
    #[error("host unreachable")]
    Unreachable,
    /// The congestion controller needs something that peer or path do not offer: named by `need`.
    #[error("the congestion controller needs {need}, which this path or peer does not offer")]
    NeedNotGranted {
        /// What it needs.
        need: &'static str,
    },
}

//! The path's properties that a controller can read.

use longhaul_units::{Bytes, Span};

/// The transport's view of the path at the time of a call. Every RTT is `None` until the first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Path {
    /// Payload bytes of a full-sized segment (SMSS, RFC 5681): the peer's MSS and the path MTU less the options in
    /// use.
    pub mss: Bytes,
    /// Smoothed RTT (RFC 6298).
    pub srtt: Option<Span>,
    /// RTT variation (RFC 6298).
    pub rttvar: Span,
    /// The newest RTT sample.
    pub latest_rtt: Option<Span>,
    /// The smallest RTT of the connection.
    pub min_rtt: Option<Span>,
    /// The RTT of the handshake, if neither SYN nor SYN-ACK was retransmitted.
    pub handshake_rtt: Option<Span>,
    /// The peer's receive window in bytes.
    pub peer_window: Bytes,
    /// Application bytes that are queued but not yet sent.
    pub queued: Bytes,
    /// Whether a SYN or SYN-ACK of this connection was retransmitted more than once (RFC 6928, section 2).
    pub handshake_lossy: bool,
    /// Whether the transport paces.
    pub paced: bool,
    /// Whether acknowledgments are selective (RFC 2018). If not, only duplicate ACKs reveal losses.
    pub sack: bool,
}

impl Path {
    /// Creates a path of which only the segment size is known, for a transport that paces and has SACK.
    #[must_use]
    pub fn new(mss: Bytes) -> Self {
        Self { mss, peer_window: Bytes::MAX, paced: true, sack: true, ..Self::default() }
    }
}

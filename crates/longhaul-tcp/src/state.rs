//! The eleven states of RFC 9293, section 3.3.2, and the edges between them.

/// A connection's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// No connection.
    Closed,
    /// Waiting for a SYN; of a listener, and of a passive open that a RST sent back.
    Listen,
    /// A SYN was sent, its acknowledgement awaited.
    SynSent,
    /// Both SYNs seen, ours not yet acknowledged.
    SynReceived,
    /// Open both ways.
    Established,
    /// Our FIN is sent and not acknowledged; the peer may still send.
    FinWait1,
    /// Our FIN is acknowledged; the peer may still send.
    FinWait2,
    /// The peer's FIN came; we may still send.
    CloseWait,
    /// Both FINs sent, ours not acknowledged, the peer's came before ours was.
    Closing,
    /// The peer's FIN came first, ours is sent and not acknowledged.
    LastAck,
    /// Both acknowledged: waiting for stray segments to die.
    TimeWait,
}

impl State {
    /// Every state, in the order of RFC 9293.
    pub const ALL: [Self; 11] = [
        Self::Closed,
        Self::Listen,
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
        Self::Closing,
        Self::LastAck,
        Self::TimeWait,
    ];

    /// The name as RFC 9293 writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
        }
    }

    /// Whether both sides agree on sequence numbers (RFC 9293, section 3.5.1: ESTABLISHED and later).
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }

    /// Whether the application may still queue data.
    #[must_use]
    pub const fn can_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Whether the peer may still send data.
    #[must_use]
    pub const fn can_receive(self) -> bool {
        matches!(self, Self::SynReceived | Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether RFC 9293, section 3.3.2, figure 5 has an edge from `self` to `next`. Every state has one to CLOSED
    /// (abort, reset or timeout).
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        use State::{
            CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, Listen, SynReceived, SynSent,
            TimeWait,
        };
        matches!(
            (self, next),
            (_, Closed)
                | (Closed | Listen, SynSent | Listen)
                | (Listen | SynSent, SynReceived)
                | (SynSent, Established)
                | (SynReceived, Established | FinWait1 | Listen | CloseWait)
                | (Established, FinWait1 | CloseWait)
                | (FinWait1, FinWait2 | Closing | TimeWait)
                | (FinWait2 | Closing, TimeWait)
                | (CloseWait, LastAck)
                | (TimeWait, SynReceived)
        )
    }
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

//! Connection states of RFC 9293, section 3.3.2, and the transitions between them.

use longhaul_units::named;

named! {
    /// State of a connection. The names are those of RFC 9293.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum State, ALL {
        /// No connection.
        Closed = "CLOSED",
        /// Waiting for a SYN: a listener, or a passive open that received a RST.
        Listen = "LISTEN",
        /// The SYN was sent, and its acknowledgment is awaited.
        SynSent = "SYN-SENT",
        /// Both SYNs were exchanged; ours is not acknowledged yet.
        SynReceived = "SYN-RECEIVED",
        /// The connection is open in both directions.
        Established = "ESTABLISHED",
        /// Our FIN was sent and is not acknowledged; the peer may still send.
        FinWait1 = "FIN-WAIT-1",
        /// Our FIN is acknowledged; the peer may still send.
        FinWait2 = "FIN-WAIT-2",
        /// The peer's FIN arrived; we may still send.
        CloseWait = "CLOSE-WAIT",
        /// Both FINs were sent; the peer's arrived before ours was acknowledged.
        Closing = "CLOSING",
        /// The peer's FIN arrived first; ours was sent and is not acknowledged.
        LastAck = "LAST-ACK",
        /// Both FINs are acknowledged; the state waits until delayed segments have left the network.
        TimeWait = "TIME-WAIT",
    }
}

impl State {
    /// Returns whether the state is synchronized (RFC 9293, section 3.5.1: ESTABLISHED and later).
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::Listen | Self::SynSent | Self::SynReceived)
    }

    /// Returns whether the application may still queue data.
    #[must_use]
    pub const fn can_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Returns whether the peer may still send data.
    #[must_use]
    pub const fn can_receive(self) -> bool {
        matches!(self, Self::SynReceived | Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Returns whether `self` has a transition to `next` in RFC 9293, section 3.3.2, figure 5. Every state has one
    /// to CLOSED (abort, reset or timeout).
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

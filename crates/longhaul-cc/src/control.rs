//! What a controller answers: one `Copy` struct, the whole of it.

use longhaul_units::{Bytes, Rate, Span};

/// A controller's whole answer. The transport reads it after every call; nothing else reaches the transport.
///
/// It is what tests snapshot and what the qlog records.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Control {
    /// Bound on bytes in flight, retransmissions included (RFC 9937's `inflight`, RFC 6675's pipe). At least one
    /// segment; the transport applies the peer's window and configured ceilings afterwards.
    pub cwnd: Bytes,
    /// How fast to release what the window allows; `None` leaves the choice to the transport's default,
    /// 2 cwnd/SRTT before the first congestion event and 1.2 cwnd/SRTT after it.
    pub pace: Option<Pace>,
    /// Probes to send beside the window, if the transport granted them.
    pub probe: Option<ProbePlan>,
    /// The codepoint that data segments carry.
    pub ecn: EcnMark,
    /// The header that routers read and write, if the transport granted one.
    pub header: Option<NetworkHeader>,
    /// Stamped on every segment sent from now on and handed back in [`AckedSegment`](crate::AckedSegment): how a
    /// stage knows its own segments again.
    pub tag: u16,
    /// The DiffServ codepoint that data segments carry; zero leaves the choice to the application.
    pub dscp: u8,
}

impl Control {
    /// The plain answer of a window-based controller: a window, nothing else.
    #[must_use]
    pub const fn window(cwnd: Bytes) -> Self {
        Self { cwnd, pace: None, probe: None, ecn: EcnMark::NotEct, header: None, tag: 0, dscp: 0 }
    }
}

/// A pacing rate and how much may leave at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Payload bytes a second: headers are not counted.
    pub rate: Rate,
    /// The largest burst; `None` lets the transport choose clamp(rate x 250 us, 2 MSS, 64 KiB).
    pub quantum: Option<Bytes>,
}

/// The ECN codepoint of outgoing data segments (RFC 3168, section 5).
///
/// The order is that of strength: a transport that may use a codepoint may use the lesser ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EcnMark {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(0): classic ECN.
    Ect0,
    /// ECT(1): L4S (RFC 9331).
    Ect1,
}

/// What a probe carries (TCP-Peach's dummy, Peach+'s NIL, TCP-Swift's outstanding segments).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A copy of the last segment sent.
    Dummy,
    /// A copy of a segment that is not yet acknowledged, chosen at random.
    Outstanding,
    /// A copy of the highest segment not yet acknowledged that was not copied under this plan, from the last one down.
    Backwards,
}

/// Probes that a controller wants sent at low priority, from a budget apart from the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// The kinds acceptable, best first; `None` entries are skipped.
    pub prefer: [Option<ProbeKind>; 3],
    /// How many segments in total since this plan's `id` changed.
    pub segments: u32,
    /// The gap between two probes.
    pub gap: Span,
    /// DiffServ codepoint of the probes; 1 is LE (RFC 8622).
    pub dscp: u8,
    /// A new number starts a new budget.
    pub id: u32,
}

/// What a controller writes into the network-feedback option for routers on the path.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum NetworkHeader {
    /// Quick-Start rate request (RFC 4782, section 3.1).
    QuickStart {
        /// The rate asked for. The transport draws the nonce, and checks it.
        rate: Rate,
    },
    /// RCP: the rate wanted and the sender's RTT.
    Rcp {
        /// The rate wanted.
        rate: Rate,
        /// The RTT estimate that routers average.
        rtt: Span,
    },
    /// XCP: throughput, RTT and the change wanted.
    Xcp {
        /// The current throughput.
        throughput: Rate,
        /// The current RTT.
        rtt: Span,
        /// The change of throughput wanted, bytes a second.
        delta: i64,
    },
}

/// Values for logs and displays only: nothing may decide by them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// The stage the controller is in, such as `slow-start`, `css`, `congestion-avoidance`, `recovery`.
    pub phase: &'static str,
    /// The slow-start threshold; [`Bytes::MAX`] while there is none, `None` for controllers without one.
    pub ssthresh: Option<Bytes>,
    /// The controller's own bandwidth estimate, if it has one.
    pub bandwidth: Option<Rate>,
}

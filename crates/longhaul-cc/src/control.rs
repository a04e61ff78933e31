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
    /// The slow-start threshold ([`Bytes::MAX`] before the first congestion event), if the controller has one. Below it the transport's default pace has the gain 2, and
    /// later connections to the same host may start with it (RFC 9040).
    pub ssthresh: Option<Bytes>,
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
    /// Full-sized segments for which the peer is asked to send one ACK, if it was granted; zero asks for nothing. Takes precedence
    /// over [`Demands::ack_cadence`](crate::Demands::ack_cadence).
    pub ack_ratio: u8,
}

impl Control {
    /// The plain answer of a window-based controller: a window, nothing else.
    #[must_use]
    pub const fn window(cwnd: Bytes) -> Self {
        Self {
            cwnd,
            pace: None,
            ssthresh: None,
            probe: None,
            ecn: EcnMark::NotEct,
            header: None,
            tag: 0,
            dscp: 0,
            ack_ratio: 0,
        }
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
    /// New data: what waits to be sent, from its end backwards, each octet once, until what the window sends has come up to it
    /// (RC3). A plan that prefers it to something sends nothing else; what arrives is told by
    /// [`PathEvent::Ahead`](crate::PathEvent::Ahead), and not by [`Ack::probe`](crate::Ack::probe).
    FromTail(Levels),
}

/// The priorities of what leaves from the tail (Mittal et al., NSDI 2014, section 3.1): ten times `slots` segments at the end have the first,
/// ten times as many before them the second, and so on; the last takes all that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// A tenth of the segments that have the first level; at least one.
    pub slots: u32,
    /// How many levels there are, 1 to 4.
    pub count: u8,
}

impl Levels {
    /// The level of the `n`th segment from the end, counted from 1: the least p with n <= 10 slots (10^p - 1) / 9, which is
    /// ceil(log10(9 n / (10 slots) + 1)).
    #[must_use]
    pub const fn of(self, n: u64) -> u8 {
        let (mut level, mut here) = (1, self.slots as u64 * 10);
        let mut last = here;
        while n > last && level < self.count {
            here = here.saturating_mul(10);
            last = last.saturating_add(here);
            level += 1;
        }
        level
    }
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

/// Between the DiffServ codepoints of two levels: codepoints that end in 01 are of one pool (RFC 2474, section 6), and 1, LE, is one of
/// them.
const POOL_STEP: u8 = 4;
/// A codepoint has six bits.
const MAX_DSCP: u8 = 63;

impl ProbePlan {
    /// The levels of a plan of [new data from the tail](ProbeKind::FromTail); `None` for one of copies.
    #[must_use]
    pub fn from_tail(&self) -> Option<Levels> {
        self.prefer.into_iter().flatten().find_map(|kind| match kind {
            ProbeKind::FromTail(levels) => Some(levels),
            _ => None,
        })
    }

    /// The codepoint of `level`, from 1: that of the plan, then 4, 8 and 12 more.
    #[must_use]
    pub const fn dscp_of(&self, level: u8) -> u8 {
        let dscp = self.dscp.saturating_add(level.saturating_sub(1).saturating_mul(POOL_STEP));
        if dscp > MAX_DSCP { MAX_DSCP } else { dscp }
    }
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
    /// The controller's own bandwidth estimate, if it has one.
    pub bandwidth: Option<Rate>,
}

/// What became of a start-up scheme (Jump-Start, Swift Start, ...) at the beginning of a connection. For logs and displays only, as
/// [`Snapshot`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Startup {
    /// There is none: slow start, or a controller with a start of its own.
    #[default]
    Absent,
    /// It is not decided yet.
    Running,
    /// It set the window, the threshold or the pace.
    Used,
    /// It did nothing, for this reason: the connection started as it would have without it.
    GivenUp(&'static str),
}

/// Something that a controller has estimated of its path. For logs and displays only, as [`Snapshot`] is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// What: in kebab-case, as the paper has it where it has a name: `be`, `re`, `level`, `start-gap`.
    pub name: &'static str,
    /// How much.
    pub value: Quantity,
}

/// How much, and of what kind.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Quantity {
    /// A rate of payload.
    Rate(Rate),
    /// A window.
    Bytes(Bytes),
    /// A time.
    Span(Span),
    /// A share, 0 to 1, or a plain number.
    Number(f64),
}

impl Estimate {
    /// A rate in payload bytes a second; nothing if it is not positive, as before the first sample.
    pub(crate) fn rate(name: &'static str, bytes_per_sec: f64) -> Option<Self> {
        (bytes_per_sec >= 1.0)
            .then(|| Self { name, value: Quantity::Rate(Rate::from_bytes_per_sec(bytes_per_sec as u64)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published equation, with its four slots and with others.
    #[test]
    fn levels_follow_the_equation() {
        for slots in [1, 2, 4, 7] {
            let levels = Levels { slots, count: 4 };
            for n in 1..100_000_u64 {
                let p = (9.0 * n as f64 / (10.0 * f64::from(slots)) + 1.0).log10();
                // Where the logarithm is whole, rounding must not decide.
                let p = if (p - p.round()).abs() < 1e-9 { p.round() } else { p.ceil() };
                assert_eq!(f64::from(levels.of(n)), p.min(4.0), "segment {n}, {slots} slots");
            }
        }
        let published = Levels { slots: 4, count: 4 };
        let ends = [40, 41, 440, 441, 4440, 4441, 40_000_000].map(|n| published.of(n));
        assert_eq!(ends, [1, 2, 2, 3, 3, 4, 4]);
        assert_eq!([1, 41, u64::MAX].map(|n| Levels { slots: 4, count: 1 }.of(n)), [1; 3]);
    }

    #[test]
    fn levels_have_codepoints_of_one_pool() {
        let kind = ProbeKind::FromTail(Levels { slots: 4, count: 4 });
        let plan = ProbePlan { prefer: [None, Some(kind), None], segments: 1, gap: Span::ZERO, dscp: 1, id: 0 };
        assert_eq!(plan.from_tail(), Some(Levels { slots: 4, count: 4 }));
        assert_eq!([1, 2, 3, 4].map(|level| plan.dscp_of(level)), [1, 5, 9, 13]);
        assert_eq!(ProbePlan { dscp: 60, ..plan }.dscp_of(4), 63);
        assert_eq!(ProbePlan { prefer: [Some(ProbeKind::Dummy), None, None], ..plan }.from_tail(), None);
    }
}

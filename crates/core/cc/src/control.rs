//! The decisions of a controller, in one `Copy` struct.

use core::fmt;

use longhaul_units::{Bytes, Rate, Span};

/// The complete decisions of a controller, which the transport reads after every call.
///
/// Tests compare it, and the qlog records it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Control {
    /// Limit of the bytes in flight, retransmissions included (RFC 9937's `inflight`, RFC 6675's pipe); at least one
    /// segment. The transport also applies the peer's window and configured ceilings.
    pub cwnd: Bytes,
    /// Rate and burst at which data within the window is sent. With `None`, the transport uses its default, 2
    /// cwnd/SRTT before the first congestion event and 1.2 cwnd/SRTT after it.
    pub pace: Option<Pace>,
    /// The slow-start threshold ([`Bytes::MAX`] before the first congestion event), if the controller has one. Below
    /// it, the gain of the transport's default pace is 2. Later connections to the same host may start with it (RFC
    /// 9040).
    pub ssthresh: Option<Bytes>,
    /// Probes to send in addition to the window, if the transport granted them.
    pub probe: Option<ProbePlan>,
    /// The ECN codepoint of data segments.
    pub ecn: EcnMark,
    /// The header that routers read and write, if the transport granted one.
    pub header: Option<NetworkHeader>,
    /// Tag of every segment sent from this point on, which [`AckedSegment`](crate::AckedSegment) returns, so that a
    /// stage recognises its own segments.
    pub tag: u16,
    /// The DiffServ codepoint of data segments; zero leaves the choice to the application.
    pub dscp: u8,
    /// Number of full-sized segments per ACK requested from the peer, if this was granted; zero sends no request. Takes
    /// precedence over [`Demands::ack_frequency`](crate::Demands::ack_frequency).
    pub ack_ratio: u8,
    /// Whether [`Ack::acked`](crate::Ack::acked) has to list every delivered segment, if that was granted. Otherwise it
    /// lists only segments with an arrival time, and ACKs cost less.
    pub each_segment: bool,
}

impl Control {
    /// The decisions of a window-based controller that sets nothing but its window.
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
            each_segment: true,
        }
    }
}

/// A pacing rate and burst size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pace {
    /// Payload bytes per second; headers are not counted.
    pub rate: Rate,
    /// The largest burst; `None` lets the transport choose clamp(rate x 250 us, 2 MSS, 64 KiB), and up to 256 KiB on paths
    /// with an RTT below 0.5 ms.
    pub quantum: Option<Bytes>,
}

impl Pace {
    /// A pace of `rate`, whose burst size the transport chooses.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, quantum: None }
    }
}

/// The ECN codepoint of outgoing data segments (RFC 3168, section 5).
///
/// Ordered by strength: a transport that may use a codepoint may also use the weaker ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(clippy::exhaustive_enums, reason = "the codepoints that a sender may set; RFC 3168 leaves no other")]
pub enum EcnMark {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(0): classic ECN.
    Ect0,
    /// ECT(1): L4S (RFC 9331).
    Ect1,
}

/// The data that a probe carries (TCP-Peach's dummy segments, Peach+'s NIL segments, TCP-Swift's outstanding
/// segments).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeKind {
    /// A copy of the last segment sent.
    Dummy,
    /// A copy of an unacknowledged segment, chosen at random.
    Outstanding,
    /// A copy of the highest unacknowledged segment that has not been copied under this plan: segments are copied in
    /// descending order.
    Backwards,
    /// Unsent data of the send buffer, from its end backwards and each octet once, until the data sent within the
    /// window reaches it (RC3). A plan with this kind sends no probes of other kinds. Arrivals are reported by
    /// [`PathEvent::Ahead`](crate::PathEvent::Ahead), not by [`Ack::probes_acked`](crate::Ack::probes_acked).
    FromTail(Levels),
}

/// Priority levels of the RC3 low-priority loop (Mittal et al., NSDI 2014, section 3.1): the last 10 `slots` segments
/// of the send buffer have the first level, ten times as many segments before them have the second, and so on. The last
/// level has all the remaining segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Levels {
    /// A tenth of the number of segments at the first level; at least 1.
    pub slots: u32,
    /// Number of levels, 1 to 4.
    pub count: u8,
}

impl Levels {
    /// `count` levels, the first of which has 10 `slots` segments.
    #[must_use]
    pub const fn new(slots: u32, count: u8) -> Self {
        Self { slots, count }
    }

    /// Returns the level of the `n`th segment from the end, counted from 1: the least p with n <= 10 slots (10^p - 1)
    /// / 9, which is ceil(log10(9 n / (10 slots) + 1)).
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

/// Probes to send at low priority, with a budget separate from the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbePlan {
    /// Acceptable kinds, best first; `None` entries are skipped.
    pub prefer: [Option<ProbeKind>; 3],
    /// Total number of segments to send under this `id`.
    pub segments: u32,
    /// Time between two probes.
    pub gap: Span,
    /// DiffServ codepoint of the probes; 1 is LE (RFC 8622).
    pub dscp: u8,
    /// A changed number starts a new budget.
    pub id: u32,
}

/// Distance between the DiffServ codepoints of two levels. All codepoints that end in 01 belong to the same pool as
/// 1, LE (RFC 2474, section 6).
const POOL_STEP: u8 = 4;
/// Maximum codepoint (six bits).
const MAX_DSCP: u8 = 63;

impl ProbePlan {
    /// A plan with the number `id`: `segments` probes of this `kind`, at once and with the codepoint LE.
    #[must_use]
    pub const fn new(id: u32, kind: ProbeKind, segments: u32) -> Self {
        Self { prefer: [Some(kind), None, None], segments, gap: Span::ZERO, dscp: 1, id }
    }

    /// Returns the levels of a plan for [unsent data](ProbeKind::FromTail), or `None` if all kinds are copies.
    #[must_use]
    pub fn from_tail(&self) -> Option<Levels> {
        self.prefer.into_iter().flatten().find_map(|kind| match kind {
            ProbeKind::FromTail(levels) => Some(levels),
            _ => None,
        })
    }

    /// Returns the codepoint of `level`, counted from 1: the plan's codepoint plus 0, 4, 8 or 12.
    #[must_use]
    pub const fn dscp_of(&self, level: u8) -> u8 {
        let dscp = self.dscp.saturating_add(level.saturating_sub(1).saturating_mul(POOL_STEP));
        if dscp > MAX_DSCP { MAX_DSCP } else { dscp }
    }
}

/// Request to routers on the path, sent in the network-feedback option.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum NetworkHeader {
    /// Quick-Start rate request (RFC 4782, section 3.1).
    QuickStart {
        /// The requested rate. The transport generates the nonce and checks it.
        rate: Rate,
    },
    /// RCP: the desired rate and the sender's RTT.
    Rcp {
        /// Rate that the sender wishes to reach.
        rate: Rate,
        /// The RTT estimate that routers average.
        rtt: Span,
    },
    /// XCP: throughput, RTT and the desired change.
    Xcp {
        /// Current throughput of the sender.
        throughput: Rate,
        /// The current RTT.
        rtt: Span,
        /// The desired change of throughput, bytes per second.
        delta: i64,
    },
}

/// Values for logs and displays only; no decision may depend on them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The controller's phase, such as `slow-start`, `css`, `congestion-avoidance`, `recovery`.
    pub phase: &'static str,
    /// The controller's own bandwidth estimate, if it has one.
    pub bandwidth: Option<Rate>,
    /// Outcome of the start-up scheme.
    pub startup: StartupOutcome,
    /// The controller's estimates so far.
    pub estimates: Estimates,
}

impl Snapshot {
    /// A snapshot in `phase`, without estimates and without a start-up scheme.
    #[must_use]
    pub const fn new(phase: &'static str) -> Self {
        Self { phase, bandwidth: None, startup: StartupOutcome::Absent, estimates: Estimates([None; Estimates::MOST]) }
    }
}

/// Outcome of a start-up scheme (Jump-Start, Swift Start, ...) at the beginning of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupOutcome {
    /// There is no start-up scheme: the connection begins with slow start, or the controller has its own start-up.
    #[default]
    Absent,
    /// The outcome is not known yet.
    Running,
    /// The scheme set the window, the threshold or the pace.
    Used,
    /// The scheme changed nothing, for this reason: the connection started as it would have without it.
    GivenUp(&'static str),
}

/// A value that a controller has estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// Name in kebab-case, the paper's if it has one: `be`, `re`, `level`, `start-gap`.
    pub name: &'static str,
    /// Value of the estimate.
    pub value: Quantity,
}

/// A value with its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Quantity {
    /// A rate, payload bytes only.
    Rate(Rate),
    /// Window in bytes.
    Bytes(Bytes),
    /// A duration.
    Span(Span),
    /// A fraction from 0 to 1, or another plain number.
    Number(f64),
}

/// The estimates of a controller, at most one of each name.
#[derive(Clone, Copy, PartialEq)]
pub struct Estimates([Option<Estimate>; Self::MOST]);

impl Estimates {
    /// Maximum number of estimates; further ones are omitted.
    const MOST: usize = 12;

    /// Adds an estimate, unless one with its name already exists.
    pub fn push(&mut self, estimate: Estimate) {
        if self.get(estimate.name).is_none()
            && let Some(free) = self.0.iter_mut().find(|free| free.is_none())
        {
            *free = Some(estimate);
        }
    }

    /// Returns the estimates in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Estimate> {
        self.0.iter().copied().flatten()
    }

    /// Returns the estimate with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.iter().find(|estimate| estimate.name == name).map(|estimate| estimate.value)
    }
}

impl fmt::Debug for Estimates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|estimate| (estimate.name, estimate.value))).finish()
    }
}

impl Estimate {
    /// An estimate with this `name`.
    #[must_use]
    pub const fn new(name: &'static str, value: Quantity) -> Self {
        Self { name, value }
    }

    /// Returns a rate in payload bytes per second, or `None` below 1 B/s, as before the first sample.
    #[must_use]
    pub fn rate(name: &'static str, bytes_per_sec: f64) -> Option<Self> {
        (bytes_per_sec >= 1.0)
            .then(|| Self { name, value: Quantity::Rate(Rate::from_bytes_per_sec(bytes_per_sec as u64)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the levels with the published equation, for its four slots and for other numbers.
    #[test]
    fn levels_follow_the_equation() {
        for slots in [1, 2, 4, 7] {
            let levels = Levels { slots, count: 4 };
            for n in 1..100_000_u64 {
                let p = (9.0 * n as f64 / (10.0 * f64::from(slots)) + 1.0).log10();
                // If the logarithm is an integer, the rounding error must not decide.
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

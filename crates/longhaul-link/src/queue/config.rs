//! What a queue is like.

use longhaul_units::Span;

use crate::packet::dscp;
use crate::stats::MAX_CLASSES;

/// How much may wait. What is being transmitted does not count, and an empty queue takes any packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// Everything.
    #[default]
    Infinite,
    /// So many packets.
    Packets(u64),
    /// So many bytes of IP packets.
    Bytes(u64),
}

impl Limit {
    /// Whether a packet of `size` bytes may join so many packets and bytes.
    #[must_use]
    #[inline]
    pub(crate) fn admits(self, packets: u64, bytes: u64, size: u32) -> bool {
        match self {
            Self::Infinite => true,
            Self::Packets(limit) => packets < limit,
            Self::Bytes(limit) => packets == 0 || bytes + u64::from(size) <= limit,
        }
    }
}

/// Which class each DiffServ codepoint belongs to: 0 is served first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes([u8; 64]);

impl Classes {
    /// Less effort (DSCP 1, RFC 8622) behind everything else.
    #[must_use]
    pub const fn less_effort() -> Self {
        let mut levels = [0; 64];
        levels[dscp::LE as usize] = 1;
        Self(levels)
    }

    /// RC3's five priorities (Mittal et al., NSDI 2014, section 3.1) with the codepoints that `rc3(levels=4)` gives its segments: 1, 5, 9 and
    /// 13 one behind the other, and everything else before them.
    #[must_use]
    pub fn rc3() -> Self {
        Self::less_effort().with(5, 2).with(9, 3).with(13, 4)
    }

    /// The same with one codepoint in another class. Bits of `dscp` above six are dropped, classes above 7 are 7.
    #[must_use]
    pub fn with(mut self, dscp: u8, class: u8) -> Self {
        self.0[usize::from(dscp & 63)] = class.min(MAX_CLASSES as u8 - 1);
        self
    }

    /// The class of a codepoint.
    #[must_use]
    pub fn of(&self, dscp: u8) -> u8 {
        self.0[usize::from(dscp & 63)]
    }
}

impl Default for Classes {
    fn default() -> Self {
        Self::less_effort()
    }
}

/// When a packet of less effort is not let into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// When more than so many packets wait. TCP-Peach's routers had 1.
    Packets(u64),
    /// When the packet at the head has waited for longer than that.
    Sojourn(Span),
}

/// Controlled delay (RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelConfig {
    /// The sojourn time that may stand.
    pub target: Span,
    /// For how long it may be exceeded: about the largest RTT.
    pub interval: Span,
}

impl Default for CoDelConfig {
    /// 5 ms and 100 ms (RFC 8289, sections 4.2 and 4.3).
    fn default() -> Self {
        Self { target: Span::from_millis(5), interval: Span::from_millis(100) }
    }
}

/// Random early detection (Floyd and Jacobson 1993), gentle (Floyd 2000).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Average queue in packets from which packets are dropped or marked.
    pub min: f64,
    /// Average queue at which the probability is `max_p`; from there it rises to 1 at twice as much.
    pub max: f64,
    /// Probability at `max`.
    pub max_p: f64,
    /// Weight of a new sample in the average.
    pub weight: f64,
}

impl Default for RedConfig {
    /// 5 and 15 packets, 0.1, 0.002 (Floyd and Jacobson 1993; max_p as Floyd recommended in 1997).
    fn default() -> Self {
        Self { min: 5.0, max: 15.0, max_p: 0.1, weight: 0.002 }
    }
}

/// Proportional integral controller enhanced (RFC 8033).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieConfig {
    /// QDELAY_REF: the queueing delay aimed at.
    pub target: Span,
    /// T_UPDATE: how often the probability is calculated.
    pub update: Span,
    /// MAX_BURST: for so long a burst passes untouched.
    pub max_burst: Span,
    /// Weight of the distance from the target, in 1/s.
    pub alpha: f64,
    /// Weight of the trend, in 1/s.
    pub beta: f64,
    /// Up to this probability packets are marked if they can be, above it dropped.
    pub mark_below: f64,
}

impl Default for PieConfig {
    /// 15 ms, 15 ms, 150 ms, 1/8, 1 1/4 (RFC 8033, sections 4.2 and 4.4) and 0.1 (section 5.1).
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            update: Span::from_millis(15),
            max_burst: Span::from_millis(150),
            alpha: 0.125,
            beta: 1.25,
            mark_below: 0.1,
        }
    }
}

/// Dual queue coupled PI2 (RFC 9332, appendix A).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Config {
    /// The queueing delay aimed at in the Classic queue.
    pub target: Span,
    /// How often the probability is calculated.
    pub update: Span,
    /// Weight of the distance from the target, in 1/s.
    pub alpha: f64,
    /// Weight of the trend, in 1/s.
    pub beta: f64,
    /// k: the L4S probability is so many times the base probability.
    pub coupling: f64,
    /// Sojourn time in the L4S queue from which packets are marked.
    pub ramp_from: Span,
    /// How much longer it is when all are marked.
    pub ramp_range: Span,
    /// Share of the link that the Classic queue has at least while both wait.
    pub classic_share: f64,
}

impl Default for DualPi2Config {
    /// RFC 9332, figure 2, and the scheduler's weight of 1/16 from its section 4.2.2 and appendix A.2. 15 ms every
    /// 15 ms; with an RTT of at most 100 ms alpha = 0.1 * 15 ms / (100 ms)^2 and beta = 0.3 / 100 ms.
    fn default() -> Self {
        Self {
            target: Span::from_millis(15),
            update: Span::from_millis(15),
            alpha: 0.15,
            beta: 3.0,
            coupling: 2.0,
            ramp_from: Span::from_micros(800),
            ramp_range: Span::from_micros(400),
            classic_share: 1.0 / 16.0,
        }
    }
}

/// Who goes first, and who is dropped.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Discipline {
    /// First in, first out; what does not fit is dropped.
    DropTail {
        /// ECN-capable packets that find more bytes waiting than that are marked.
        mark_above: Option<u64>,
    },
    /// First in, first out; when a packet does not fit, the oldest make room.
    DropHead,
    /// Strict priority; when a packet does not fit, the newest of the lowest class below its own make room.
    Priority(Classes),
    /// First in, first out; packets of less effort are let in only while the queue is short.
    Threshold(Threshold),
    /// CoDel.
    CoDel(CoDelConfig),
    /// RED.
    Red(RedConfig),
    /// PIE.
    Pie(PieConfig),
    /// DualPI2.
    DualPi2(DualPi2Config),
}

impl Default for Discipline {
    fn default() -> Self {
        Self::DropTail { mark_above: None }
    }
}

/// What a queue is like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueConfig {
    /// How much may wait.
    pub limit: Limit,
    /// Who goes first, and who is dropped.
    pub discipline: Discipline,
    /// Whether CoDel, RED and PIE mark packets that are ECN-capable instead of dropping them. DualPI2 always does.
    pub ecn: bool,
}

impl From<Limit> for QueueConfig {
    fn from(limit: Limit) -> Self {
        Self { limit, ..Self::default() }
    }
}

impl From<Discipline> for QueueConfig {
    fn from(discipline: Discipline) -> Self {
        Self { discipline, ..Self::default() }
    }
}

impl QueueConfig {
    /// The same with another limit.
    #[must_use]
    pub fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// The same with ECN.
    #[must_use]
    pub fn ecn(self) -> Self {
        Self { ecn: true, ..self }
    }
}

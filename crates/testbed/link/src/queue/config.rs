//! Configuration of a queue.

use longhaul_units::Span;

use crate::packet::dscp;
use crate::parameters::parameters;
use crate::stats::MAX_CLASSES;

/// Limit of a queue. The packet in transmission does not count, and an empty queue accepts a packet of any size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    #[default]
    Infinite,
    /// Maximum number of packets.
    Packets(u64),
    /// Maximum queue length in bytes, IP headers included.
    Bytes(u64),
}

impl Limit {
    #[inline]
    pub(crate) fn admits(self, packets: u64, bytes: u64, size: u32) -> bool {
        match self {
            Self::Infinite => true,
            Self::Packets(limit) => packets < limit,
            Self::Bytes(limit) => packets == 0 || bytes + u64::from(size) <= limit,
        }
    }
}

/// Class of each DiffServ codepoint. Class 0 is served first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes([u8; 64]);

impl Classes {
    /// Serves less-effort traffic (DSCP 1, RFC 8622) after everything else.
    pub const fn less_effort() -> Self {
        let mut levels = [0; 64];
        levels[dscp::LE as usize] = 1;
        Self(levels)
    }

    /// Returns RC3's five priorities (Mittal et al., NSDI 2014, section 3.1), with the codepoints that
    /// `rc3(levels=4)` assigns to its segments: codepoints 1, 5, 9 and 13 in descending priority, all after
    /// everything else.
    pub fn rc3() -> Self {
        Self::less_effort().with(5, 2).with(9, 3).with(13, 4)
    }

    /// Moves one codepoint to another class. The two highest bits of `dscp` are ignored, and classes above 7 become
    /// 7.
    #[must_use]
    pub fn with(mut self, dscp: u8, class: u8) -> Self {
        self.0[usize::from(dscp & 63)] = class.min(MAX_CLASSES as u8 - 1);
        self
    }

    /// Returns the class of a codepoint.
    pub fn of(&self, dscp: u8) -> u8 {
        self.0[usize::from(dscp & 63)]
    }
}

impl Default for Classes {
    fn default() -> Self {
        Self::less_effort()
    }
}

parameters! {
    /// Parameters of CoDel (RFC 8289, with the defaults of its sections 4.2 and 4.3).
    #[derive(Eq)]
    pub struct CoDelConfig {
        /// TARGET: the acceptable standing queueing delay.
        target: Span = Span::from_millis(5), positive("CoDel target");
        /// INTERVAL: how long the target may be exceeded, about the largest expected RTT.
        interval: Span = Span::from_millis(100), positive("CoDel interval");
    }
}

parameters! {
    /// Parameters of random early detection (Floyd and Jacobson 1993, with the defaults of that paper) with the gentle
    /// variant (Floyd 2000).
    pub struct RedConfig {
        /// Average queue in packets above which packets are dropped or marked.
        min: f64 = 5.0;
        /// Average queue in packets at which the probability is `max_p`; it rises to 1 at twice this value.
        max: f64 = 15.0;
        /// Drop or mark probability at `max`. The default is Floyd's recommendation of 1997.
        max_p: f64 = 0.1, share("maximum RED probability");
        /// Weight of a new sample in the moving average.
        weight: f64 = 0.002, share("RED weight");
    }
}

parameters! {
    /// Parameters of PIE (RFC 8033, with the defaults of its sections 4.2, 4.4 and 5.1).
    pub struct PieConfig {
        /// QDELAY_REF: the target queueing delay.
        target: Span = Span::from_millis(15), positive("PIE target");
        /// T_UPDATE: the interval between updates of the probability.
        update: Span = Span::from_millis(15), positive("PIE update interval");
        /// MAX_BURST: how long a burst passes without drops.
        max_burst: Span = Span::from_millis(150);
        /// Gain of the deviation from the target, in 1/s.
        alpha: f64 = 0.125, gain("PIE alpha");
        /// Gain of the change in delay, in 1/s.
        beta: f64 = 1.25, gain("PIE beta");
        /// Below this probability, ECN-capable packets are marked; otherwise they are dropped.
        mark_below: f64 = 0.1, share("PIE marking limit");
    }
}

parameters! {
    /// Parameters of DualPI2 (RFC 9332, appendix A, with the defaults of its figure 2). With a maximum RTT of 100 ms,
    /// alpha = 0.1 * 15 ms / (100 ms)^2 and beta = 0.3 / 100 ms.
    pub struct DualPi2Config {
        /// Target queueing delay of the Classic queue.
        target: Span = Span::from_millis(15), positive("DualPI2 target");
        /// Interval between updates of the probability.
        update: Span = Span::from_millis(15), positive("DualPI2 update interval");
        /// Gain of the deviation from the target, in 1/s.
        alpha: f64 = 0.15, gain("DualPI2 alpha");
        /// Gain of the change in delay, in 1/s.
        beta: f64 = 3.0, gain("DualPI2 beta");
        /// Coupling factor k: the ratio of the coupled L4S probability to the base probability.
        coupling: f64 = 2.0, gain("DualPI2 coupling factor");
        /// Sojourn time in the L4S queue above which the native ramp marks packets.
        ramp_from: Span = Span::from_micros(800);
        /// Range of the ramp: all packets are marked at `ramp_from` plus this time or above.
        ramp_range: Span = Span::from_micros(400);
        /// Minimum fraction of the link for the Classic queue while both queues are backlogged; the scheduler's weight
        /// of RFC 9332, section 4.2.2 and appendix A.2.
        classic_share: f64 = 1.0 / 16.0, share("share of the Classic queue");
    }
}

/// Queue discipline: which packet is sent next, and which are dropped.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Discipline {
    /// First in, first out; a packet that does not fit is dropped.
    DropTail {
        /// If set, ECN-capable packets are marked on arrival if more bytes than this are waiting.
        mark_above: Option<u64>,
    },
    /// First in, first out; if a packet does not fit, the oldest ones are dropped.
    DropHead,
    /// Strict priority; if a packet does not fit, the newest ones of the lowest class below its own are dropped.
    Priority(Classes),
    /// First in, first out; less-effort packets are refused while more than this number of packets are waiting. The
    /// routers of TCP-Peach used 1.
    Threshold(u64),
    /// Controlled delay (RFC 8289).
    CoDel(CoDelConfig),
    /// Random early detection.
    Red(RedConfig),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(PieConfig),
    /// Dual-queue coupled PI2 (RFC 9332).
    DualPi2(DualPi2Config),
}

impl Default for Discipline {
    fn default() -> Self {
        Self::DropTail { mark_above: None }
    }
}

/// Configuration of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueConfig {
    /// Maximum length of the queue.
    pub limit: Limit,
    /// Queue discipline.
    pub discipline: Discipline,
    /// Whether CoDel, RED and PIE mark ECN-capable packets instead of dropping them. DualPI2 always does.
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
    /// Replaces the limit.
    #[must_use]
    pub fn limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// Enables ECN.
    #[must_use]
    pub fn ecn(self) -> Self {
        Self { ecn: true, ..self }
    }
}

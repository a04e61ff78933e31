//! Types that the stages of a composed controller exchange.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::{Ack, NetworkHeader, Pace, ProbePlan, SavedPath};

/// The only state that all stages share. Bytes are floats, so that increments below one byte are not lost; they are
/// exact for every possible window (2^53 bytes are nine petabytes).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Window {
    /// Congestion window in bytes: the limit of bytes in flight. Between calls, it is finite and at least one
    /// segment.
    pub cwnd: f64,
    /// Slow-start threshold in bytes. It is infinite until the first decrease (RFC 5681, section 3.1, "arbitrarily
    /// high"), unless earlier connections left one ([`BuildParams::initial_ssthresh`](crate::BuildParams)).
    pub ssthresh: f64,
}

impl Window {
    /// A window of `cwnd` bytes without a threshold.
    #[must_use]
    pub const fn new(cwnd: f64) -> Self {
        Self { cwnd, ssthresh: f64::INFINITY }
    }

    /// Returns whether the window is below its threshold and should grow quickly.
    #[must_use]
    pub fn below_threshold(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Removes the unused part of the window: limits it to the `outstanding` bytes, or to `least` if that is larger.
    pub fn keep_outstanding(&mut self, outstanding: Bytes, least: Bytes) {
        self.cwnd = self.cwnd.min(outstanding.max(least).as_f64());
    }

    /// Limits the window to the range from one segment to `cap`, and the threshold to at least two segments (RFC
    /// 5681, equation 4). NaN is replaced by the lower limit.
    pub fn bound(&mut self, mss: Bytes, cap: Bytes) {
        let mss = mss.as_f64();
        self.cwnd = if self.cwnd.is_nan() { mss } else { self.cwnd.min(cap.as_f64()).max(mss) };
        self.ssthresh = if self.ssthresh.is_nan() { 2.0 * mss } else { self.ssthresh.max(2.0 * mss) };
    }
}

/// Additions of a stage to the controller's decisions, besides the window. They are taken from the active stage, and
/// `background` from the start-up scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Overlay {
    /// The stage's own pacing rate.
    pub pace: Option<Pace>,
    /// Probes in addition to the window.
    pub probe: Option<ProbePlan>,
    /// Probes of a start-up scheme that continue regardless of the stage that controls the window, unless the active
    /// stage has its own probes. The scheme must have them from its beginning at the end of the handshake.
    pub background: Option<ProbePlan>,
    /// A request to routers.
    pub header: Option<NetworkHeader>,
    /// The tag of segments sent from this point on.
    pub tag: u16,
    /// The DiffServ codepoint of segments sent from this point on.
    pub dscp: u8,
    /// Number of full-sized segments per ACK requested from the peer; zero sends no request.
    pub ack_ratio: u8,
}

impl Overlay {
    /// Suspends pacing: everything that the window allows may be sent as a burst.
    #[must_use]
    pub fn at_once() -> Self {
        Self { pace: Some(Pace { rate: Rate::MAX, quantum: Some(Bytes(1 << 16)) }), ..Self::default() }
    }
}

/// Events that few stages need. More may be added.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StageEvent {
    /// The saved path of an earlier connection to the host is known. Reported at the end of the handshake, before a
    /// start-up scheme begins.
    SavedPath(SavedPath),
    /// Data that the [RC3 low-priority loop](crate::ProbeKind::FromTail) sent has arrived.
    Ahead {
        /// Time at which the ACK was received.
        at: Time,
        /// Payload bytes.
        bytes: Bytes,
    },
    /// Nothing was sent for `idle`, and the window is about to decrease to the restart window.
    Idle {
        /// Time of the event.
        now: Time,
        /// Duration of the idle period.
        idle: Span,
    },
    /// The segment size has changed; the window in bytes is kept.
    Mss {
        /// Time of the event.
        now: Time,
        /// The previous segment size.
        old: Bytes,
        /// Current window.
        window: Window,
    },
}

/// Reason for asking a start-up scheme to open the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opening {
    /// The handshake is complete.
    Connection,
    /// The sender was idle for longer than an RTO.
    Idle,
    /// The retransmission timer expired; the window is one segment.
    Timeout,
}

/// Whether a stage keeps the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The stage keeps the window. A recovery algorithm may keep it after the episode for as long as necessary.
    Stay,
    /// The stage hands over. After a start-up scheme, the slow-start variant follows if the window is below its
    /// threshold, else congestion avoidance. Congestion avoidance follows a slow-start variant. Recovery cannot hand
    /// over during an episode.
    Done,
}

/// A start-up scheme's response to a congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartupResponse {
    /// The usual decrease and recovery follow, and the scheme ends.
    Delegate,
    /// The scheme has responded itself, and keeps the window during the episode.
    Handled,
}

/// The next step that a congestion-avoidance algorithm requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AvoidanceStep {
    /// The algorithm keeps the window.
    Stay,
    /// The slow-start variant should run again, up to the threshold that the algorithm has set.
    Grow,
}

/// Reason why congestion avoidance takes over: the event since it last controlled the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Slow start ended without a loss: by the delay, by an estimate, or at a threshold.
    NoLoss,
    /// A loss was recovered.
    Loss,
    /// The window was reduced for ECN marks.
    Ecn,
    /// A retransmission timeout occurred, followed by slow start.
    Timeout,
    /// The sender was idle, followed by slow start.
    Idle,
    /// The algorithm itself had requested slow start.
    Asked,
}

/// The start of congestion avoidance.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Handoff {
    /// Time of the start.
    pub now: Time,
    /// Reason of the start.
    pub reason: Reason,
}

impl Handoff {
    /// Congestion avoidance starts at `now` for `reason`.
    #[must_use]
    pub const fn new(now: Time, reason: Reason) -> Self {
        Self { now, reason }
    }
}

/// Kinds of congestion signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// Segments marked lost because of acknowledgments.
    Loss,
    /// A retransmission that was lost during an episode (RFC 5681, section 4.3: a second indication).
    LossAgain,
    /// An ECN echo (RFC 3168, section 6.1.2).
    Ecn,
    /// The first of several consecutive retransmission timeouts.
    Timeout,
}

/// Cause of a loss, as judged by a loss classifier.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LossCause {
    /// Severity from 0 (chance) to 1 (congestion), by which congestion avoidance scales its decrease.
    pub severity: f64,
}

impl LossCause {
    /// A loss caused by congestion, as every loss is by default.
    pub const CONGESTION: Self = Self { severity: 1.0 };

    /// A cause of this severity, from 0 (chance) to 1 (congestion).
    #[must_use]
    pub const fn new(severity: f64) -> Self {
        Self { severity }
    }
}

/// A loss to be classified, or handled by a start-up scheme.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LossEvent<'a> {
    /// The kind of signal; never [`Signal::Timeout`].
    pub signal: Signal,
    /// The ACK that revealed it.
    pub ack: &'a Ack<'a>,
}

impl<'a> LossEvent<'a> {
    /// Creates a signal revealed by `ack`.
    #[must_use]
    pub const fn new(signal: Signal, ack: &'a Ack<'a>) -> Self {
        Self { signal, ack }
    }
}

/// The congestion event for which congestion avoidance decreases the window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CongestionEvent {
    /// Time of the event.
    pub now: Time,
    /// The kind of signal.
    pub signal: Signal,
    /// Amount from which the decrease is calculated, in bytes: FlightSize (RFC 5681, equation 4), but at most `cwnd`,
    /// so that two consecutive signals decrease the window twice even while SACKed data keeps FlightSize large.
    pub base: f64,
    /// The window before the event, in bytes; during an episode, the window to which it converges.
    pub cwnd: f64,
    /// The judgement of the loss classifier.
    pub cause: LossCause,
}

impl CongestionEvent {
    /// A congestion signal at `now`, with `flight_size` bytes outstanding and a window of `cwnd` bytes.
    #[must_use]
    pub fn new(now: Time, signal: Signal, flight_size: Bytes, cwnd: f64) -> Self {
        Self { now, signal, base: flight_size.as_f64().min(cwnd), cwnd, cause: LossCause::CONGESTION }
    }
}

/// The result of a decrease.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "the two numbers of a decrease, which every algorithm returns")]
pub struct Target {
    /// The new slow-start threshold, bytes.
    pub ssthresh: f64,
    /// The window to reach, bytes. During the episode it is limited to the previous window, so that a loss never
    /// increases the window. The threshold is not limited, and slow start leads up to it afterwards.
    pub cwnd: f64,
}

impl Target {
    /// Returns the target `window` with the lower limits of RFC 5681 and RFC 3168 for segments of `mss` bytes: two
    /// segments for the threshold and after a loss, one segment after an ECN echo.
    #[must_use]
    pub fn floored(window: f64, signal: Signal, mss: Bytes) -> Self {
        let two = 2.0 * mss.as_f64();
        let floor = if signal == Signal::Ecn { mss.as_f64() } else { two };
        Self { ssthresh: window.max(two), cwnd: window.max(floor) }
    }

    /// Returns the target of a multiplicative decrease that keeps the fraction `keep` of the base, and more if the
    /// severity is below 1: `base x (1 - severity x (1 - keep))`.
    #[must_use]
    pub fn multiplicative(event: &CongestionEvent, keep: f64, mss: Bytes) -> Self {
        let severity = event.cause.severity.clamp(0.0, 1.0);
        Self::floored(event.base * (1.0 - severity * (1.0 - keep)), event.signal, mss)
    }
}

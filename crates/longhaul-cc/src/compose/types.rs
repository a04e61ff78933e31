//! What the stages of a composed controller exchange.

use longhaul_units::{Bytes, Time};

use crate::{Ack, NetworkHeader, Pace, ProbePlan};

/// The only state that all stages share. Bytes as floats, so that increments below a byte are not lost; exact for
/// every window a path can have (2^53 bytes are nine petabytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window in bytes: the bound on bytes in flight. Finite and at least one segment between calls.
    pub cwnd: f64,
    /// Slow-start threshold in bytes; infinite until the first decrease (RFC 5681, section 3.1, "arbitrarily high"),
    /// unless earlier connections left one ([`BuildParams::initial_ssthresh`](crate::BuildParams)).
    pub ssthresh: f64,
}

impl Window {
    /// A window of `cwnd` bytes without a threshold.
    #[must_use]
    pub const fn new(cwnd: f64) -> Self {
        Self { cwnd, ssthresh: f64::INFINITY }
    }

    /// Whether the window is still to grow quickly: below its threshold.
    #[must_use]
    pub fn below_threshold(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Takes from the window what was opened and has not been sent: it is at most what is `outstanding`, or `least` if that is more.
    pub(crate) fn keep_outstanding(&mut self, outstanding: Bytes, least: Bytes) {
        self.cwnd = self.cwnd.min(outstanding.max(least).as_f64());
    }

    /// Holds the window between one segment and `cap`, the threshold at two segments or more (RFC 5681, equation 4).
    /// A value that is no number falls back to the floor.
    pub fn bound(&mut self, mss: Bytes, cap: Bytes) {
        let mss = mss.as_f64();
        self.cwnd = if self.cwnd.is_nan() { mss } else { self.cwnd.min(cap.as_f64()).max(mss) };
        self.ssthresh = if self.ssthresh.is_nan() { 2.0 * mss } else { self.ssthresh.max(2.0 * mss) };
    }
}

/// What a stage adds to the window in the controller's answer. Only the stage that is active is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overlay {
    /// A pacing rate of the stage's own.
    pub pace: Option<Pace>,
    /// Probes beside the window.
    pub probe: Option<ProbePlan>,
    /// A header for routers.
    pub header: Option<NetworkHeader>,
    /// The stamp on segments sent from now on.
    pub tag: u16,
    /// The DiffServ codepoint of segments sent from now on.
    pub dscp: u8,
    /// Segments for which the peer is asked to send one ACK; zero asks for nothing.
    pub ack_ratio: u8,
}

/// Why a launch is asked to open the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The handshake has ended.
    Connection,
    /// The sender was idle for longer than an RTO.
    Idle,
    /// The retransmission timer fired; the window is one segment.
    Timeout,
    /// The law found room and asked.
    Asked,
}

/// Whether a launch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchStep {
    /// It keeps the window.
    Stay,
    /// It hands over: to growth if the window is below its threshold, else to the law.
    Done,
}

/// A launch's answer to a congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchVerdict {
    /// The usual decrease and recovery follow, and the launch is over.
    Delegate,
    /// The launch has answered itself; it keeps the window during the episode.
    Handled,
}

/// Whether growth goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthStep {
    /// It keeps the window.
    Stay,
    /// The law takes over.
    Done,
}

/// What a law wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteadyStep {
    /// It keeps the window.
    Stay,
    /// It asks for quick growth again (it has set the threshold it wants).
    Grow,
    /// It asks for a launch again.
    Launch,
}

/// Whether recovery still owns the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStep {
    /// It does: during an episode always, after one for as long as its scheme says.
    Stay,
    /// It does not; during an episode this has no effect.
    Done,
}

/// Why the law takes over: what happened since it last held the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Growth ended without any loss: by delay, by an estimate, or at a threshold of its own.
    NoLoss,
    /// A loss was repaired.
    Loss,
    /// Marks were answered.
    Ecn,
    /// A retransmission timeout, then slow start.
    Timeout,
    /// Idleness, then slow start.
    Idle,
    /// The law itself had asked for growth or a launch.
    Asked,
}

/// A law's taking over.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Handoff {
    /// When.
    pub now: Time,
    /// Why.
    pub reason: Reason,
}

impl Handoff {
    /// The law takes over at `now` for `reason`.
    #[must_use]
    pub const fn new(now: Time, reason: Reason) -> Self {
        Self { now, reason }
    }
}

/// The kinds of congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Segments held lost by acknowledgements.
    Loss,
    /// A retransmission lost in its turn during an episode (RFC 5681, section 4.3: a second indication).
    LossAgain,
    /// An ECN echo (RFC 3168, section 6.1.2).
    Ecn,
    /// The first retransmission timeout of a run.
    Timeout,
}

/// What a loss meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// How congestive: 1 is congestion, 0 chance. Laws scale their decrease by it.
    pub severity: f64,
}

impl Verdict {
    /// A loss by congestion, as every loss is by default.
    pub const CONGESTION: Self = Self { severity: 1.0 };
}

/// A loss to be classified, or to be answered by a launch.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    /// What kind of signal; never [`Signal::Timeout`].
    pub signal: Signal,
    /// The ACK that brought it.
    pub ack: &'a Ack<'a>,
}

/// The cause of a decrease, for the law.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cause {
    /// When.
    pub now: Time,
    /// The kind of signal.
    pub signal: Signal,
    /// What the decrease is taken from, in bytes: FlightSize (RFC 5681, equation 4), but no more than `cwnd`, so that
    /// two signals in a row lower twice even while SACKed data keep FlightSize large.
    pub base: f64,
    /// The window before, in bytes; during an episode the one it was converging to.
    pub cwnd: f64,
    /// What the classifier said.
    pub verdict: Verdict,
}

impl Cause {
    /// A congestion signal at `now` that found `flight_size` bytes outstanding under a window of `cwnd` bytes.
    #[must_use]
    pub fn new(now: Time, signal: Signal, flight_size: Bytes, cwnd: f64) -> Self {
        Self { now, signal, base: flight_size.as_f64().min(cwnd), cwnd, verdict: Verdict::CONGESTION }
    }
}

/// A law's decrease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The new slow-start threshold, bytes.
    pub ssthresh: f64,
    /// The window to arrive at, bytes. More than the window before is cut to that while the episode lasts, so that no
    /// loss ever raises the window; the threshold stays, and slow start leads up to it afterwards.
    pub cwnd: f64,
}

impl Target {
    /// The target `window` bytes with RFC 5681's and RFC 3168's floors for segments of `mss` bytes: two segments for
    /// the threshold and after a loss, one after an ECN echo.
    #[must_use]
    pub fn floored(window: f64, signal: Signal, mss: Bytes) -> Self {
        let two = 2.0 * mss.as_f64();
        let floor = if signal == Signal::Ecn { mss.as_f64() } else { two };
        Self { ssthresh: window.max(two), cwnd: window.max(floor) }
    }

    /// The target of a multiplicative decrease that keeps `keep` of the cause's base, less severe where the verdict
    /// was: `base x (1 - severity x (1 - keep))`.
    #[must_use]
    pub fn multiplicative(cause: &Cause, keep: f64, mss: Bytes) -> Self {
        let severity = cause.verdict.severity.clamp(0.0, 1.0);
        Self::floored(cause.base * (1.0 - severity * (1.0 - keep)), cause.signal, mss)
    }
}

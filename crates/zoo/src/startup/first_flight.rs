//! Start-up schemes that send all available data in the first round trip, evenly spread over the RTT of the handshake.
//!
//! Jump-Start (Liu, Allman, Jin, Wang, PFLDnet 2007) ends when its flight has arrived. Halfback (Li, Dong, Godfrey,
//! CoNEXT 2015) is for short flows: while the ACKs of its flight arrive, copies of its segments are sent from the last
//! one backwards, until ACKs and copies meet.

use longhaul_cc::compose::{LossEvent, Opening, Overlay, Signal, Stage, Startup, StartupResponse, Step, Window};
use longhaul_cc::internal::bound;
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{
    Ack, AckFrequency, Demands, Episode, Granted, NeedError, Needs, Pace, Path, ProbeKind, ProbePlan, SegmentKind,
    Sent, Timeout, update,
};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::Series;

pub(crate) static JUMP_START: Entry =
    Entry::startup("jump-start", |values| Box::new(FirstFlight::jump_start(JumpStartConfig::from_values(values))))
        .described(
            "paces all queued data, up to a limit, over the first RTT",
            "Liu, Allman, Jin, Wang, PFLDnet 2007; RFC 7661, section 4.4.1 (parts reconstructed)",
        )
        .with_options(JumpStartConfig::OPTIONS)
        .tested_in(&[
            "jump-start+new-reno",
            "jump-start+cubic",
            "jump-start(max-jump=0,then=slow-start)+slow-start+new-reno+rfc6675",
        ])
        .internet_safe();

pub(crate) static HALFBACK: Entry =
    Entry::startup("halfback", |values| Box::new(FirstFlight::halfback(HalfbackConfig::from_values(values))))
        .described(
            "paces a short flow over one RTT, then retransmits half of it from the end backwards",
            "Li, Dong, Godfrey, CoNEXT 2015 (mechanics reconstructed)",
        )
        .with_options(HalfbackConfig::OPTIONS)
        .tested_in(&["halfback+new-reno", "halfback+cubic", "halfback(clock=segment)+slow-start+new-reno+rfc6675"])
        .internet_safe();

/// Largest window that a SYN can carry (RFC 9293, section 3.1).
const SYN_WINDOW: Bytes = Bytes(0xffff);
/// Number of segments for each of which the peer is asked to send an ACK: the published pacing threshold.
const FREQUENT_ACKS: u32 = 100;
/// Fraction of the sending rate below which the rate of the ACKs shows the capacity of the path.
const PATH_LIMITED: f64 = 0.9;

longhaul_cc::options! {
    pub(crate) struct JumpStartConfig {
        /// Maximum number of bytes sent in the jump; [`Bytes::MAX`] means no limit.
        max_jump: Bytes [bound] =
            OptionSpec::int("max-jump", 0, 1 << 20, 64, "maximum jump, KiB; 0: unlimited, as published"),
        /// Whether slow start follows the flight. In the paper, congestion avoidance follows.
        then_slow_start: bool [|then: &str| then == "slow-start"] =
            OptionSpec::choice("then", &["avoidance", "slow-start"], "stage that takes over the window"),
    }
}

longhaul_cc::options! {
    pub(crate) struct HalfbackConfig {
        pacing_threshold: Bytes [Bytes] = OptionSpec::int(
            "pacing-threshold", 2000, 1 << 30, 141_000,
            "maximum bytes in the first RTT",
        ),
        /// Whether each acknowledged segment releases a copy. In the paper, each ACK releases one, which is equivalent
        /// without delayed ACKs.
        by_segment: bool [|clock: &str| clock == "segment"] = OptionSpec::choice(
            "clock", &["ack", "segment"],
            "clock of the copies: each ACK, or each segment acknowledged",
        ),
    }
}

/// Size and progress of the flight.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    /// Upper bound of the flight's size.
    limit: Bytes,
    rtt: Span,
    /// Window in bytes that the connection would have without the flight.
    initial: f64,
    goal: Bytes,
    sent: Bytes,
    segments: u32,
    delivered: Bytes,
    /// Whether further data was queued when a part of the flight was sent. A short segment with nothing queued behind
    /// it must not delay data that is written later.
    spread: bool,
    /// Time at which more data was queued, if the window and the pacing rate do not include it yet.
    grown_at: Option<Time>,
}

impl Flight {
    /// Creates a flight of at most `limit` bytes over a round trip of `rtt`, instead of a window of `initial` bytes.
    fn new(limit: Bytes, rtt: Span, initial: f64) -> Self {
        Self { limit, rtt, initial, ..Self::default() }
    }

    /// Records that a segment was sent. The known size of the flow is the data sent and queued. The application may
    /// write more during transmission, so the flight may grow. It never shrinks: if the peer reduces its window, the
    /// transport enforces that.
    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        if sent.bytes == Bytes::ZERO {
            return;
        }
        self.sent += sent.bytes;
        self.segments = self.segments.saturating_add(1);
        let goal = (self.sent + path.queued).min(path.peer_window).min(self.limit);
        self.spread |= goal > self.sent;
        if goal > self.goal {
            self.goal = goal;
            self.grown_at = Some(sent.now);
        }
    }

    fn open(&mut self, window: &mut Window) {
        self.grown_at = None;
        window.cwnd = self.goal.as_f64().max(self.initial);
    }

    /// Returns whether the flight is larger than the initial window that it replaces.
    fn exceeds_initial(&self) -> bool {
        self.goal.as_f64() > self.initial
    }

    fn pace(&self) -> Rate {
        Rate::from_bytes_over(self.goal, self.rtt.max(Span::from_nanos(1))).max(Rate::from_bytes_per_sec(1))
    }

    /// Closes the flight at the first ACK. The window becomes the amount that was sent, not the amount that was
    /// allowed, and ACKs clock the sender from then on.
    fn close(&mut self, window: &mut Window) {
        self.grown_at = None;
        window.cwnd = self.sent.as_f64().max(self.initial);
    }

    fn is_delivered(&self) -> bool {
        self.delivered >= self.sent
    }
}

/// Recovery of a flight. As in RFC 6675, the window is held at half of the flight, and nothing is sent until the data
/// in flight has drained to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recovery {
    /// FlightSize when the loss was detected, limited to the window, because more may be sent after data was SACKed.
    flight: Bytes,
    /// Bytes of the flight that arrived as retransmissions.
    retransmitted: Bytes,
}

impl Recovery {
    fn begin(ack: &Ack<'_>, path: &Path, window: &mut Window) -> Self {
        let flight = ack.flight_size.min(Bytes::from_f64(window.cwnd));
        halve(flight.as_f64(), path, window);
        Self { flight, retransmitted: Bytes::ZERO }
    }

    /// Halves the window again after the loss of a retransmission, which is a second sign of congestion (RFC 5681,
    /// section 4.3).
    fn again(path: &Path, window: &mut Window) {
        halve(window.cwnd, path, window);
    }

    /// Counts the bytes that arrived as retransmissions according to an ACK.
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let resent = ack.acked.iter().filter(|segment| segment.kind == SegmentKind::Retransmit);
        self.retransmitted += resent.map(|segment| segment.bytes).fold(Bytes::ZERO, |sum, bytes| sum + bytes);
    }
}

/// Sets the window and the threshold to half of `base` (RFC 5681, equation 4).
fn halve(base: f64, path: &Path, window: &mut Window) {
    let half = (base / 2.0).max(2.0 * path.mss.as_f64());
    window.cwnd = window.cwnd.min(half);
    window.ssthresh = half;
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    JumpStart { then_slow_start: bool },
    Halfback(Copies),
}

/// Copies of Halfback, and the state that controls them.
#[derive(Clone, Copy, Debug)]
struct Copies {
    by_segment: bool,
    /// Whether the flight includes the whole flow, so that its end is known.
    whole: bool,
    plan: ProbePlan,
    acks: Series,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Idle,
    /// No data beyond the initial window is queued yet (Jump-Start).
    Armed,
    Pacing,
    /// The flight was sent, and its ACKs are arriving.
    Answered,
    Recovery(Recovery),
}

#[derive(Clone, Debug)]
pub(crate) struct FirstFlight {
    limit: Bytes,
    scheme: Scheme,
    granted: bool,
    /// Whether ACKs list the segments that arrived, so that arrived retransmissions are known.
    listed: bool,
    phase: Phase,
    flight: Flight,
}

impl FirstFlight {
    fn new(limit: Bytes, scheme: Scheme) -> Self {
        Self { limit, scheme, granted: false, listed: false, phase: Phase::Idle, flight: Flight::default() }
    }

    pub(crate) fn jump_start(config: JumpStartConfig) -> Self {
        Self::new(config.max_jump, Scheme::JumpStart { then_slow_start: config.then_slow_start })
    }

    pub(crate) fn halfback(config: HalfbackConfig) -> Self {
        let mut plan = ProbePlan::new(1, ProbeKind::Backwards, 0);
        plan.dscp = 0;
        let copies = Copies { by_segment: config.by_segment, whole: false, plan, acks: Series::default() };
        Self::new(config.pacing_threshold, Scheme::Halfback(copies))
    }

    fn over(&mut self) -> Step {
        self.phase = Phase::Idle;
        Step::Done
    }

    /// Allows one more copy for an ACK, up to half of the flight in total.
    fn copy(&mut self, ack: &Ack<'_>, path: &Path) {
        let Scheme::Halfback(copies) = &mut self.scheme else { return };
        if copies.whole {
            let more = if copies.by_segment { ack.delivered.0.div_ceil(path.mss.0.max(1)) } else { 1 };
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            copies.plan.segments = copies.plan.segments.saturating_add(more).min(self.flight.segments / 2);
        }
    }

    /// Processes an ACK of the flight, which is complete when as many bytes are delivered as were sent. These ACKs do
    /// not open the window, unless slow start follows.
    fn answered(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        if ack.delivered == Bytes::ZERO {
            return Step::Stay;
        }
        self.flight.delivered += ack.delivered;
        self.copy(ack, path);
        match &mut self.scheme {
            Scheme::JumpStart { then_slow_start: true } if ack.cwnd_limited => {
                window.cwnd += ack.delivered.as_f64();
            }
            Scheme::JumpStart { .. } => {}
            Scheme::Halfback(copies) => copies.acks.note(ack.rx_time.unwrap_or(ack.now), ack.delivered),
        }
        if !self.flight.is_delivered() {
            return Step::Stay;
        }
        match &self.scheme {
            Scheme::JumpStart { then_slow_start: true } => {}
            Scheme::JumpStart { .. } => window.ssthresh = window.cwnd,
            Scheme::Halfback(copies) => self.fit(copies.acks.rate(), path, window),
        }
        self.over()
    }

    /// Sets the window to the one that the rate of the ACKs fills. If the ACK rate is higher, the sender rather than
    /// the path was the limit.
    fn fit(&self, rate: Option<Rate>, path: &Path, window: &mut Window) {
        let rate = rate.filter(|rate| *rate < self.flight.pace().mul_f64(PATH_LIMITED));
        if let Some((rate, rtt)) = rate.zip(path.min_rtt.or(path.handshake_rtt)) {
            let fits = rate.bytes_in(rtt).as_f64().max(self.flight.initial);
            window.cwnd = window.cwnd.min(fits);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
    }

    /// Ends recovery. For Jump-Start, the path holds at most the bytes that were sent and not lost, so the window
    /// becomes half of those (RFC 7661, section 4.4.1).
    fn recovered(&mut self, recovery: Recovery, path: &Path, window: &mut Window) -> Step {
        if let Scheme::JumpStart { .. } = self.scheme {
            let rest = (recovery.flight - recovery.retransmitted).as_f64() / 2.0;
            window.cwnd = window.cwnd.min(rest).max(path.mss.as_f64());
            window.ssthresh = window.cwnd;
        }
        self.over()
    }
}

impl Stage for FirstFlight {
    fn needs(&self) -> Needs {
        let preferred = match self.scheme {
            Scheme::JumpStart { .. } => {
                let whole_window = self.limit > SYN_WINDOW;
                update!(Demands { pacing: true, segments: true, whole_window, ..Demands::default() })
            }
            Scheme::Halfback(_) => {
                let ack_frequency = AckFrequency::First(FREQUENT_ACKS);
                update!(Demands { probes: true, pacing: true, whole_window: true, ack_frequency, ..Demands::default() })
            }
        };
        update!(Needs { preferred, ..Needs::default() })
    }

    /// Without pacing, or probes for Halfback, the slow-start variant begins.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.granted = granted.pacing && (granted.probes || matches!(self.scheme, Scheme::JumpStart { .. }));
        self.listed = granted.segments;
        Ok(())
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        match &mut self.phase {
            Phase::Armed | Phase::Pacing if sent.kind == SegmentKind::Data => {
                self.flight.on_sent(sent, path);
                if let Scheme::Halfback(copies) = &mut self.scheme {
                    copies.whole = path.queued == Bytes::ZERO;
                }
            }
            // If ACKs do not list segments, every retransmission counts as arrived, and repeated retransmissions count
            // more than once.
            Phase::Recovery(recovery) if !self.listed && sent.kind == SegmentKind::Retransmit => {
                recovery.retransmitted += sent.bytes;
            }
            _ => {}
        }
    }

    fn next_tick(&self) -> Option<Time> {
        self.flight.grown_at.filter(|_| matches!(self.phase, Phase::Armed | Phase::Pacing))
    }

    fn overlay(&self) -> Overlay {
        let (pace, probe) = match (self.phase, &self.scheme) {
            (Phase::Pacing, Scheme::JumpStart { .. }) => (true, None),
            (Phase::Pacing, Scheme::Halfback(_)) => (self.flight.spread, None),
            (Phase::Answered | Phase::Recovery(_), Scheme::Halfback(copies)) => (false, Some(copies.plan)),
            _ => (false, None),
        };
        update!(Overlay { pace: pace.then(|| Pace::new(self.flight.pace())), probe, ..Overlay::default() })
    }

    fn phase(&self) -> &'static str {
        match (self.phase, self.scheme) {
            (Phase::Idle, _) => "handshake",
            (Phase::Recovery(_), _) => "recovery",
            (_, Scheme::JumpStart { .. }) => "jump-start",
            (Phase::Answered, Scheme::Halfback(_)) => "halfback-copying",
            (_, Scheme::Halfback(_)) => "halfback-pacing",
        }
    }
}

impl Startup for FirstFlight {
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        let wanted = self.granted && !path.handshake_lossy && opening == Opening::Connection;
        let Some(rtt) = path.handshake_rtt.filter(|_| wanted) else { return self.over() };
        // A threshold known from earlier connections also limits the flight.
        let known = Bytes::from_f64(window.ssthresh);
        self.flight = Flight::new(self.limit.min(known), rtt, window.cwnd);
        self.phase = if let Scheme::JumpStart { .. } = self.scheme { Phase::Armed } else { Phase::Pacing };
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        match self.phase {
            Phase::Armed | Phase::Pacing if ack.delivered == Bytes::ZERO => Step::Stay,
            // There was no jump, so the ACK counts as in slow start.
            Phase::Armed => {
                if ack.cwnd_limited {
                    window.cwnd += ack.delivered.as_f64();
                }
                self.over()
            }
            Phase::Pacing => {
                self.flight.close(window);
                if let Scheme::Halfback(copies) = &mut self.scheme {
                    copies.whole &= path.queued == Bytes::ZERO;
                }
                self.phase = Phase::Answered;
                self.answered(ack, path, window)
            }
            Phase::Answered => self.answered(ack, path, window),
            Phase::Recovery(mut recovery) => {
                self.flight.delivered += ack.delivered;
                if self.listed {
                    recovery.on_ack(ack);
                }
                if !matches!(ack.episode, Episode::In | Episode::Again) {
                    return self.recovered(recovery, path, window);
                }
                self.phase = Phase::Recovery(recovery);
                if ack.delivered > Bytes::ZERO {
                    self.copy(ack, path);
                }
                Step::Stay
            }
            Phase::Idle => self.over(),
        }
    }

    /// Recovers a loss as usual, while copies continue, because they recover the end of the flow.
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        self.flight.delivered += loss.ack.delivered;
        match (&mut self.phase, loss.signal) {
            (Phase::Pacing | Phase::Answered, Signal::Loss) => {
                self.phase = Phase::Recovery(Recovery::begin(loss.ack, path, window));
                self.copy(loss.ack, path);
            }
            (Phase::Recovery(recovery), Signal::LossAgain) => {
                if self.listed {
                    recovery.on_ack(loss.ack);
                }
                Recovery::again(path, window);
            }
            _ => return StartupResponse::Delegate,
        }
        StartupResponse::Handled
    }

    fn on_tick(&mut self, _now: Time, _path: &Path, window: &mut Window) -> Step {
        if matches!(self.phase, Phase::Armed | Phase::Pacing) {
            self.flight.open(window);
            if self.flight.exceeds_initial() {
                self.phase = Phase::Pacing;
            }
        }
        Step::Stay
    }

    fn on_timeout(&mut self, _timeout: &Timeout, path: &Path, window: &mut Window) -> Option<f64> {
        let jumped = !matches!(self.phase, Phase::Idle | Phase::Armed);
        if self.phase == Phase::Pacing {
            self.flight.close(window);
        }
        let is_jump = matches!(self.scheme, Scheme::JumpStart { .. });
        (jumped && is_jump).then(|| (self.flight.delivered.as_f64() / 2.0).max(2.0 * path.mss.as_f64()))
    }

    fn abort(&mut self) {
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;

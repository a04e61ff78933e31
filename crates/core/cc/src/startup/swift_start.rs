//! Swift Start: the spacing of the first ACKs yields an estimate of the path's capacity, and a fraction of it is paced
//! over the second round trip.
//!
//! [`SwiftStart`] is the algorithm with NASA's corrections, which measures the spacing of ACKs, and its variant that
//! [measures at the receiver](hardened). The version before the corrections is in longhaul-zoo.

pub(crate) mod dispersion;
pub(crate) mod estimate;
pub(crate) mod hardened;
pub(crate) mod pacing;
mod spacing;

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::compose::{LossEvent, Opening, Overlay, Stage, Startup, StartupResponse, Step, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{
    Ack, Demands, Estimate, Granted, NeedError, Needs, Path, Quantity, SegmentKind, Sent, Timeout, initial_window,
};
use estimate::{TickClock, capacity_window};
use hardened::{Arrivals, HardenedConfig};
use pacing::{Round, RoundPlan};
use spacing::Spacing;

/// Number of segments that are sent back to back (NASA TM-2004-212938, table 1).
pub const FLIGHT: u32 = 4;

/// Option of all versions of Swift Start.
pub const GAMMA: OptionSpec = OptionSpec::int("gamma", 1, 8, 4, "divisor of the capacity estimate");
/// Option of the versions that read a clock with ticks.
pub const TICK: OptionSpec = OptionSpec::float(
    "tick",
    0.0,
    100.0,
    0.0,
    "resolution of the clock and of send times, ms; 0: continuous, paced by the transport",
);
pub(crate) const ABORT: OptionSpec = OptionSpec::int(
    "abort-timer",
    1,
    10_000,
    200,
    "time to wait for the second ACK, ms: the longest for which receivers delay ACKs",
);

pub(crate) static ENTRY: Entry =
    Entry::startup("swift-start", |values| Box::new(SwiftStart::new(SwiftStartConfig::from_values(values))))
        .described(
            "estimates the BDP from the spacing of the first two ACKs, and paces a fraction of it",
            "Partridge et al., A swifter start for TCP, BBN TR 8339; as corrected in NASA TM-2004-212938",
        )
        .with_options(SwiftStartConfig::OPTIONS)
        .tested_in(&["swift-start+cubic", "swift-start(gamma=1)+cubic", "swift-start+new-reno"])
        .internet_safe();

crate::options! {
    /// Configuration of [`SwiftStart`]; the default is the published algorithm.
    pub struct SwiftStartConfig {
        /// Divisor of the estimate, 1 to 8, which yields the window of the second round. A larger one trusts the
        /// estimate less.
        gamma: u64 = GAMMA,
        /// Clock with which times are read. One with ticks also paces.
        clock: TickClock [TickClock::from_millis] = TICK,
        /// Time to wait for the second ACK.
        abort: Span [Span::from_millis] = ABORT,
        /// Number of segments that are sent back to back.
        flight: u32 => FLIGHT,
        /// Whether the handshake's RTT is used if it is less.
        handshake_rtt: bool = OptionSpec::flag(
            "handshake-rtt", false,
            "use the handshake RTT if it is smaller than that of the first ACK, which may be delayed",
        ),
        /// Whether the window after the paced round is less by the segments of the second ACK.
        deduct_pair: bool = OptionSpec::flag(
            "deduct-pair", false, "after the paced round, deduct the segments of the second ACK from the window",
        ),
        /// Whether arrival times are used if the peer reports them, and the undivided estimate becomes the threshold,
        /// so that slow start does not double the window beyond it.
        hardened: bool => false,
        /// Whether the estimation by arrival times continues after the start.
        follow: bool => false,
    }
}

/// Estimate from a pair of ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PairEstimate {
    /// Bytes that the second ACK covered.
    pub bytes: Bytes,
    /// Time from the first data segment to the first ACK, or the handshake's RTT if that is less and configured.
    pub rtt: Span,
    /// Time from the first ACK to the second.
    pub delta: Span,
}

impl PairEstimate {
    /// Returns the bytes that the path holds, divided by `gamma`.
    #[must_use]
    pub fn window(&self, gamma: u64) -> Bytes {
        Bytes(capacity_window(self.bytes.0, self.rtt.as_nanos(), self.delta.as_nanos(), gamma))
    }

    /// Returns the payload rate of the estimate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate::from_bytes_over(self.bytes, self.delta)
    }

    /// Reports the estimates before and after the division as named values.
    fn tell(&self, gamma: u64, tell: &mut dyn FnMut(Estimate)) {
        for (name, value) in [
            ("start-rate", Quantity::Rate(self.rate())),
            ("start-window", Quantity::Bytes(self.window(1))),
            ("start-part", Quantity::Bytes(self.window(gamma))),
            ("start-rtt", Quantity::Span(self.rtt)),
            ("start-gap", Quantity::Span(self.delta)),
        ] {
            tell(Estimate { name, value });
        }
    }
}

/// Maximum number of segments of a flight that are tracked, which is more than any flight of full-sized segments has.
const MOST_SEGMENTS: usize = 12;

/// The first flight, sent back to back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    /// Time at which its first segment was sent.
    pub sent_at: Option<Time>,
    /// Length of the flight in bytes.
    pub bytes: Bytes,
    /// Whether anything was retransmitted.
    pub disturbed: bool,
    /// Ends of its segments in bytes from its beginning. Sizes may differ, because a path MTU probe may be among them.
    ends: [Bytes; MOST_SEGMENTS],
    len: usize,
}

impl Flight {
    /// A segment was sent.
    pub fn on_sent(&mut self, sent: &Sent) {
        match sent.kind {
            SegmentKind::Data => {
                self.sent_at = self.sent_at.or(Some(sent.now));
                self.bytes += sent.bytes;
                if let Some(end) = self.ends.get_mut(self.len) {
                    *end = self.bytes;
                }
                self.len += 1;
            }
            SegmentKind::Retransmit => self.disturbed = true,
            SegmentKind::Probe => {}
        }
    }

    /// Returns whether the flight filled a window of `window` bytes up to less than one segment of `mss`.
    pub fn filled(&self, window: Bytes, mss: Bytes) -> bool {
        self.bytes + mss > window && self.len <= MOST_SEGMENTS
    }

    /// Returns the number of segments in the flight's first `acked` bytes.
    fn segments(&self, acked: Bytes) -> usize {
        self.ends.iter().take(self.len).filter(|end| **end <= acked).count()
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Not started, or over.
    Off,
    /// The flight is sent, and its first ACK is awaited.
    First(Flight),
    /// The ACK that completes the pair is awaited.
    Second(Pair),
    /// Estimation by arrival times, with too few gaps so far. After the first ACK, holds the time by which the ACKs of
    /// all segments are expected.
    Probe(Option<Time>),
    /// The second round is paced.
    Paced(Round),
}

/// A first ACK and the state until the second one arrives.
#[derive(Clone, Copy, Debug)]
struct Pair {
    flight: Flight,
    /// Time at which the first ACK arrived, according to the kernel, and time at which it was processed.
    at: Time,
    told_at: Time,
    /// Bytes that the first ACK covered, and all bytes acknowledged so far.
    first: Bytes,
    acked: Bytes,
    sent: Bytes,
}

/// Swift Start with the corrections of NASA TM-2004-212938.
///
/// Four segments are sent back to back. The first ACK, normally of two segments, releases three more. The second ACK,
/// `delta` later, yields the estimate `ce_cwnd = bytes * rtt / delta / gamma`, where `bytes` are those that the second
/// ACK covers, and `rtt` is the time from the first data segment to the first ACK. If the estimate exceeds the window,
/// the rest of it is sent evenly over the next round trip, in which ACKs do not open the window. Then the window
/// becomes the outstanding bytes, at least the initial window, and the slow-start variant follows.
///
/// There is no estimate, and slow start continues, in any of these cases: a segment is retransmitted, lost or
/// reordered; the first ACK covers more than two segments, or the second one fewer; the second ACK does not arrive
/// within the abort timer; the ACKs were merged or arrived at the same time; there were fewer segments to send; the
/// estimate does not exceed the window.
///
/// The hardened variant measures dispersion at the receiver if the peer reports arrival times: the estimate uses the
/// gaps between the segments of the first flight as they arrived. It does not depend on what happens to the ACKs and
/// which of them are delayed, and omits segments that receive offload merged. It improves with each ACK of the flight.
/// The RTT is that of the handshake or of the first ACK, whichever is less, and the estimate is at most twice the
/// peer's window. A first flight that the application ends early, such as a handshake or a request, is not used up:
/// the start waits for one that fills the window.
#[derive(Clone, Debug)]
pub struct SwiftStart {
    config: SwiftStartConfig,
    phase: Phase,
    mss: Bytes,
    transport_paces: bool,
    /// Estimate from a pair of ACKs.
    estimate: Option<PairEstimate>,
    /// Whether to measure by arrival times.
    by_arrivals: bool,
    arrivals: Arrivals,
    /// Whether the start allows for pauses of the application.
    pauses: bool,
}

impl SwiftStart {
    /// Creates a Swift Start with configuration `config`.
    #[must_use]
    pub fn new(config: SwiftStartConfig) -> Self {
        Self {
            config,
            phase: Phase::Off,
            mss: Bytes::ZERO,
            transport_paces: true,
            estimate: None,
            by_arrivals: false,
            arrivals: Arrivals::default(),
            pauses: false,
        }
    }

    /// Creates the hardened variant. Without arrival times, it measures as the standard variant does, but with the
    /// handshake's RTT.
    pub(crate) fn hardened(config: HardenedConfig) -> Self {
        let HardenedConfig { gamma, flight, abort, follow } = config;
        let (handshake_rtt, hardened) = (true, true);
        Self::new(SwiftStartConfig { gamma, flight, abort, follow, handshake_rtt, hardened, ..Default::default() })
    }

    /// Bounds the paced round by the spacing of the ACKs.
    pub(crate) fn bounded(mut self) -> Self {
        self.arrivals.spacing = Some(Spacing::default());
        self
    }

    /// Allows for pauses of the application. If one ends the paced round, the window keeps what was still permitted. After
    /// an idle period, another start begins, with at most the window from before.
    pub(crate) const fn with_pauses(mut self) -> Self {
        self.pauses = true;
        self
    }

    /// Returns the estimate, once there is one, even if no paced round followed.
    #[must_use]
    pub const fn estimate(&self) -> Option<PairEstimate> {
        self.estimate
    }

    /// Returns the window of the flight in bytes: that of RFC 6928 for the configured number of segments. It has fewer
    /// segments if they are larger than Ethernet's.
    fn initial(&self, mss: Bytes) -> Bytes {
        initial_window::rfc6928(mss, self.config.flight)
    }

    /// Processes an ACK while the first one is awaited. Returns the next phase, or `None` if there is no estimate.
    fn on_first(&self, flight: Flight, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Option<Phase> {
        if ack.cumulative == Bytes::ZERO && ack.delivered == Bytes::ZERO {
            return Some(self.phase);
        }
        let covered = flight.segments(ack.cumulative);
        let whole = flight.filled(self.initial(self.mss), self.mss);
        if is_disturbed(&flight, ack) || !whole || !(1..=2).contains(&covered) {
            return None;
        }
        grow(ack, path, window);
        Some(Phase::Second(Pair {
            flight,
            at: ack.rx_time.unwrap_or(ack.now),
            told_at: ack.now,
            first: ack.cumulative,
            acked: ack.cumulative,
            sent: Bytes::ZERO,
        }))
    }

    fn on_second(&mut self, pair: Pair, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Option<Phase> {
        if ack.cumulative == Bytes::ZERO && ack.delivered == Bytes::ZERO {
            return Some(self.phase);
        }
        let pair = Pair { acked: pair.acked + ack.cumulative, ..pair };
        let first = pair.flight.segments(pair.first);
        let closes = pair.flight.segments(pair.acked) >= first + 2;
        if is_disturbed(&pair.flight, ack) || pair.acked > pair.flight.bytes || !(closes || first == 1) {
            return None;
        }
        if closes {
            return self.decide(&pair, ack, path, window);
        }
        grow(ack, path, window);
        Some(Phase::Second(pair))
    }

    /// Computes the estimate, and starts a paced round if the estimate exceeds the window.
    fn decide(&mut self, pair: &Pair, ack: &Ack<'_>, path: &Path, window: &Window) -> Option<Phase> {
        let clock = self.config.clock;
        let delta = clock.steps(pair.at, ack.rx_time.unwrap_or(ack.now));
        let delta = if clock.ticks() { delta.max(1) } else { delta };
        let sent_at = pair.flight.sent_at.filter(|_| delta > 0)?;
        let mut rtt = clock.steps(sent_at, pair.at);
        if let Some(handshake) = path.handshake_rtt.filter(|_| self.config.handshake_rtt) {
            rtt = rtt.min(clock.steps(Time::ZERO, Time::ZERO + handshake));
        }
        let estimate = PairEstimate { bytes: pair.acked - pair.first, rtt: clock.span(rtt), delta: clock.span(delta) };
        self.estimate = Some(estimate);
        let part = estimate.window(self.config.gamma);
        if part.as_f64() <= window.cwnd {
            return None;
        }
        let rtt = estimate.rtt.max(Span::from_nanos(1));
        let plan = RoundPlan { window: part.min(path.peer_window), sent: pair.sent, rtt, mss: path.mss };
        Some(Phase::Paced(Round::new(ack.now, &plan, ack.in_flight, clock, self.transport_paces)))
    }

    /// Processes an ACK of the flight before there is an estimate by arrival times. Returns `None` if there will be none.
    fn on_probe(&mut self, expected: Option<Time>, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Option<Phase> {
        if ack.delivered == Bytes::ZERO {
            return Some(self.phase);
        }
        let arrivals = &self.arrivals;
        let disturbed = arrivals.flight.disturbed || ack.newly_lost > Bytes::ZERO;
        let plan = arrivals.plan(self.config.gamma, path).filter(|_| !disturbed);
        if let Some(plan) = plan.filter(|plan| plan.window.as_f64() > window.cwnd) {
            let clock = self.config.clock;
            return Some(Phase::Paced(Round::new(ack.now, &plan, ack.in_flight, clock, self.transport_paces)));
        }
        if disturbed || plan.is_some() {
            return None;
        }
        if arrivals.are_complete() {
            // Nothing is left to send, and the application has sent less than the window permits, such as a handshake or
            // a request. Such a flight shows nothing, and the next one is measured instead.
            let answered = ack.in_flight == Bytes::ZERO && !arrivals.flight.filled(self.initial(path.mss), path.mss);
            if !answered {
                return None;
            }
            grow(ack, path, window);
            self.arrivals.reset();
            return Some(Phase::Probe(None));
        }
        grow(ack, path, window);
        Some(Phase::Probe(expected.or_else(|| Some(arrivals.expected(ack.now)))))
    }

    /// Returns the bytes that the path holds, if the configuration uses them as the threshold.
    fn holds(&self, path: &Path) -> Option<Bytes> {
        let by_acks = |estimate: PairEstimate| estimate.window(1).min(path.peer_window * 2);
        if self.by_arrivals { self.arrivals.holds(path) } else { self.estimate.map(by_acks) }
    }

    /// Ends the start. The window becomes the `last` one of the paced round, if there was one.
    fn finish(&mut self, last: Option<Bytes>, path: &Path, window: &mut Window) -> Step {
        if let Some(last) = last {
            let pair = self.estimate.filter(|_| self.config.deduct_pair).map(|estimate| estimate.bytes);
            let least = if pair.is_some() { path.mss } else { self.initial(path.mss) };
            window.cwnd = (last - pair.unwrap_or(Bytes::ZERO)).max(least).as_f64();
        }
        if let Some(holds) = self.holds(path).filter(|_| self.config.hardened) {
            window.ssthresh = window.ssthresh.min(holds.as_f64());
        }
        self.phase = Phase::Off;
        self.arrivals.asked = true;
        Step::Done
    }

    /// Updates the window during a paced round, or ends the round.
    fn show(&mut self, path: &Path, window: &mut Window) -> Step {
        let Phase::Paced(round) = &self.phase else { return Step::Stay };
        if round.is_over() {
            let last = if self.pauses && self.by_arrivals { round.window() } else { round.in_flight };
            return self.finish(Some(last), path, window);
        }
        window.cwnd = round.window().as_f64();
        Step::Stay
    }

    /// Removes the part of a paced round that was not sent, before congestion avoidance decreases the window.
    fn void(&self, outstanding: Bytes, path: &Path, window: &mut Window) {
        if matches!(self.phase, Phase::Paced(_)) {
            window.keep_outstanding(outstanding, self.initial(path.mss));
        }
    }
}

/// Returns whether an ACK reports anything but segments that arrived in order, or was merged with another one.
pub fn is_disturbed(flight: &Flight, ack: &Ack<'_>) -> bool {
    flight.disturbed || ack.coalesced || ack.newly_lost > Bytes::ZERO || ack.delivered != ack.cumulative
}

/// Increases the window by at most one segment per ACK, as slow start does while the estimate is awaited.
pub fn grow(ack: &Ack<'_>, path: &Path, window: &mut Window) {
    if ack.cwnd_limited {
        window.cwnd += ack.cumulative.min(path.mss).as_f64();
    }
}

impl Stage for SwiftStart {
    fn needs(&self) -> Needs {
        let hardened = self.config.hardened;
        let preferred = Demands { pacing: true, arrival_times: hardened, segments: hardened, ..Demands::default() };
        Needs { preferred, ..Needs::default() }
    }

    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.transport_paces = granted.pacing;
        self.by_arrivals = self.config.hardened && granted.arrival_times && granted.segments;
        Ok(())
    }

    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        if self.by_arrivals {
            self.arrivals.observe(!matches!(self.phase, Phase::Off), ack, path);
        }
        self.by_arrivals
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        if sent.kind == SegmentKind::Probe {
            return;
        }
        match &mut self.phase {
            Phase::Off => {}
            Phase::First(flight) => flight.on_sent(sent),
            Phase::Second(pair) => {
                pair.sent += sent.bytes;
                pair.flight.disturbed |= sent.kind == SegmentKind::Retransmit;
            }
            Phase::Probe(expected) => self.arrivals.on_sent(expected.is_none(), sent),
            Phase::Paced(round) => {
                self.arrivals.sent += sent.bytes;
                round.on_sent(sent, path.mss);
            }
        }
    }

    fn next_tick(&self) -> Option<Time> {
        match &self.phase {
            Phase::Off | Phase::First(_) | Phase::Probe(None) => None,
            Phase::Second(Pair { told_at: at, .. }) | Phase::Probe(Some(at)) => Some(*at + self.config.abort),
            Phase::Paced(round) => round.next_tick(),
        }
    }

    fn overlay(&self) -> Overlay {
        match &self.phase {
            Phase::Off => Overlay::default(),
            Phase::First(_) | Phase::Second(_) | Phase::Probe(_) => Overlay::at_once(),
            Phase::Paced(round) => round.overlay(),
        }
    }

    fn estimates(&self, tell: &mut dyn FnMut(Estimate)) {
        if let Some(rate) = self.arrivals.rate {
            tell(Estimate { name: "start-rate", value: Quantity::Rate(rate) });
        } else if let Some(estimate) = self.estimate {
            estimate.tell(self.config.gamma, tell);
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Off => "handshake",
            Phase::First(_) | Phase::Second(_) | Phase::Probe(_) => "swift-start-probe",
            Phase::Paced(_) => "swift-start-paced",
        }
    }
}

impl Startup for SwiftStart {
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        self.phase = Phase::Off;
        let initial = self.initial(path.mss).as_f64();
        window.cwnd = match opening {
            Opening::Connection if !path.handshake_lossy => initial,
            Opening::Idle if self.pauses && self.by_arrivals => {
                self.arrivals.reset();
                initial.min(window.cwnd)
            }
            _ => return Step::Done,
        };
        self.mss = path.mss;
        self.phase = if self.by_arrivals { Phase::Probe(None) } else { Phase::First(Flight::default()) };
        self.arrivals.begin(self.config.follow);
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.arrivals.acked += ack.delivered;
        let next = match self.phase {
            Phase::Off => return Step::Done,
            Phase::First(flight) => self.on_first(flight, ack, path, window),
            Phase::Second(pair) => self.on_second(pair, ack, path, window),
            Phase::Probe(expected) => self.on_probe(expected, ack, path, window),
            Phase::Paced(mut round) => {
                let plan = self.arrivals.plan(self.config.gamma, path);
                if let Some(plan) = plan.filter(|_| !self.arrivals.is_past_flight(ack)) {
                    round.replan(ack.now, &plan);
                }
                round.on_ack(ack, path);
                Some(Phase::Paced(round))
            }
        };
        let Some(next) = next else {
            grow(ack, path, window);
            return self.finish(None, path, window);
        };
        self.phase = next;
        self.show(path, window)
    }

    /// The usual response follows for each signal, from the bytes in flight instead of the planned window.
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        self.void(loss.ack.flight_size, path, window);
        StartupResponse::Delegate
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        let due = self.next_tick().is_some_and(|at| at <= now);
        match &mut self.phase {
            Phase::Off => Step::Done,
            Phase::Paced(round) => {
                round.on_tick(now, path.mss);
                self.show(path, window)
            }
            _ if due => self.finish(None, path, window),
            _ => Step::Stay,
        }
    }

    fn threshold(&mut self, in_slow_start: bool, path: &Path, window: &Window) -> Option<f64> {
        let gamma = self.config.gamma.max(1) as f64;
        self.arrivals.asked = self.arrivals.follows;
        match in_slow_start {
            true => self.arrivals.ceiling(gamma, path),
            false => self.arrivals.room(self.transport_paces, gamma, path, window),
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout, path: &Path, window: &mut Window) -> Option<f64> {
        self.void(timeout.flight_size, path, window);
        None
    }

    fn abort(&mut self) {
        self.phase = Phase::Off;
        self.arrivals.follows = false;
    }
}

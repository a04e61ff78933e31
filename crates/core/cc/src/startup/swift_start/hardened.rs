//! Swift Start with the arrival times that the receiver reports.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::dispersion::Dispersion;
use super::estimate::TickClock;
use super::pacing::{Round, RoundPlan};
use super::spacing::Spacing;
use super::{ABORT, Flight, GAMMA, SwiftStart, SwiftStartConfig, grow};
use crate::compose::{LossEvent, Opening, Overlay, Stage, Startup, StartupResponse, Step, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{
    Ack, Demands, Estimate, Granted, NeedError, Needs, Path, Quantity, SegmentKind, Sent, Timeout, TxId, initial_window,
};

/// Factor by which the path must have become faster, its RTT shorter, and its capacity greater than the window, before
/// slow start resumes.
const CLEARLY: f64 = 1.25;
/// Factor on the minimum RTT up to which there is no standing queue. It exceeds one by an eighth, as in HyStart++ (RFC
/// 9406, section 4.3).
const NO_QUEUE: f64 = 1.125;

/// Minimum number of gaps for conclusions from a round trip. With this many, most samples of the median are from that
/// round trip.
const TELLING_GAPS: u32 = 32;

pub(crate) static ENTRY: Entry = Entry::startup("swift-start-hardened", |values| {
    Box::new(SwiftStartHardened::new(SwiftStartHardenedConfig::from_values(values)))
})
.described(
    "Swift Start from arrival times at the receiver; its estimate sets the slow-start threshold",
    "after NASA TM-2004-212938",
)
.with_options(SwiftStartHardenedConfig::OPTIONS)
.tested_in(&[
    "swift-start-hardened+cubic",
    "swift-start-hardened(gamma=1)+cubic",
    "swift-start-hardened(gamma=1)+new-reno",
])
.internet_safe();

crate::options! {
    pub(crate) struct SwiftStartHardenedConfig {
        gamma: u64 = GAMMA,
        flight: u32 = OptionSpec::int("iw", 4, 10, 10, "segments of the first burst"),
        abort: Span [Span::from_millis] = ABORT,
        follow: bool =
            OptionSpec::flag("follow", true, "keep estimating until the first loss, and update the threshold"),
    }
}

/// State of the start.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Off,
    /// Too few gaps are known so far. Once an ACK has arrived, the time by which one of each segment can be expected.
    Probe(Option<Time>),
    Paced(Round),
}

/// Swift Start that measures dispersion at the receiver.
///
/// If the peer reports arrival times, the estimate uses the gaps between the segments of the first flight as they
/// arrived. It does not depend on what happens to the ACKs and which of them are delayed, and omits segments that
/// receive offload merged. It improves with each ACK of the flight. The RTT is that of the handshake or of the first
/// ACK, whichever is less, and the estimate is at most twice the peer's window. Without reports, this is
/// [`SwiftStart`] with that RTT.
///
/// A first flight that the application ends early, such as a handshake or a request, is not used up: with arrival
/// times, the start waits for one that fills the window.
///
/// In both cases the undivided estimate becomes the threshold, which follows further gaps while slow start leads up to
/// it. While congestion avoidance has the window and nothing is lost, the gaps of each round trip are compared with
/// those of the first one. If the path has become faster by a quarter, a former queue is gone, and the estimate
/// divided by gamma exceeds the window by a quarter, slow start resumes up to that estimate.
#[derive(Clone, Debug)]
pub(crate) struct SwiftStartHardened {
    config: SwiftStartHardenedConfig,
    /// Used if there are no arrival times.
    by_acks: SwiftStart,
    by_arrivals: bool,
    transport_paces: bool,
    phase: Phase,
    flight: Flight,
    /// Last segment of the flight, and when it was sent.
    last: Option<(TxId, Time)>,
    acked: Bytes,
    /// Bytes sent after the flight.
    sent: Bytes,
    gaps: Dispersion,
    /// RTT without a queue.
    rtt: Option<Span>,
    rate: Option<Rate>,
    /// Spacing of the ACKs, if it bounds the paced round.
    spacing: Option<Spacing>,
    /// Whether it allows for pauses of the application.
    pauses: bool,
    /// Whether estimation continues, and whether the estimate was queried at the last ACK. Without queries, it ends.
    follows: bool,
    asked: bool,
    after: After,
}

/// State after the start.
#[derive(Clone, Copy, Debug, Default)]
struct After {
    /// Whether congestion avoidance has the window, and not slow start.
    in_avoidance: bool,
    /// Whether slow start has resumed once.
    again: bool,
    /// Whether a round trip has begun since the start.
    round: bool,
    /// Minimum RTT in this round trip.
    least: Option<Span>,
    /// Measurements of the round trip that has just ended, set when it ends.
    seen: Option<Seen>,
    /// Reference for comparison: measurements of the first round trip, later of the one in which slow start resumed.
    usual: Option<Seen>,
}

/// Measurements of a round trip in congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Seen {
    rate: Rate,
    /// Minimum RTT in it, which shows the standing queue.
    rtt: Span,
}

impl Seen {
    /// Returns whether other flows have left, in comparison with `usual` on a path with a minimum RTT of `rtt`: segments
    /// then arrive closer together, and the standing queue has disappeared. One of the two alone may be
    /// coincidence, for instance if a flow of constant rate falls in or out of step with the pairs.
    fn tells_of_room(&self, usual: &Self, rtt: Span) -> bool {
        let queue_is_gone = usual.rtt >= rtt.mul_f64(CLEARLY) && self.rtt <= rtt.mul_f64(NO_QUEUE);
        queue_is_gone && self.rate >= usual.rate.mul_f64(CLEARLY)
    }
}

impl SwiftStartHardened {
    pub(crate) fn new(config: SwiftStartHardenedConfig) -> Self {
        let by_acks = SwiftStart::new(SwiftStartConfig {
            gamma: config.gamma,
            flight: config.flight,
            abort: config.abort,
            handshake_rtt: true,
            threshold: true,
            ..SwiftStartConfig::default()
        });
        Self {
            config,
            by_acks,
            by_arrivals: false,
            transport_paces: true,
            phase: Phase::Off,
            flight: Flight::default(),
            last: None,
            acked: Bytes::ZERO,
            sent: Bytes::ZERO,
            gaps: Dispersion::default(),
            rtt: None,
            rate: None,
            spacing: None,
            pauses: false,
            follows: false,
            asked: false,
            after: After::default(),
        }
    }

    /// Bounds the paced round by the spacing of the ACKs.
    pub(crate) fn bounded(mut self) -> Self {
        self.spacing = Some(Spacing::default());
        self
    }

    /// Allows for pauses of the application. If one ends the paced round, the window keeps what was still permitted. After
    /// an idle period, another start begins, with at most the window from before.
    pub(crate) const fn with_pauses(mut self) -> Self {
        self.pauses = true;
        self
    }

    /// Forgets the measurements of an earlier start.
    fn reset(&mut self) {
        *self = Self {
            by_acks: self.by_acks.clone(),
            by_arrivals: self.by_arrivals,
            transport_paces: self.transport_paces,
            spacing: self.spacing.map(|_| Spacing::default()),
            pauses: self.pauses,
            follows: self.follows,
            ..Self::new(self.config)
        };
    }

    /// Returns the bytes that the path holds.
    fn holds(&self, path: &Path) -> Option<Bytes> {
        Some(self.rate?.bytes_in(self.rtt?).min(path.peer_window * 2))
    }

    /// Returns the plan of a round with the estimate divided by gamma, or the peer's window if that is less, because
    /// the peer would not accept more. The spacing of the ACKs may bound the estimate.
    fn plan(&self, path: &Path) -> Option<RoundPlan> {
        let rtt = self.rtt?;
        let most = self.spacing.and_then(|spacing| spacing.most_in(rtt)).unwrap_or(path.peer_window);
        let window = Bytes(self.holds(path)?.min(most).0 / self.config.gamma.max(1)).min(path.peer_window);
        Some(RoundPlan { window, sent: self.sent, rtt, mss: path.mss })
    }

    /// Ends a round trip after the start, and begins the next one.
    fn end_round(&mut self) {
        let rate = self.gaps.rate().filter(|_| self.after.round && self.gaps.gaps() >= TELLING_GAPS);
        self.after.seen = rate.zip(self.after.least.take()).map(|(rate, rtt)| Seen { rate, rtt });
        self.after.round = true;
        self.gaps.restart();
    }

    fn is_disturbed(&self, ack: &Ack<'_>) -> bool {
        self.flight.disturbed || ack.newly_lost > Bytes::ZERO
    }

    /// Returns whether nothing is left to send and the application has sent less than the window permits, such as a
    /// handshake or a request. Such a flight shows nothing, and the next one is measured instead.
    fn is_answered(&self, ack: &Ack<'_>, path: &Path) -> bool {
        ack.in_flight == Bytes::ZERO && !self.flight.filled(self.initial(path), path.mss)
    }

    /// Returns when ACKs of all segments of the flight can be expected, at its first ACK. It may acknowledge a segment
    /// that was sent long before the others.
    fn expected(&self, first: Time) -> Time {
        let last = self.last.zip(self.rtt).map_or(first, |((_, sent), rtt)| sent + rtt);
        first.max(last)
    }

    /// Processes an ACK of the flight before there is an estimate.
    fn on_probe_ack(&mut self, expected: Option<Time>, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        if ack.delivered == Bytes::ZERO {
            return Step::Stay;
        }
        let told = self.acked >= self.flight.bytes;
        let plan = self.plan(path).filter(|_| !self.is_disturbed(ack));
        let worth = plan.filter(|plan| plan.window.as_f64() > window.cwnd);
        if let Some(plan) = worth {
            let clock = TickClock::default();
            self.phase = Phase::Paced(Round::new(ack.now, &plan, ack.in_flight, clock, self.transport_paces));
            return self.show(path, window);
        }
        grow(ack, path, window);
        if told && plan.is_none() && !self.is_disturbed(ack) && self.is_answered(ack, path) {
            self.reset();
            self.phase = Phase::Probe(None);
            return Step::Stay;
        }
        if self.is_disturbed(ack) || told || plan.is_some() {
            return self.finish(None, path, window);
        }
        self.phase = Phase::Probe(expected.or_else(|| Some(self.expected(ack.now))));
        Step::Stay
    }

    fn show(&mut self, path: &Path, window: &mut Window) -> Step {
        let Phase::Paced(round) = &self.phase else { return Step::Stay };
        if round.is_over() {
            let last = if self.pauses { round.window() } else { round.in_flight() };
            return self.finish(Some(last), path, window);
        }
        window.cwnd = round.window().as_f64();
        Step::Stay
    }

    /// Ends the start. The window becomes the `last` one of the paced round, if there was one, and the undivided estimate
    /// the threshold.
    fn finish(&mut self, last: Option<Bytes>, path: &Path, window: &mut Window) -> Step {
        if let Some(last) = last {
            window.cwnd = last.max(self.initial(path)).as_f64();
        }
        if let Some(holds) = self.holds(path) {
            window.ssthresh = window.ssthresh.min(holds.as_f64());
        }
        self.phase = Phase::Off;
        self.asked = true;
        Step::Done
    }

    fn initial(&self, path: &Path) -> Bytes {
        initial_window::rfc6928(path.mss, self.config.flight)
    }

    /// Returns whether `ack` reports anything that was sent after the flight.
    fn is_past_flight(&self, ack: &Ack<'_>) -> bool {
        ack.acked.last().zip(self.last).is_some_and(|(segment, (last, _))| segment.tx > last)
    }

    /// Returns the threshold while slow start continues.
    fn ceiling(&mut self, path: &Path) -> Option<f64> {
        self.after.in_avoidance = false;
        let part = if self.after.again { self.config.gamma.max(1) } else { 1 };
        self.holds(path).filter(|_| self.follows).map(|holds| holds.as_f64() / part as f64)
    }

    /// Returns the threshold up to which slow start resumes, if the path holds clearly more than the window.
    fn room(&mut self, path: &Path, window: &Window) -> Option<f64> {
        self.after.in_avoidance = true;
        let seen = self.after.seen.filter(|_| self.follows && self.transport_paces)?;
        let usual = *self.after.usual.get_or_insert(seen);
        let room = self.holds(path)?.as_f64() / self.config.gamma.max(1) as f64;
        let found = room >= window.cwnd * CLEARLY && seen.tells_of_room(&usual, self.rtt?);
        if found {
            (self.after.usual, self.after.again) = (Some(seen), true);
        }
        found.then_some(room)
    }
}

impl Stage for SwiftStartHardened {
    fn needs(&self) -> Needs {
        let preferred = Demands { pacing: true, arrival_times: true, segments: true, ..Demands::default() };
        Needs { preferred, ..Needs::default() }
    }

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.transport_paces = granted.pacing;
        self.by_arrivals = granted.arrival_times && granted.segments;
        self.by_acks.on_granted(granted, path)
    }

    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        if !self.by_arrivals {
            return true;
        }
        if let Some(sample) = ack.rtt {
            let rtt = path.handshake_rtt.unwrap_or(sample.rtt).min(sample.rtt);
            self.rtt = Some(self.rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let in_start = !matches!(self.phase, Phase::Off);
        self.follows &= in_start || std::mem::take(&mut self.asked);
        if !in_start && !self.follows {
            return true;
        }
        // The first ACK of the paced round, and that of a segment sent long before the others, would count a pause.
        let of_flight = in_start && !self.is_past_flight(ack) && self.expected(ack.now) == ack.now;
        if let Some(spacing) = self.spacing.as_mut().filter(|_| of_flight) {
            spacing.on_ack(ack);
        }
        self.after.seen = None;
        if ack.round_start && !in_start {
            self.end_round();
        }
        if let Some(sample) = ack.rtt {
            self.after.least = Some(self.after.least.map_or(sample.rtt, |least| least.min(sample.rtt)));
        }
        ack.acked.iter().for_each(|segment| self.gaps.note(segment));
        let newest = if self.after.in_avoidance { self.after.seen.map(|seen| seen.rate) } else { self.gaps.rate() };
        self.rate = newest.or(self.rate);
        true
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        if !self.by_arrivals {
            return self.by_acks.on_sent(sent, path);
        }
        if sent.kind == SegmentKind::Probe {
            return;
        }
        match &mut self.phase {
            Phase::Off => {}
            Phase::Probe(None) => {
                self.flight.on_sent(sent);
                self.last = Some((sent.tx, sent.now));
            }
            Phase::Probe(Some(_)) => {
                self.sent += sent.bytes;
                self.flight.disturbed |= sent.kind == SegmentKind::Retransmit;
            }
            Phase::Paced(round) => {
                self.sent += sent.bytes;
                round.on_sent(sent, path.mss);
            }
        }
    }

    fn next_tick(&self) -> Option<Time> {
        if !self.by_arrivals {
            return self.by_acks.next_tick();
        }
        match &self.phase {
            Phase::Off => None,
            Phase::Probe(expected) => expected.map(|at| at + self.config.abort),
            Phase::Paced(round) => round.next_tick(),
        }
    }

    fn overlay(&self) -> Overlay {
        if !self.by_arrivals {
            return self.by_acks.overlay();
        }
        match &self.phase {
            Phase::Off => Overlay::default(),
            Phase::Probe(_) => Overlay::at_once(),
            Phase::Paced(round) => round.overlay(),
        }
    }

    fn estimates(&self, tell: &mut dyn FnMut(Estimate)) {
        match self.rate.filter(|_| self.by_arrivals) {
            Some(rate) => tell(Estimate { name: "start-rate", value: Quantity::Rate(rate) }),
            None => self.by_acks.estimates(tell),
        }
    }

    fn phase(&self) -> &'static str {
        if !self.by_arrivals {
            return Stage::phase(&self.by_acks);
        }
        match self.phase {
            Phase::Off => "handshake",
            Phase::Probe(_) => "swift-start-probe",
            Phase::Paced(_) => "swift-start-paced",
        }
    }
}

impl Startup for SwiftStartHardened {
    fn begin(&mut self, opening: Opening, now: Time, path: &Path, window: &mut Window) -> Step {
        self.phase = Phase::Off;
        let initial = self.initial(path).as_f64();
        window.cwnd = match opening {
            Opening::Connection if path.handshake_lossy => return Step::Done,
            Opening::Connection if !self.by_arrivals => return self.by_acks.begin(opening, now, path, window),
            Opening::Connection => initial,
            Opening::Idle if self.pauses && self.by_arrivals => {
                self.reset();
                initial.min(window.cwnd)
            }
            _ => return Step::Done,
        };
        self.phase = Phase::Probe(None);
        self.follows = self.config.follow;
        self.after = After::default();
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        if !self.by_arrivals {
            return self.by_acks.on_ack(ack, path, window);
        }
        self.acked += ack.delivered;
        let plan = self.plan(path).filter(|_| !self.is_past_flight(ack));
        match &mut self.phase {
            Phase::Off => Step::Done,
            Phase::Probe(expected) => {
                let expected = *expected;
                self.on_probe_ack(expected, ack, path, window)
            }
            Phase::Paced(round) => {
                if let Some(plan) = plan {
                    round.replan(ack.now, &plan);
                }
                round.on_ack(ack, path);
                self.show(path, window)
            }
        }
    }

    /// The usual response follows for each signal, from the bytes in flight instead of the planned window.
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        if !self.by_arrivals {
            return self.by_acks.on_loss(loss, path, window);
        }
        if matches!(self.phase, Phase::Paced(_)) {
            window.keep_outstanding(loss.ack.flight_size, self.initial(path));
        }
        StartupResponse::Delegate
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        if !self.by_arrivals {
            return self.by_acks.on_tick(now, path, window);
        }
        match &mut self.phase {
            Phase::Off => Step::Done,
            Phase::Probe(expected) if expected.is_none_or(|at| now < at + self.config.abort) => Step::Stay,
            Phase::Probe(_) => self.finish(None, path, window),
            Phase::Paced(round) => {
                round.on_tick(now, path.mss);
                self.show(path, window)
            }
        }
    }

    fn threshold(&mut self, in_slow_start: bool, path: &Path, window: &Window) -> Option<f64> {
        self.asked = self.follows;
        if in_slow_start { self.ceiling(path) } else { self.room(path, window) }
    }

    fn on_timeout(&mut self, timeout: &Timeout, path: &Path, window: &mut Window) -> Option<f64> {
        if !self.by_arrivals {
            return self.by_acks.on_timeout(timeout, path, window);
        }
        if matches!(self.phase, Phase::Paced(_)) {
            window.keep_outstanding(timeout.flight_size, self.initial(path));
        }
        None
    }

    fn abort(&mut self) {
        self.phase = Phase::Off;
        self.follows = false;
        self.by_acks.abort();
    }
}

#[cfg(test)]
mod tests;

//! Swift Start by the times at which the receiver got the segments.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::dispersion::Dispersion;
use super::estimate::TickClock;
use super::pacing::{Round, RoundPlan, at_once};
use super::{ABORT, Flight, GAMMA, SwiftStart, SwiftStartConfig, grow};
use crate::compose::{Launch, LaunchStep, LaunchVerdict, Loss, Opening, Overlay, Stage, Window};
use crate::describe::{Entry, Make, OptionSpec, Safety, Slot};
use crate::{
    Ack, Demands, Estimate, Granted, NeedError, Needs, Path, Quantity, SegmentKind, Sent, Timeout, TxId, initial_window,
};

/// By this factor the path must have become faster, its round trip shorter, and what it holds be more than the window, before growth goes on.
const CLEARLY: f64 = 1.25;
/// A round trip of no more than this times the least has no queue in it that stays: HyStart++'s eighth (RFC 9406, section 4.3).
const NO_QUEUE: f64 = 1.125;

/// A round trip with fewer gaps tells nothing of that: with so many, most of what the median is of is newer than the round trip.
const TELLING_GAPS: u32 = 32;

/// The hardened Swift Start in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "swift-start-hardened",
    slot: Slot::Launch,
    summary: "Swift Start that measures at the receiver, and leaves its estimate for a threshold",
    reference: "after NASA TM-2004-212938",
    options: SwiftStartHardenedConfig::OPTIONS,
    tested: &[
        "swift-start-hardened+cubic",
        "swift-start-hardened(gamma=1)+cubic",
        "swift-start-hardened(gamma=1)+new-reno",
        "swift-start-hardened+hstcp",
        "swift-start-hardened(iw=4,follow=off)+westwood",
    ],
    safety: Safety::Shared,
    make: Make::Launch(|values| Box::new(SwiftStartHardened::new(SwiftStartHardenedConfig::from_values(values)))),
};

crate::options! {
    /// How [`SwiftStartHardened`] is set up.
    pub struct SwiftStartHardenedConfig {
        /// The window of the second round is the estimate over this: 1 to 8.
        gamma: u64 = GAMMA,
        /// Segments that the start sends back to back: 4 to 10.
        flight: u32 = OptionSpec::int("iw", 4, 10, 10, "segments that the start sends back to back"),
        /// How long after the first ACK an estimate is waited for.
        abort: Span [Span::from_millis] = ABORT,
        /// Go on estimating after the start.
        follow: bool =
            OptionSpec::flag("follow", true, "go on estimating until the first loss, and move the threshold"),
    }
}

/// Where the start stands.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Off,
    /// Too few gaps are known yet. The time of the first ACK, once there was one.
    Probe(Option<Time>),
    Paced(Round),
}

/// Swift Start whose dispersion is the receiver's.
///
/// Where the peer reports arrival times, the estimate is by the gaps between the segments of the first flight as they arrived:
/// what becomes of the ACKs, and which of them were delayed, does not matter, and what receive offload merged is left out. It
/// gets better with each ACK of the flight. The round trip is the handshake's, or the first ACK's if that is less, and the
/// estimate at most twice the peer's window. Where there are no reports it is [`SwiftStart`] with that round trip.
///
/// Either way the whole estimate is left for a threshold, which follows further gaps while growth leads up to it. While the law has
/// the window and nothing is lost, the gaps of each round trip are compared with those of the first: where the path has become faster by
/// a quarter, a queue that was there has gone, and the estimate over gamma is a quarter above the window, growth leads up to that.
#[derive(Clone, Debug)]
pub struct SwiftStartHardened {
    config: SwiftStartHardenedConfig,
    /// Does the work where there are no arrival times.
    by_acks: SwiftStart,
    by_arrivals: bool,
    transport_paces: bool,
    phase: Phase,
    flight: Flight,
    /// The last segment of the flight.
    last: Option<TxId>,
    acked: Bytes,
    /// Bytes that left after the flight.
    sent: Bytes,
    gaps: Dispersion,
    /// The round trip without a queue.
    rtt: Option<Span>,
    rate: Option<Rate>,
    /// It goes on estimating, and was asked for what it found at the last ACK: who is not asked any more may stop.
    follows: bool,
    asked: bool,
    after: After,
}

/// What is known once the start is over.
#[derive(Clone, Copy, Debug, Default)]
struct After {
    /// The law has the window, and not growth.
    in_law: bool,
    /// Growth has had it a second time.
    again: bool,
    /// A round trip has begun since the start.
    round: bool,
    /// The least round trip in this one.
    least: Option<Span>,
    /// Of the round trip that has just ended, at its end.
    seen: Option<Seen>,
    /// What others are compared with: that of the first, by pairs as they are.
    usual: Option<Seen>,
}

/// What a round trip told while the law had the window.
#[derive(Clone, Copy, Debug)]
struct Seen {
    rate: Rate,
    /// The least round trip in it: how much of a queue there was all the time.
    rtt: Span,
}

impl Seen {
    /// Whether others have left, who at first had made a queue of what the law keeps on the path of `rtt`: segments come closer, and the
    /// queue is gone. One of both may come by chance, as where a constant rate falls in or out of step with pairs.
    fn tells_of_room(&self, usual: &Self, rtt: Span) -> bool {
        let queue_is_gone = usual.rtt >= rtt.mul_f64(CLEARLY) && self.rtt <= rtt.mul_f64(NO_QUEUE);
        queue_is_gone && self.rate >= usual.rate.mul_f64(CLEARLY)
    }
}

impl SwiftStartHardened {
    /// A start as `config` says.
    #[must_use]
    pub fn new(config: SwiftStartHardenedConfig) -> Self {
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
            follows: false,
            asked: false,
            after: After::default(),
        }
    }

    /// The rate of payload that the path carries, by the newest estimate.
    #[must_use]
    pub fn estimate(&self) -> Option<Rate> {
        if self.by_arrivals { self.rate } else { self.by_acks.estimate().map(|estimate| estimate.rate()) }
    }

    /// What the path holds, bytes.
    fn holds(&self, path: &Path) -> Option<Bytes> {
        let held = self.rate?.bytes_in(self.rtt?);
        Some(held.min(path.peer_window * 2))
    }

    /// A round of the estimate over gamma, or of the peer's window if that is less: more would have to wait for the peer.
    fn plan(&self, path: &Path) -> Option<RoundPlan> {
        let window = Bytes(self.holds(path)?.0 / self.config.gamma.max(1)).min(path.peer_window);
        Some(RoundPlan { window, sent: self.sent, rtt: self.rtt?, mss: path.mss })
    }

    /// A round trip after the start ends, and another begins.
    fn end_round(&mut self) {
        let rate = self.gaps.rate().filter(|_| self.after.round && self.gaps.gaps() >= TELLING_GAPS);
        self.after.seen = rate.zip(self.after.least.take()).map(|(rate, rtt)| Seen { rate, rtt });
        self.after.round = true;
        self.gaps.restart();
    }

    fn is_disturbed(&self, ack: &Ack<'_>) -> bool {
        self.flight.disturbed || ack.newly_lost > Bytes::ZERO
    }

    /// An ACK of the flight before there is an estimate.
    fn on_probe_ack(&mut self, first: Option<Time>, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        if ack.delivered == Bytes::ZERO {
            return LaunchStep::Stay;
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
        if self.is_disturbed(ack) || told || plan.is_some() {
            return self.finish(None, path, window);
        }
        self.phase = Phase::Probe(first.or(Some(ack.now)));
        LaunchStep::Stay
    }

    fn show(&mut self, path: &Path, window: &mut Window) -> LaunchStep {
        let Phase::Paced(round) = &self.phase else { return LaunchStep::Stay };
        if round.is_over() {
            let outstanding = round.in_flight();
            return self.finish(Some(outstanding), path, window);
        }
        window.cwnd = round.window().as_f64();
        LaunchStep::Stay
    }

    /// Hands over: what is outstanding is the window, the whole estimate the threshold.
    fn finish(&mut self, outstanding: Option<Bytes>, path: &Path, window: &mut Window) -> LaunchStep {
        if let Some(outstanding) = outstanding {
            window.cwnd = outstanding.max(self.initial(path)).as_f64();
        }
        if let Some(holds) = self.holds(path) {
            window.ssthresh = window.ssthresh.min(holds.as_f64());
        }
        self.phase = Phase::Off;
        self.asked = true;
        LaunchStep::Done
    }

    fn initial(&self, path: &Path) -> Bytes {
        initial_window::rfc6928(path.mss, self.config.flight)
    }

    /// Whether `ack` is the first one that tells of anything sent after the flight.
    fn is_past_flight(&self, ack: &Ack<'_>) -> bool {
        ack.acked.last().zip(self.last).is_some_and(|(segment, last)| segment.tx > last)
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
        self.after.seen = None;
        if ack.round_start && !in_start {
            self.end_round();
        }
        if let Some(sample) = ack.rtt {
            self.after.least = Some(self.after.least.map_or(sample.rtt, |least| least.min(sample.rtt)));
        }
        ack.acked.iter().for_each(|segment| self.gaps.note(segment));
        let newest = if self.after.in_law { self.after.seen.map(|seen| seen.rate) } else { self.gaps.rate() };
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
                self.last = Some(sent.tx);
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
            Phase::Probe(first) => first.map(|first| first + self.config.abort),
            Phase::Paced(round) => round.next_tick(),
        }
    }

    fn overlay(&self) -> Overlay {
        if !self.by_arrivals {
            return self.by_acks.overlay();
        }
        match &self.phase {
            Phase::Off => Overlay::default(),
            Phase::Probe(_) => at_once(),
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

impl Launch for SwiftStartHardened {
    fn begin(&mut self, opening: Opening, now: Time, path: &Path, window: &mut Window) -> LaunchStep {
        self.phase = Phase::Off;
        if opening != Opening::Connection || path.handshake_lossy {
            return LaunchStep::Done;
        }
        if !self.by_arrivals {
            return self.by_acks.begin(opening, now, path, window);
        }
        window.cwnd = self.initial(path).as_f64();
        self.phase = Phase::Probe(None);
        self.follows = self.config.follow;
        self.after = After::default();
        LaunchStep::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        if !self.by_arrivals {
            return self.by_acks.on_ack(ack, path, window);
        }
        self.acked += ack.delivered;
        let plan = self.plan(path).filter(|_| !self.is_past_flight(ack));
        match &mut self.phase {
            Phase::Off => LaunchStep::Done,
            Phase::Probe(first) => {
                let first = *first;
                self.on_probe_ack(first, ack, path, window)
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

    /// Whatever the signal: the usual answer follows, from what is in flight and not from what was to be.
    fn on_loss(&mut self, loss: &Loss<'_>, path: &Path, window: &mut Window) -> LaunchVerdict {
        if !self.by_arrivals {
            return self.by_acks.on_loss(loss, path, window);
        }
        if matches!(self.phase, Phase::Paced(_)) {
            window.keep_outstanding(loss.ack.flight_size, self.initial(path));
        }
        LaunchVerdict::Delegate
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> LaunchStep {
        if !self.by_arrivals {
            return self.by_acks.on_tick(now, path, window);
        }
        match &mut self.phase {
            Phase::Off => LaunchStep::Done,
            Phase::Probe(first) if first.is_none_or(|first| now < first + self.config.abort) => LaunchStep::Stay,
            Phase::Probe(_) => self.finish(None, path, window),
            Phase::Paced(round) => {
                round.on_tick(now, path.mss);
                self.show(path, window)
            }
        }
    }

    fn threshold(&mut self, path: &Path) -> Option<f64> {
        self.asked = self.follows;
        self.after.in_law = false;
        let part = if self.after.again { self.config.gamma.max(1) } else { 1 };
        self.holds(path).filter(|_| self.follows).map(|holds| holds.as_f64() / part as f64)
    }

    fn room(&mut self, path: &Path, window: &Window) -> Option<f64> {
        self.asked = self.follows;
        self.after.in_law = true;
        let seen = self.after.seen.filter(|_| self.follows && self.transport_paces)?;
        let usual = *self.after.usual.get_or_insert(seen);
        let room = self.holds(path)?.as_f64() / self.config.gamma.max(1) as f64;
        let found = room >= window.cwnd * CLEARLY && seen.tells_of_room(&usual, self.rtt?);
        if found {
            (self.after.usual, self.after.again) = (Some(seen), true);
        }
        found.then_some(room)
    }

    fn on_timeout(&mut self, timeout: &Timeout, path: &Path, window: &mut Window) {
        if !self.by_arrivals {
            return self.by_acks.on_timeout(timeout, path, window);
        }
        if matches!(self.phase, Phase::Paced(_)) {
            window.keep_outstanding(timeout.flight_size, self.initial(path));
        }
    }

    fn abort(&mut self) {
        self.phase = Phase::Off;
        self.follows = false;
        self.by_acks.abort();
    }
}

#[cfg(test)]
mod tests;

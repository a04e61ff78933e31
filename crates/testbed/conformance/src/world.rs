//! Model of a transport that reports only legal events.

mod line;

use longhaul_units::{Bytes, Rate, Span, Time};

pub use line::{Filled, Pipe, fill};

use self::line::Line;
use super::judge::{Happened, Judge};
use super::{Expect, Operation, Poverty, Scenario};
use longhaul_cc::{
    Ack, AckedSegment, BuildParams, Control, Controller, ControllerFactory, Detection, EcnMark, Episode, Granted,
    LostSegment, NetworkFeedback, NetworkHeader, Path, PathEvent, RateSample, RttSample, SegmentKind, SendLimit, Sent,
    Snapshot, Timeout, TxId,
};

/// Initial answer of the routers, kB/s.
const FIRST_FEEDBACK: u64 = 1_000;

/// A controller's state after an event.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The controller's latest decisions.
    pub control: Control,
    /// The controller's values for logs.
    pub snapshot: Snapshot,
}

/// Reports `operations` to a controller of `factory` and returns its decisions, one per event, or none if the
/// controller does not accept the scenario's grants.
///
/// # Panics
/// Panics if a rule is broken.
pub fn play(
    factory: &dyn ControllerFactory,
    scenario: &Scenario,
    operations: &[Operation],
    expect: Expect,
) -> Vec<Answer> {
    World::new(factory, scenario, expect).play(scenario, operations)
}

pub(super) struct World {
    controller: Box<dyn Controller>,
    /// Whether a clone takes the controller's place after each event.
    pub(super) clones: bool,
    judge: Judge,
    trace: Vec<Answer>,
    /// The true time. The controller sees it with the resolution of its clock.
    now: Time,
    resolution: Span,
    tick_delay: Span,
    path: Path,
    rtt: Span,
    segments: bool,
    ecn: EcnMark,
    next_tx: u64,
    total_delivered: Bytes,
    total_lost: Bytes,
    in_flight: Bytes,
    /// Number of bytes that arrived and are not cumulatively acknowledged.
    sacked: Bytes,
    /// Bytes marked lost and not retransmitted yet.
    lost: Bytes,
    episode: Episode,
    timeouts: u32,
    /// Whether the last decrease that may be undone was caused by a timeout, if there is one.
    undoable: Option<bool>,
    limited: bool,
    limit: SendLimit,
    /// Total delivered bytes at which the round trip ends.
    round_end: Bytes,
    /// Whether a mark was reported in this round trip.
    marked: bool,
    probes: u32,
    /// The answer of the routers, kB/s.
    feedback: Option<u64>,
    /// The bottleneck, if this is a closed loop.
    line: Option<Line>,
    poverty: Poverty,
}

impl World {
    pub(super) fn new(factory: &dyn ControllerFactory, scenario: &Scenario, expect: Expect) -> Self {
        let mut params = BuildParams::default();
        (params.mss, params.max_cwnd) = (scenario.mss, scenario.cap);
        let mut path = Path::new(scenario.mss);
        path.handshake_rtt = Some(scenario.rtt);
        path.handshake_lossy = scenario.handshake_lossy;
        path.paced = scenario.granted.pacing;
        path.sack = scenario.granted.detection != Detection::DuplicateAcks;
        let controller = factory.build(&params);
        assert!(controller.control().cwnd >= scenario.mss, "no window before the handshake");
        Self {
            judge: Judge::new(expect, scenario.cap),
            controller,
            clones: false,
            trace: Vec::new(),
            now: scenario.start,
            resolution: scenario.resolution,
            tick_delay: scenario.rtt / 16 * u64::from(scenario.tick_delay),
            path,
            rtt: scenario.rtt,
            segments: scenario.granted.segments,
            ecn: scenario.granted.ecn,
            next_tx: 0,
            total_delivered: Bytes::ZERO,
            total_lost: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            sacked: Bytes::ZERO,
            lost: Bytes::ZERO,
            episode: Episode::None,
            timeouts: 0,
            undoable: None,
            limited: false,
            limit: SendLimit::App,
            round_end: Bytes::ZERO,
            marked: false,
            probes: 0,
            feedback: scenario.granted.network_header.map(|_| FIRST_FEEDBACK),
            line: None,
            poverty: Poverty::Nothing,
        }
    }

    pub(super) fn play(mut self, scenario: &Scenario, operations: &[Operation]) -> Vec<Answer> {
        if self.establish(scenario.granted) {
            operations.iter().for_each(|operation| self.step(*operation, scenario));
        }
        self.trace
    }

    /// Returns false if the controller does not accept the grants.
    fn establish(&mut self, granted: Granted) -> bool {
        if self.controller.on_granted(&granted, &self.path).is_err() {
            let missing = self.controller.needs().required.missing(&granted);
            assert!(missing.is_some(), "refused although nothing required is missing");
            return false;
        }
        self.event(&PathEvent::Established { now: self.clock(), granted }, &Happened::Established);
        self.hear_of_handshake();
        true
    }

    /// Returns `time` as the controller's clock shows it.
    fn shown(&self, time: Time) -> Time {
        let step = self.resolution.as_nanos().max(1);
        Time::from_nanos(time.as_nanos() / step * step)
    }

    fn clock(&self) -> Time {
        self.shown(self.now)
    }

    /// Returns the first time at which the clock shows `time` or later.
    fn when_shown(&self, time: Time) -> Time {
        let step = self.resolution.as_nanos().max(1);
        Time::from_nanos(time.as_nanos().div_ceil(step).saturating_mul(step))
    }

    fn answer(&self) -> Answer {
        Answer { control: self.controller.control(), snapshot: self.controller.snapshot() }
    }

    fn tell(&mut self, happened: &Happened<'_>, call: impl FnOnce(&mut dyn Controller, &Path)) {
        let before = self.answer();
        call(&mut *self.controller, &self.path);
        if self.clones {
            self.controller = self.controller.clone();
        }
        let after = self.answer();
        self.judge.compare(&before, &after, happened, self.path.mss);
        self.trace.push(after);
    }

    fn event(&mut self, event: &PathEvent, happened: &Happened<'_>) {
        self.tell(happened, |controller, path| controller.on_event(event, path));
    }

    fn flight_size(&self) -> Bytes {
        self.in_flight + self.sacked + self.lost
    }

    fn in_recovery(&self) -> bool {
        matches!(self.episode, Episode::Enter | Episode::In | Episode::Again)
    }

    /// Lets time pass, and calls the ticks that are due.
    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        for _ in 0..64 {
            let due = self.controller.next_tick().map(|due| self.when_shown(due + self.tick_delay));
            let Some(due) = due.filter(|due| *due <= until) else {
                break;
            };
            self.now = self.now.max(due);
            let now = self.clock();
            self.tell(&Happened::Other, |controller, path| controller.on_tick(now, path));
            let next = self.controller.next_tick();
            assert!(next.is_none_or(|next| next > now), "the tick at {now} is still due");
        }
        self.now = self.now.max(until);
    }

    fn step(&mut self, operation: Operation, scenario: &Scenario) {
        self.pass(self.rtt / 16);
        match operation {
            Operation::Send { segments } => self.send(u64::from(segments)),
            Operation::Fill => self.send(u64::MAX),
            Operation::Ack { share, rtt, selective, marked } => self.ack(share, rtt, selective, marked),
            Operation::Bunch { acks } => (0..acks).for_each(|_| self.ack(255 / 8, 1, false, false)),
            Operation::Lose { share, timer } => self.lose(share, timer),
            Operation::LoseAgain => self.lose_again(),
            Operation::Finish => self.finish(),
            Operation::Timeout => self.timeout(),
            Operation::Spurious => self.spurious(),
            Operation::Idle { rounds } => self.idle(u64::from(rounds)),
            Operation::Wait { sixteenths } => self.pass(self.rtt / 16 * u64::from(sixteenths)),
            Operation::Mss { sixteenths } => self.resize((scenario.mss * u64::from(sixteenths) / 16) + Bytes(1)),
            Operation::Route { sixteenths } => {
                self.rtt = scenario.rtt / 16 * u64::from(sixteenths) + Span::from_nanos(1);
            }
            Operation::Limit(limit) => self.limit = limit,
            Operation::Sack(sack) => self.path.sack = sack,
            Operation::Peer { window, queued } => {
                self.path.peer_window = self.path.mss * u64::from(window);
                self.path.queued = self.path.mss * u64::from(queued);
            }
            Operation::Probe => self.probe(),
            Operation::Feedback { rate } => self.feedback = Some(rate.into()),
        }
    }

    fn sent(&mut self, bytes: Bytes, kind: SegmentKind) {
        let mut event = Sent::new(self.clock(), TxId(self.next_tx), bytes);
        event.in_flight_before = self.in_flight;
        event.kind = if self.poverty.lacks(Poverty::Kinds) { SegmentKind::Data } else { kind };
        event.tag = self.controller.control().tag;
        self.next_tx += 1;
        if kind != SegmentKind::Probe {
            self.in_flight += bytes;
            self.startup(bytes, kind);
        }
        self.tell(&Happened::Other, |controller, path| controller.on_sent(&event, path));
    }

    /// Sends up to `segments` segments in at most 64 events: a large window is sent in larger pieces.
    fn send(&mut self, segments: u64) {
        let mss = self.path.mss.0;
        let room = (self.controller.control().cwnd - self.in_flight).0 / mss;
        let piece = (room.min(segments) / 32).max(1);
        let mut left = segments;
        for _ in 0..64 {
            let room = (self.controller.control().cwnd - self.in_flight).0 / mss;
            let count = piece.min(room).min(left);
            if count == 0 {
                break;
            }
            left -= count;
            self.sent_or_resent(Bytes(count * mss));
        }
        let full = (self.controller.control().cwnd - self.in_flight).0 < mss;
        self.limit = if full { SendLimit::Cwnd } else { SendLimit::App };
        self.limited |= full;
    }

    fn sent_or_resent(&mut self, bytes: Bytes) {
        if self.lost == Bytes::ZERO {
            self.sent(bytes, SegmentKind::Data);
        } else {
            let again = bytes.min(self.lost);
            self.lost -= again;
            self.sent(again, SegmentKind::Retransmit);
        }
    }

    fn probe(&mut self) {
        if let Some(plan) = self.controller.control().probe {
            assert!(plan.prefer.iter().any(Option::is_some), "a probe plan without a kind");
            if self.probes < plan.segments {
                self.probes += 1;
                self.sent(self.path.mss, SegmentKind::Probe);
            }
        }
    }

    /// Returns a fraction of the data in flight, in whole segments if possible, and zero only if nothing is in
    /// flight.
    fn part(&self, share: u8) -> Bytes {
        let mss = self.path.mss;
        let part = Bytes((u128::from(self.in_flight.0) * u128::from(share) / 255) as u64);
        (part / mss.0 * mss.0).max(mss).min(self.in_flight)
    }

    /// Takes a sample of `rtt` in whole steps of the clock, possibly zero.
    fn sample_rtt(&mut self, rtt: Span) {
        let rtt = self.clock().since(self.shown(self.now - rtt));
        crate::testing::smoothed::observe(&mut self.path, rtt, self.in_flight);
    }

    /// Reports an ACK with these deliveries and losses, which leaves the episode in state `episode`.
    fn acknowledge(&mut self, delivered: Bytes, cumulative: Bytes, lost: Bytes, episode: Episode, marked: bool) {
        let now = self.clock();
        let mut ack = Ack::new(now);
        ack.rx_time = Some(now);
        ack.prior_in_flight = self.in_flight;
        ack.flight_size = self.flight_size();
        self.in_flight -= delivered + lost;
        self.lost += lost;
        self.total_lost += lost;
        self.total_delivered += delivered;
        (ack.delivered, ack.cumulative, ack.newly_lost) = (delivered, cumulative, lost);
        (ack.total_delivered, ack.in_flight) = (self.total_delivered, self.in_flight);
        if episode == Episode::Enter {
            ack.recover_flight = ack.flight_size - self.sacked;
        }
        self.sacked = self.sacked + delivered - cumulative;
        // The round trip, the limit and the samples.
        ack.round_start = delivered > Bytes::ZERO && self.total_delivered >= self.round_end;
        ack.cwnd_limited = self.limited;
        (ack.limit, ack.episode) = (self.limit, episode);
        if delivered > Bytes::ZERO {
            ack.rtt = self.path.latest_rtt.map(|rtt| RttSample::new(rtt, now - rtt));
            ack.rate = Some(self.sample_rate(delivered, lost, ack.prior_in_flight));
        }
        ack.ecn_echo = marked && !self.marked && self.ecn != EcnMark::NotEct;
        self.marked |= ack.ecn_echo;
        (ack.probes_acked, ack.probes_lost) = (self.probes / 2, self.probes % 2);
        self.probes = 0;
        ack.network = self.hear(delivered);
        let sent_at = now - self.path.latest_rtt.unwrap_or(self.rtt);
        let mut acked = AckedSegment::new(TxId(self.next_tx), sent_at, delivered);
        acked.arrival = Some(now);
        let mut gone = LostSegment::new(TxId(self.next_tx), sent_at, lost);
        (gone.in_flight_at_send, gone.lost_at_send) = (ack.prior_in_flight, self.total_lost);
        let (acked, gone) = ([acked], [gone]);
        if self.segments {
            ack.acked = if delivered > Bytes::ZERO { &acked } else { &[] };
            ack.lost = if lost > Bytes::ZERO { &gone } else { &[] };
        }
        // The ACK begins a new round trip.
        if ack.round_start {
            self.round_end = self.total_delivered + self.in_flight;
            (self.limited, self.marked) = (false, ack.ecn_echo);
        }
        if cumulative > Bytes::ZERO {
            self.timeouts = 0;
        }
        self.tell(&Happened::Acked(&ack), |controller, path| controller.on_ack(&ack, path));
    }

    /// Returns the delivery-rate sample of the acknowledged segment in a closed loop, or one computed from this ACK
    /// alone in a random history.
    fn sample_rate(&mut self, delivered: Bytes, lost: Bytes, prior_in_flight: Bytes) -> RateSample {
        if let Some(rate) = self.line.as_mut().and_then(|line| line.sample.take()) {
            return rate;
        }
        let mut rate = RateSample::new(delivered, self.rtt);
        (rate.app_limited, rate.lost) = (!self.limited, lost);
        (rate.prior_delivered, rate.tx_in_flight) = (self.total_delivered - delivered, prior_in_flight);
        rate
    }

    /// Reports the routers' answer to the request on the SYN, before any other event.
    fn hear_of_handshake(&mut self) {
        let mut ack = Ack::new(self.clock());
        ack.network = self.feedback.and_then(|rate| self.answer_header(rate));
        if ack.network.is_some() {
            self.tell(&Happened::Acked(&ack), |controller, path| controller.on_ack(&ack, path));
        }
    }

    /// Returns the routers' answer: with each ACK of data if each segment carries a request, otherwise once.
    fn hear(&mut self, delivered: Bytes) -> Option<NetworkFeedback> {
        let header = self.controller.control().header?;
        let each = matches!(header, NetworkHeader::Rcp { .. } | NetworkHeader::Xcp { .. });
        let rate = if each { self.feedback.filter(|_| delivered > Bytes::ZERO) } else { self.feedback.take() };
        rate.and_then(|rate| self.answer_header(rate))
    }

    fn answer_header(&self, rate: u64) -> Option<NetworkFeedback> {
        let bytes = Rate::from_bytes_per_sec(rate * 1000);
        Some(match self.controller.control().header? {
            _ if rate == 0 => NetworkFeedback::Denied,
            NetworkHeader::QuickStart { rate } => NetworkFeedback::QuickStart(bytes.min(rate)),
            NetworkHeader::Rcp { .. } => NetworkFeedback::Rcp(bytes),
            NetworkHeader::Xcp { .. } => NetworkFeedback::Xcp(rate as i64 - 30_000),
            _ => return None,
        })
    }

    fn ack(&mut self, share: u8, rtt: u8, selective: bool, marked: bool) {
        let delivered = self.part(share);
        if delivered == Bytes::ZERO {
            return;
        }
        if self.episode != Episode::None && self.lost == Bytes::ZERO && delivered == self.in_flight {
            return self.finish();
        }
        self.sample_rtt(self.rtt * u64::from(rtt));
        let holes = self.lost > Bytes::ZERO || self.in_recovery();
        let cumulative = match (selective, holes) {
            (true, _) => Bytes::ZERO,
            (false, true) => delivered,
            (false, false) => delivered + self.sacked,
        };
        if self.in_recovery() {
            self.episode = Episode::In;
        }
        self.acknowledge(delivered, cumulative, Bytes::ZERO, self.episode, marked);
    }

    fn lose(&mut self, share: u8, timer: bool) {
        let lost = self.part(share);
        let delivered = if timer { Bytes::ZERO } else { self.path.mss.min(self.in_flight - lost) };
        if lost == Bytes::ZERO {
            return;
        }
        self.episode = match self.episode {
            Episode::None | Episode::Exit => {
                self.undoable = Some(false);
                Episode::Enter
            }
            Episode::Rto => Episode::Rto,
            Episode::Enter | Episode::In | Episode::Again => Episode::In,
        };
        self.acknowledge(delivered, Bytes::ZERO, lost, self.episode, false);
        if self.episode == Episode::Enter {
            self.sent_or_resent(self.path.mss);
        }
    }

    fn lose_again(&mut self) {
        if self.in_recovery() && self.in_flight > Bytes::ZERO {
            self.episode = Episode::Again;
            let lost = self.path.mss.min(self.in_flight);
            self.acknowledge(Bytes::ZERO, Bytes::ZERO, lost, Episode::Again, false);
            self.sent_or_resent(self.path.mss);
        }
    }

    fn finish(&mut self) {
        if self.lost > Bytes::ZERO || self.flight_size() == Bytes::ZERO {
            return;
        }
        self.sample_rtt(self.rtt);
        let ends = self.episode != Episode::None;
        let episode = if ends { Episode::Exit } else { Episode::None };
        self.episode = Episode::None;
        self.acknowledge(self.in_flight, self.in_flight + self.sacked, Bytes::ZERO, episode, false);
    }

    fn timeout(&mut self) {
        if self.flight_size() == Bytes::ZERO {
            return;
        }
        self.timeouts += 1;
        let mut event = Timeout::new(self.clock(), self.timeouts, self.flight_size());
        self.lost += self.in_flight;
        self.in_flight = Bytes::ZERO;
        event.in_flight = self.in_flight;
        self.episode = Episode::Rto;
        if self.timeouts == 1 {
            self.undoable = Some(true);
        }
        let nth = self.timeouts;
        self.tell(&Happened::TimedOut { nth }, |controller, path| controller.on_timeout(&event, path));
        self.sent_or_resent(self.path.mss);
    }

    fn spurious(&mut self) {
        let Some(timeout) = self.undoable.take() else {
            return;
        };
        self.episode = Episode::None;
        self.lost = Bytes::ZERO;
        self.timeouts = 0;
        let event = PathEvent::Spurious { now: self.clock(), timeout, in_flight: self.in_flight };
        self.event(&event, &Happened::Undone);
    }

    fn idle(&mut self, rounds: u64) {
        if self.flight_size() == Bytes::ZERO {
            let idle = self.rtt * rounds;
            self.pass(idle);
            self.event(&PathEvent::IdleRestart { now: self.clock(), idle }, &Happened::Idled);
        }
    }

    fn resize(&mut self, mss: Bytes) {
        let old = self.path.mss;
        if mss != old {
            self.path.mss = mss;
            self.event(&PathEvent::Mss { now: self.clock(), old }, &Happened::Resized);
        }
    }
}

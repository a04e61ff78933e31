use super::*;
use crate::{AckedSegment, TxId};

const MSS: Bytes = Bytes(1000);
const RTT: Span = Span::from_millis(100);
const IW: f64 = 10_000.0;

fn path() -> Path {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.srtt, path.min_rtt) = (Some(RTT), Some(RTT), Some(RTT));
    path.queued = Bytes(1 << 30);
    path
}

fn start(timed: bool) -> PacedStart {
    let mut launch = PacedStart::new(PacedStartConfig { first_train: 2, tolerance: 0.1, precision: 0.2 });
    launch
        .on_granted(&Granted { arrival_times: timed, segments: timed, ack_cadence: true, ..Granted::basic() }, &path())
        .unwrap();
    launch
}

fn micros(micros: u64) -> Span {
    Span::from_micros(micros)
}

/// A path without others: a narrow link that puts `gap` between segments, at least.
struct World {
    launch: PacedStart,
    window: Window,
    now: Time,
    timed: bool,
    narrow: Span,
    /// What others take: gaps below this grow to it, but for trains of two.
    available: Span,
}

impl World {
    fn new(timed: bool, narrow: u64, available: u64) -> Self {
        let (mut launch, mut window) = (start(timed), Window::new(IW));
        assert_eq!(launch.begin(Opening::Connection, Time::ZERO, &path(), &mut window), LaunchStep::Stay);
        Self { launch, window, now: Time::ZERO, timed, narrow: micros(narrow), available: micros(available) }
    }

    /// How many segments the train has, and the gap between them as it leaves.
    fn train(&self) -> (u64, Span) {
        let Phase::Searching(train) = self.launch.phase else { panic!("{:?}", self.launch.phase) };
        (train.size.0 / MSS.0, train.gap.unwrap_or(Span::ZERO))
    }

    /// The train leaves and its ACKs come.
    fn round(&mut self) -> LaunchStep {
        let (count, gap) = self.train();
        assert_eq!(self.window.cwnd, count as f64 * 1000.0);
        let pace = self.launch.overlay().pace.unwrap();
        if gap > Span::ZERO {
            assert_eq!((pace.rate, pace.quantum), (Rate::from_bytes_over(MSS, gap), Some(MSS)));
        }
        let least = if count == 2 { self.narrow } else { self.available };
        let arrives = gap.max(least);
        let begun = self.now;
        for k in 0..count {
            self.launch.on_sent(&Sent::new(begun + gap * k, TxId(k), MSS), &path());
        }
        let mut step = LaunchStep::Stay;
        for k in 0..count {
            assert_eq!(step, LaunchStep::Stay);
            self.now = begun + RTT + arrives * k;
            let mut ack = Ack::new(self.now);
            (ack.delivered, ack.cumulative) = (MSS, MSS);
            let mut segment = AckedSegment::new(TxId(k), begun + gap * k, MSS);
            segment.arrival = Some(self.now - RTT / 2);
            let segments = [segment];
            if self.timed {
                // The ACKs come all at once: they are not what is looked at.
                ack.now = begun + RTT + arrives * count;
                ack.acked = &segments;
            }
            step = self.launch.on_ack(&ack, &path(), &mut self.window);
        }
        step
    }

    /// The gap of the window that is found.
    fn found(&self) -> Rate {
        let Phase::Filling(rate) = self.launch.phase else { panic!("{:?}", self.launch.phase) };
        assert_eq!(self.launch.overlay().pace, Some(Pace { rate, quantum: None }));
        assert_eq!((self.window.cwnd, self.window.ssthresh), (self.window.ssthresh, self.window.cwnd));
        rate
    }
}

/// Nobody else on the path: the pair tells the narrow link's gap of 1 ms, a train of four keeps it, and the window is
/// 100 ms of it; from arrival times, or from ACKs.
#[test]
fn an_empty_path_takes_two_trains() {
    for timed in [true, false] {
        let mut world = World::new(timed, 1000, 1000);
        assert_eq!(world.train(), (2, Span::ZERO));
        assert_eq!(world.launch.overlay(), at_once());
        world.round();
        if !timed {
            // Of two ACKs the second may have waited for a timer.
            assert_eq!(world.train(), (4, Span::ZERO));
            world.available = world.narrow;
            world.round();
        }
        let segments = if timed { 4 } else { 8 };
        assert_eq!(world.train(), (segments, micros(1000)));
        world.round();
        assert_eq!(world.found(), Rate::from_bytes_per_sec(1_000_000));
        assert_eq!(world.window.cwnd, 100_000.0);
        let mut ack = Ack::new(world.now);
        assert_eq!(world.launch.on_ack(&ack, &path(), &mut world.window), LaunchStep::Stay);
        ack.delivered = MSS;
        assert_eq!(world.launch.on_ack(&ack, &path(), &mut world.window), LaunchStep::Done);
        assert_eq!(world.launch.overlay(), Overlay::default());
    }
}

/// Others leave a gap of 2 ms: 1 and 1.5 ms grow, 2.25 do not, and the middle of the two is within a fifth of it.
#[test]
fn the_search_halves_what_is_left() {
    let mut world = World::new(true, 1000, 2000);
    let mut trains = Vec::new();
    while matches!(world.launch.phase, Phase::Searching(_)) {
        trains.push(world.train());
        world.round();
    }
    let expected = [(2, 0), (4, 1000), (8, 1500), (16, 2250), (32, 1875)];
    assert_eq!(trains, expected.map(|(count, gap)| (count, micros(gap))));
    // 1.875 ms grow by less than a tenth: the path takes them.
    assert_eq!(world.found(), Rate::from_bytes_over(MSS, micros(1875)));
    assert_eq!(world.window.cwnd, 53_000.0);
}

/// A train that would fill the path is the last, wherever the search stands.
#[test]
fn a_train_that_fills_the_path_ends_it() {
    let mut world = World::new(true, 10_000, 25_000);
    world.round();
    world.round();
    // 15 ms: 6 segments fill the path.
    assert_eq!(world.train(), (6, micros(15_000)));
    world.round();
    assert_eq!(world.window.cwnd, 4000.0, "22.5 ms");
}

/// What is merged on the way tells nothing: longer trains, up to the initial window, and then growth.
#[test]
fn blind_it_gives_up_at_the_initial_window() {
    let mut world = World::new(true, 0, 0);
    for count in [2, 4, 8] {
        assert_eq!(world.train(), (count, Span::ZERO));
        assert_eq!(world.round(), LaunchStep::Stay);
    }
    assert_eq!((world.train().0, world.round()), (16, LaunchStep::Done));
    assert_eq!(world.window, Window::new(16_000.0));
}

/// Nothing more to send: growth goes on from the initial window, with no threshold.
#[test]
fn a_train_that_is_short_is_the_last() {
    let mut world = World::new(true, 1000, 1000);
    world.round();
    world.launch.on_sent(&Sent::new(world.now, TxId(9), MSS), &path());
    let mut ack = Ack::new(world.now + RTT);
    ack.delivered = MSS;
    assert_eq!(world.launch.on_ack(&ack, &path(), &mut world.window), LaunchStep::Stay, "the pacer holds it back");
    let mut empty = path();
    empty.queued = Bytes::ZERO;
    ack.delivered = Bytes::ZERO;
    assert_eq!(world.launch.on_ack(&ack, &empty, &mut world.window), LaunchStep::Done);
    assert_eq!(world.window, Window::new(IW));
}

/// While a train is on its way nothing leaves for what arrives.
#[test]
fn acks_within_a_train_let_nothing_go() {
    let mut world = World::new(true, 1000, 1000);
    world.round();
    for k in 0..4 {
        world.launch.on_sent(&Sent::new(world.now + micros(1000) * k, TxId(k), MSS), &path());
    }
    for left in [3, 2, 1] {
        let mut ack = Ack::new(world.now + RTT);
        ack.delivered = MSS;
        assert_eq!(world.launch.on_ack(&ack, &path(), &mut world.window), LaunchStep::Stay);
        assert_eq!(world.window.cwnd, f64::from(left) * 1000.0, "what is still in flight");
    }
}

/// Retransmissions are no measure.
#[test]
fn what_was_sent_again_does_not_count() {
    let mut train = Train::new(MSS * 2, MSS, Some(micros(10)));
    let mut segments = [0, 5000].map(|at| {
        let mut segment = AckedSegment::new(TxId(at), Time::ZERO, MSS);
        segment.arrival = Some(Time::ZERO + micros(at));
        segment
    });
    segments[1].kind = SegmentKind::Retransmit;
    let mut ack = Ack::new(Time::ZERO);
    (ack.delivered, ack.acked) = (MSS * 2, &segments);
    train.on_sent(&Sent::new(Time::ZERO, TxId(0), MSS));
    train.on_ack(&ack, Clock::Arrivals);
    assert_eq!(Search::new(0.1, 0.2).judge(&train), Verdict::Blind);
}

/// A loss is for the law; a connection that cannot be measured, and anything but a new one, begins as ever.
#[test]
fn it_is_none_where_it_must_be() {
    let mut world = World::new(true, 1000, 1000);
    let ack = Ack::new(Time::ZERO);
    let loss = crate::compose::Loss { signal: crate::compose::Signal::Loss, ack: &ack };
    let verdict = world.launch.on_loss(&loss, &path(), &mut world.window);
    assert_eq!(verdict, crate::compose::LaunchVerdict::Delegate);
    let mut unknown = path();
    unknown.handshake_rtt = None;
    let mut unpaced = start(true);
    unpaced.on_granted(&Granted { pacing: false, ..Granted::basic() }, &path()).unwrap();
    let cases = [
        (start(true), unknown, Opening::Connection),
        (unpaced, path(), Opening::Connection),
        (start(true), path(), Opening::Idle),
        (start(true), path(), Opening::Timeout),
    ];
    for (mut launch, path, opening) in cases {
        let mut window = Window::new(IW);
        assert_eq!(launch.begin(opening, Time::ZERO, &path, &mut window), LaunchStep::Done);
        assert_eq!((window, launch.overlay()), (Window::new(IW), Overlay::default()));
    }
}

/// Delayed ACKs: of eight segments 1 ms apart, acknowledged as 1, 2, 2, 2, and 1 by a timer, those for two tell the gap.
#[test]
fn a_delayed_ack_tells_nothing() {
    let mut train = Train::new(MSS * 8, MSS, None);
    for (at, count) in [(0, 1), (2, 2), (4, 2), (6, 2), (46, 1)] {
        let mut ack = Ack::new(Time::ZERO + Span::from_millis(at));
        ack.delivered = MSS * count;
        train.on_ack(&ack, Clock::Acks);
    }
    assert_eq!(train.delivered, MSS * 8);
    assert_eq!(Search::new(0.1, 0.2).judge(&train), Verdict::Next(micros(1000)));
}

/// A peer that was asked for an ACK for each segment: where it sends them, the last one counts as all do; where it delays them, those
/// for two tell the gap.
#[test]
fn a_peer_that_was_asked_and_has_not_heard() {
    let gap = |acks: &[(u64, u64)]| {
        let mut train = Train::new(MSS * 8, MSS, None);
        for (at, count) in acks {
            let mut ack = Ack::new(Time::ZERO + Span::from_millis(*at));
            ack.delivered = MSS * *count;
            train.on_ack(&ack, Clock::EachAck);
        }
        Search::new(0.1, 0.2).judge(&train)
    };
    assert_eq!(gap(&[(0, 1), (1, 1), (2, 1), (3, 1)]), Verdict::Next(micros(1000)));
    assert_eq!(gap(&[(1, 2), (3, 2), (5, 2), (45, 1)]), Verdict::Next(micros(1000)));
    assert_eq!(gap(&[(0, 1), (2, 2), (4, 2), (44, 1)]), Verdict::Next(micros(1000)));
    assert_eq!(gap(&[(0, 1), (40, 1)]), Verdict::Blind, "the second may have waited");
}

/// A timeout, a loss or a mark while the window that was found still leaves: it is what was sent of that, or the initial one.
#[test]
fn congestion_takes_what_was_not_sent() {
    for (sent, kept) in [(3, IW), (20, 20_000.0)] {
        let mut world = World::new(true, 1000, 1000);
        world.round();
        world.round();
        world.found();
        assert_eq!(world.window.cwnd, 100_000.0);
        let mut lost = world.window;
        let mut ack = Ack::new(world.now);
        ack.flight_size = MSS * sent;
        let loss = Loss { signal: crate::compose::Signal::Loss, ack: &ack };
        assert_eq!(world.launch.on_loss(&loss, &path(), &mut lost), LaunchVerdict::Delegate);
        world.launch.on_timeout(&Timeout::new(world.now, 1, MSS * sent), &path(), &mut world.window);
        assert_eq!((lost.cwnd, world.window.cwnd), (kept, kept));
    }
}

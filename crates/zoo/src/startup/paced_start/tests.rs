use longhaul_cc::{AckedSegment, TxId, update};

use super::*;

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
    let mut startup = PacedStart::default();
    startup
        .on_granted(
            &update!(Granted { arrival_times: timed, segments: timed, ack_frequency: true, ..Granted::basic() }),
            &path(),
        )
        .unwrap();
    startup
}

fn micros(micros: u64) -> Span {
    Span::from_micros(micros)
}

/// A path without other traffic, whose bottleneck puts a gap of at least `narrow` between segments.
struct World {
    startup: PacedStart,
    window: Window,
    now: Time,
    timed: bool,
    narrow: Span,
    /// Gap that the capacity left by other flows allows: smaller gaps grow to it, except in trains of two.
    available: Span,
}

impl World {
    fn new(timed: bool, narrow: u64, available: u64) -> Self {
        let (mut startup, mut window) = (start(timed), Window::new(IW));
        assert_eq!(startup.begin(Opening::Connection, Time::ZERO, &path(), &mut window), Step::Stay);
        Self { startup, window, now: Time::ZERO, timed, narrow: micros(narrow), available: micros(available) }
    }

    /// Returns the number of segments in the train and the gap between them.
    fn train(&self) -> (u64, Span) {
        let Phase::Searching(train) = self.startup.phase else { panic!("{:?}", self.startup.phase) };
        (train.size.0 / MSS.0, train.gap.unwrap_or(Span::ZERO))
    }

    /// Sends the train and processes its ACKs.
    fn round(&mut self) -> Step {
        let (count, gap) = self.train();
        assert_eq!(self.window.cwnd, count as f64 * 1000.0);
        let pace = self.startup.overlay().pace.unwrap();
        if gap > Span::ZERO {
            assert_eq!((pace.rate, pace.quantum), (Rate::from_bytes_over(MSS, gap), Some(MSS)));
        }
        let least = if count == 2 { self.narrow } else { self.available };
        let arrives = gap.max(least);
        let begun = self.now;
        for k in 0..count {
            self.startup.on_sent(&Sent::new(begun + gap * k, TxId(k), MSS), &path());
        }
        let mut step = Step::Stay;
        for k in 0..count {
            assert_eq!(step, Step::Stay);
            self.now = begun + RTT + arrives * k;
            let mut ack = Ack::new(self.now);
            (ack.delivered, ack.cumulative) = (MSS, MSS);
            let mut segment = AckedSegment::new(TxId(k), begun + gap * k, MSS);
            segment.arrival = Some(self.now - RTT / 2);
            let segments = [segment];
            if self.timed {
                // The ACKs arrive all at once: their times are not evaluated.
                ack.now = begun + RTT + arrives * count;
                ack.acked = &segments;
            }
            step = self.startup.on_ack(&ack, &path(), &mut self.window);
        }
        step
    }

    /// Returns the rate of the window that was found.
    fn found(&self) -> Rate {
        let Phase::Filling(rate) = self.startup.phase else { panic!("{:?}", self.startup.phase) };
        assert_eq!(self.startup.overlay().pace, Some(Pace::new(rate)));
        assert_eq!((self.window.cwnd, self.window.ssthresh), (self.window.ssthresh, self.window.cwnd));
        rate
    }
}

/// On an empty path, the pair shows the gap of the bottleneck, 1 ms. A train of four keeps it, and the window is 100
/// ms of it, with arrival times as well as with ACKs.
#[test]
fn an_empty_path_takes_two_trains() {
    for timed in [true, false] {
        let mut world = World::new(timed, 1000, 1000);
        assert_eq!(world.train(), (2, Span::ZERO));
        assert_eq!(world.startup.overlay(), Overlay::at_once());
        world.round();
        if !timed {
            // The second of two ACKs may have waited for a timer.
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
        assert_eq!(world.startup.on_ack(&ack, &path(), &mut world.window), Step::Stay);
        ack.delivered = MSS;
        assert_eq!(world.startup.on_ack(&ack, &path(), &mut world.window), Step::Done);
        assert_eq!(world.startup.overlay(), Overlay::default());
    }
}

/// Other flows leave a gap of 2 ms: gaps of 1 and 1.5 ms grow, 2.25 ms does not, and the middle of the last two is
/// within a fifth of it.
#[test]
fn the_search_halves_what_is_left() {
    let mut world = World::new(true, 1000, 2000);
    let mut trains = Vec::new();
    while matches!(world.startup.phase, Phase::Searching(_)) {
        trains.push(world.train());
        world.round();
    }
    let expected = [(2, 0), (4, 1000), (8, 1500), (16, 2250), (32, 1875)];
    assert_eq!(trains, expected.map(|(count, gap)| (count, micros(gap))));
    // 1.875 ms grows by less than a tenth, so the path carries it.
    assert_eq!(world.found(), Rate::from_bytes_over(MSS, micros(1875)));
    assert_eq!(world.window.cwnd, 53_000.0);
}

/// A train that would fill the path is the last one, at any point of the search.
#[test]
fn a_train_that_fills_the_path_ends_it() {
    let mut world = World::new(true, 10_000, 25_000);
    world.round();
    world.round();
    // At 15 ms, 6 segments fill the path.
    assert_eq!(world.train(), (6, micros(15_000)));
    world.round();
    assert_eq!(world.window.cwnd, 4000.0, "22.5 ms");
}

/// Merged arrivals yield no gap. Trains become longer up to the initial window, and then slow start continues.
#[test]
fn blind_it_gives_up_at_the_initial_window() {
    let mut world = World::new(true, 0, 0);
    for count in [2, 4, 8] {
        assert_eq!(world.train(), (count, Span::ZERO));
        assert_eq!(world.round(), Step::Stay);
    }
    assert_eq!((world.train().0, world.round()), (16, Step::Done));
    assert_eq!(world.window, Window::new(16_000.0));
}

/// With no more data to send, slow start continues from the initial window, without a threshold.
#[test]
fn a_train_that_is_short_is_the_last() {
    let mut world = World::new(true, 1000, 1000);
    world.round();
    world.startup.on_sent(&Sent::new(world.now, TxId(9), MSS), &path());
    let mut ack = Ack::new(world.now + RTT);
    ack.delivered = MSS;
    assert_eq!(world.startup.on_ack(&ack, &path(), &mut world.window), Step::Stay, "the pacer holds it back");
    let mut empty = path();
    empty.queued = Bytes::ZERO;
    ack.delivered = Bytes::ZERO;
    assert_eq!(world.startup.on_ack(&ack, &empty, &mut world.window), Step::Done);
    assert_eq!(world.window, Window::new(IW));
}

/// While a train is in flight, its ACKs release no data.
#[test]
fn acks_within_a_train_let_nothing_go() {
    let mut world = World::new(true, 1000, 1000);
    world.round();
    for k in 0..4 {
        world.startup.on_sent(&Sent::new(world.now + micros(1000) * k, TxId(k), MSS), &path());
    }
    for left in [3, 2, 1] {
        let mut ack = Ack::new(world.now + RTT);
        ack.delivered = MSS;
        assert_eq!(world.startup.on_ack(&ack, &path(), &mut world.window), Step::Stay);
        assert_eq!(world.window.cwnd, f64::from(left) * 1000.0, "what is still in flight");
    }
}

/// Retransmissions are not measured.
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
    assert_eq!(Search::new(0.1, 0.2).judge(&train), SearchStep::Blind);
}

/// Congestion avoidance responds to a loss. Paced Start does not apply to connections that cannot be measured, and
/// only to new ones.
#[test]
fn it_is_none_where_it_must_be() {
    let mut world = World::new(true, 1000, 1000);
    let ack = Ack::new(Time::ZERO);
    let loss = longhaul_cc::compose::LossEvent::new(longhaul_cc::compose::Signal::Loss, &ack);
    let cause = world.startup.on_loss(&loss, &path(), &mut world.window);
    assert_eq!(cause, longhaul_cc::compose::StartupResponse::Delegate);
    let mut unknown = path();
    unknown.handshake_rtt = None;
    let mut unpaced = start(true);
    unpaced.on_granted(&update!(Granted { pacing: false, ..Granted::basic() }), &path()).unwrap();
    let cases = [
        (start(true), unknown, Opening::Connection),
        (unpaced, path(), Opening::Connection),
        (start(true), path(), Opening::Idle),
        (start(true), path(), Opening::Timeout),
    ];
    for (mut startup, path, opening) in cases {
        let mut window = Window::new(IW);
        assert_eq!(startup.begin(opening, Time::ZERO, &path, &mut window), Step::Done);
        assert_eq!((window, startup.overlay()), (Window::new(IW), Overlay::default()));
    }
}

/// Delayed ACKs: of eight segments 1 ms apart, acknowledged as 1, 2, 2, 2, and 1 by a timer, the ACKs for two yield
/// the gap.
#[test]
fn a_delayed_ack_tells_nothing() {
    let mut train = Train::new(MSS * 8, MSS, None);
    for (at, count) in [(0, 1), (2, 2), (4, 2), (6, 2), (46, 1)] {
        let mut ack = Ack::new(Time::ZERO + Span::from_millis(at));
        ack.delivered = MSS * count;
        train.on_ack(&ack, Clock::Acks);
    }
    assert_eq!(train.delivered, MSS * 8);
    assert_eq!(Search::new(0.1, 0.2).judge(&train), SearchStep::Next(micros(1000)));
}

/// A peer that was requested to send one ACK per segment: if it does, the last ACK counts like all others; if it
/// delays ACKs, those for two segments yield the gap.
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
    assert_eq!(gap(&[(0, 1), (1, 1), (2, 1), (3, 1)]), SearchStep::Next(micros(1000)));
    assert_eq!(gap(&[(1, 2), (3, 2), (5, 2), (45, 1)]), SearchStep::Next(micros(1000)));
    assert_eq!(gap(&[(0, 1), (2, 2), (4, 2), (44, 1)]), SearchStep::Next(micros(1000)));
    assert_eq!(gap(&[(0, 1), (40, 1)]), SearchStep::Blind, "the second may have waited");
}

/// After a timeout, loss or mark while the window that was found is being sent, the window is what was sent of it, or
/// the initial window.
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
        let loss = LossEvent::new(longhaul_cc::compose::Signal::Loss, &ack);
        assert_eq!(world.startup.on_loss(&loss, &path(), &mut lost), StartupResponse::Delegate);
        world.startup.on_timeout(&Timeout::new(world.now, 1, MSS * sent), &path(), &mut world.window);
        assert_eq!((lost.cwnd, world.window.cwnd), (kept, kept));
    }
}

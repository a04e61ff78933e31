use super::*;
use crate::testing::{MSS, segments};
use crate::{AckedSegment, RttSample, SendLimit};

const RTT: Span = Span::from_millis(100);
const MILLI: Span = Span::from_millis(1);

/// A start whose flight has left, over a round trip of 100 ms.
struct Start {
    hardened: SwiftStartHardened,
    path: Path,
    window: Window,
    now: Time,
    in_flight: Bytes,
    next: u64,
    acked: u64,
    /// The next ACK begins a round trip.
    new_round: bool,
    /// What ACKs say of the round trip.
    rtt: Span,
}

impl Start {
    fn new(config: SwiftStartHardenedConfig, arrival_times: bool) -> Self {
        let mut path = Path::new(MSS);
        (path.handshake_rtt, path.queued) = (Some(RTT), Bytes(1 << 30));
        let mut hardened = SwiftStartHardened::new(config);
        let granted = Granted { arrival_times, segments: true, ..Granted::basic() };
        hardened.on_granted(&granted, &path).unwrap();
        let (mut window, now) = (Window::new(segments(10).as_f64()), Time::from_nanos(5_000_000_000));
        assert_eq!(hardened.begin(Opening::Connection, now, &path, &mut window), LaunchStep::Stay);
        let mut start =
            Self { hardened, path, window, now, in_flight: Bytes::ZERO, next: 0, acked: 0, new_round: false, rtt: RTT };
        start.send(u64::MAX);
        start.now += RTT;
        start
    }

    /// Sends what the window allows, up to so many segments; how many.
    fn send(&mut self, most: u64) -> u64 {
        let mut count = 0;
        while count < most && (self.in_flight + MSS).as_f64() <= self.window.cwnd {
            let mut sent = Sent::new(self.now, TxId(self.next), MSS);
            sent.in_flight_before = self.in_flight;
            self.hardened.on_sent(&sent, &self.path);
            self.in_flight += MSS;
            (self.next, count) = (self.next + 1, count + 1);
        }
        count
    }

    /// An ACK of segments that arrived at these microseconds.
    fn ack(&mut self, arrivals: &[u64]) -> LaunchStep {
        self.ack_with(arrivals, |_| {})
    }

    fn ack_with(&mut self, arrivals: &[u64], change: impl Fn(&mut AckedSegment)) -> LaunchStep {
        let mut acked = Vec::new();
        for arrival in arrivals {
            let mut segment = AckedSegment::new(TxId(self.acked), self.now - RTT, MSS);
            segment.arrival = Some(Time::from_nanos(1_000_000_000 + arrival * 1000));
            change(&mut segment);
            acked.push(segment);
            self.acked += 1;
        }
        let bytes = MSS * arrivals.len() as u64;
        let mut ack = Ack::new(self.now);
        (ack.prior_in_flight, ack.flight_size) = (self.in_flight, self.in_flight);
        self.in_flight -= bytes;
        (ack.cumulative, ack.delivered, ack.in_flight, ack.acked) = (bytes, bytes, self.in_flight, &acked);
        (ack.cwnd_limited, ack.limit) = (true, SendLimit::Cwnd);
        ack.round_start = std::mem::take(&mut self.new_round);
        ack.rtt = Some(RttSample { rtt: self.rtt, sent_at: self.now - RTT });
        self.hardened.observe(&ack, &self.path);
        self.hardened.on_ack(&ack, &self.path, &mut self.window)
    }

    fn tick(&mut self) -> LaunchStep {
        self.now = self.now.max(self.hardened.next_tick().unwrap());
        self.hardened.on_tick(self.now, &self.path, &mut self.window)
    }

    fn rate(&self) -> u64 {
        self.hardened.overlay().pace.unwrap().rate.as_bytes_per_sec()
    }
}

const GAMMA_4: SwiftStartHardenedConfig =
    SwiftStartHardenedConfig { gamma: 4, flight: 10, abort: Span::from_millis(200), follow: true };
const GAMMA_1: SwiftStartHardenedConfig = SwiftStartHardenedConfig { gamma: 1, ..GAMMA_4 };

/// Segments arrive a millisecond apart, so that the path holds 100. ACKs come when they like; from the second on there are three
/// gaps, and the estimate's quarter is paced, less what left already. Then the window is what is outstanding, and the whole
/// estimate the threshold.
#[test]
fn the_estimate_is_by_arrivals() {
    let mut start = Start::new(GAMMA_4, true);
    assert_eq!(start.in_flight, segments(10));
    assert_eq!((start.ack(&[0, 1000]), start.send(99)), (LaunchStep::Stay, 3), "two and one more");
    // Together with the first: compressed.
    assert_eq!(start.ack(&[2000, 3000]), LaunchStep::Stay);
    assert_eq!(start.hardened.estimate(), Some(Rate::from_bytes_over(MSS, MILLI)));
    assert_eq!((start.rate(), start.window.cwnd), (365_000, start.in_flight.as_f64()));
    assert_eq!((start.tick(), start.send(99)), (LaunchStep::Stay, 22), "25 of which three left before");
    assert_eq!(start.tick(), LaunchStep::Done);
    assert_eq!(start.window, Window { cwnd: start.in_flight.as_f64(), ssthresh: segments(100).as_f64() });
}

/// With gamma 1 the window is the threshold, so that the law takes over.
#[test]
fn at_gamma_1_the_whole_pipe_is_paced() {
    let mut start = Start::new(GAMMA_1, true);
    start.ack(&[0, 1000]);
    start.send(99);
    start.ack(&[2000, 3000]);
    start.ack(&[4000, 5000]);
    start.ack(&[6000, 7000]);
    start.ack(&[8000, 9000]);
    assert_eq!((start.tick(), start.send(999)), (LaunchStep::Stay, 97));
    assert_eq!(start.tick(), LaunchStep::Done);
    assert_eq!((start.window.cwnd, start.window.below_threshold()), (segments(100).as_f64(), false));
}

/// Later gaps of the flight correct the first: others came between, and the path turns out to give half.
#[test]
fn more_gaps_correct_the_estimate() {
    let mut start = Start::new(GAMMA_1, true);
    start.ack(&[0, 1000]);
    start.ack(&[2000, 3000]);
    assert_eq!(start.rate(), 1_460_000);
    // The flight's six others take three milliseconds each.
    start.ack(&[6000, 9000]);
    start.ack(&[12_000, 15_000]);
    start.ack(&[18_000, 21_000]);
    assert_eq!(start.hardened.estimate(), Some(Rate::from_bytes_over(MSS, MILLI * 3)), "the median is of most");
    assert!((start.rate() as f64 / 486_666.0 - 1.0).abs() < 1e-3);
}

/// What receive offload merged says nothing; too few gaps in all of the flight, and growth goes on.
#[test]
fn merged_arrivals_are_left_out() {
    let mut start = Start::new(GAMMA_4, true);
    for pair in 0..4 {
        let step = start.ack_with(&[pair * 10, pair * 10 + 5], |segment| segment.arrival_coalesced = true);
        assert_eq!(step, LaunchStep::Stay);
    }
    assert_eq!(start.ack_with(&[40, 45], |segment| segment.arrival_coalesced = true), LaunchStep::Done);
    assert_eq!((start.hardened.estimate(), start.window.cwnd), (None, segments(15).as_f64()));
    assert_eq!(start.window.ssthresh, f64::INFINITY);
}

/// Without an estimate in time, and with something lost, growth goes on.
#[test]
fn it_gives_up_in_time_and_at_losses() {
    let mut start = Start::new(GAMMA_4, true);
    start.ack(&[0, 1000]);
    assert_eq!(start.hardened.next_tick(), Some(start.now + Span::from_millis(200)));
    assert_eq!(start.tick(), LaunchStep::Done);
    let mut start = Start::new(GAMMA_4, true);
    start.ack(&[0, 1000]);
    let mut again = Sent::new(start.now, TxId(99), MSS);
    (again.kind, again.in_flight_before) = (SegmentKind::Retransmit, start.in_flight);
    start.hardened.on_sent(&again, &start.path);
    assert_eq!(start.ack(&[2000, 3000]), LaunchStep::Done);
}

/// No more than the window is no reason to pace, but a threshold all the same.
#[test]
fn a_slow_path_gets_its_threshold() {
    let mut start = Start::new(GAMMA_4, true);
    start.ack(&[0, 5000]);
    assert_eq!(start.ack(&[10_000, 15_000]), LaunchStep::Done);
    assert_eq!(start.window, Window { cwnd: segments(12).as_f64(), ssthresh: segments(20).as_f64() });
}

/// Twice the peer's window at most, of which no more is paced than the peer takes; and never more than the handshake's round trip gives.
#[test]
fn the_estimate_is_bounded() {
    let mut start = Start::new(GAMMA_1, true);
    start.path.peer_window = segments(40);
    start.ack(&[0, 1000]);
    start.ack(&[2000, 3000]);
    assert_eq!(start.hardened.holds(&start.path), Some(segments(80)));
    assert_eq!(start.rate(), 40 * MSS.0 * 10, "40 segments in 100 ms");
    assert_eq!((start.tick(), start.send(999)), (LaunchStep::Stay, 40));
    let mut start = Start::new(GAMMA_1, true);
    start.path.handshake_rtt = Some(RTT / 2);
    start.ack(&[0, 1000]);
    start.ack(&[2000, 3000]);
    assert_eq!(start.hardened.holds(&start.path), Some(segments(50)));
}

/// After the start the threshold follows, round trip by round trip, as long as it is asked for.
#[test]
fn the_threshold_follows_the_path() {
    for follow in [true, false] {
        let mut start = Start::new(SwiftStartHardenedConfig { follow, ..GAMMA_4 }, true);
        start.ack(&[0, 1000]);
        start.ack(&[2000, 3000]);
        start.tick();
        start.send(99);
        start.tick();
        let threshold = |start: &mut Start| start.hardened.threshold(&start.path).map(|bytes| bytes as u64 / MSS.0);
        assert_eq!(threshold(&mut start), follow.then_some(100));
        // All that comes in the next round trip takes half as long.
        for pair in 0..5 {
            start.new_round = pair == 0;
            start.ack(&[4000 + pair * 1000, 4500 + pair * 1000]);
            let after = threshold(&mut start);
            assert_eq!(
                (after.is_some_and(|after| after > 180), after.is_some()),
                (follow && pair > 1, follow),
                "{after:?}"
            );
        }
        // An ACK after which nobody asks: growth is over.
        start.ack(&[9000, 9500]);
        start.ack(&[9600, 9700]);
        assert_eq!(threshold(&mut start), None);
    }
}

/// A peer without reports: the paper's pair of ACKs, with the handshake's round trip, and the threshold.
#[test]
fn without_reports_it_is_the_papers() {
    let mut start = Start::new(GAMMA_4, false);
    start.path.handshake_rtt = Some(RTT / 2);
    assert_eq!((start.in_flight, start.ack(&[0, 0]), start.send(99)), (segments(10), LaunchStep::Stay, 3));
    start.now += MILLI;
    start.ack(&[0, 0]);
    assert_eq!(Stage::phase(&start.hardened), "swift-start-paced");
    assert_eq!((start.tick(), start.send(99)), (LaunchStep::Stay, 22), "2920 x 50 / 1 / 4 is 25 segments");
    assert_eq!((start.tick(), start.window.ssthresh), (LaunchStep::Done, segments(100).as_f64()));
    assert_eq!(start.hardened.threshold(&start.path), None);
}

/// Round trips while the law has a window of 100 segments, which a segment a millisecond fills, or another; what the start then says there is room for,
/// in segments. In each so many segments come, so many microseconds apart, and the round trip is so many milliseconds.
fn rooms(start: &mut Start, rounds: &[(u64, u64, u64)]) -> Vec<u64> {
    rooms_beyond(100, start, rounds)
}

fn rooms_beyond(cwnd: u64, start: &mut Start, rounds: &[(u64, u64, u64)]) -> Vec<u64> {
    start.ack(&[0, 1000]);
    start.send(99);
    start.ack(&[2000, 3000]);
    while start.tick() == LaunchStep::Stay {
        start.send(999);
    }
    start.window.cwnd = segments(cwnd).as_f64();
    let (mut rooms, mut last) = (Vec::new(), 1_000_000);
    for (count, gap, millis) in rounds {
        (start.rtt, start.new_round) = (Span::from_millis(*millis), true);
        for _ in 0..count / 2 {
            start.ack(&[last + gap, last + 2 * gap]);
            last += 2 * gap;
            rooms.extend(start.hardened.room(&start.path, &start.window));
        }
    }
    rooms.into_iter().map(|room| room as u64 / MSS.0).collect()
}

/// A queue of others that goes, while segments come twice as close: there is room for what the path holds now, once.
#[test]
fn there_is_room_when_others_leave() {
    let shared = [(80, 1000, 200); 3];
    let (left, end) = ([(80, 500, 100); 2], [(80, 500, 100); 3]);
    let happens = |rounds: &[(u64, u64, u64)]| rooms(&mut Start::new(GAMMA_1, true), rounds);
    assert_eq!(happens(&[&shared[..], &left, &end].concat()), [200], "until there is more");
    let nothing: [&[(u64, u64, u64)]; 5] = [
        // Closer, but the queue is there; gone, but no closer.
        &[(80, 500, 200); 5],
        &[(80, 500, 115); 5],
        &[(80, 1000, 100); 5],
        // By less than a quarter, and by few gaps.
        &[(80, 810, 100); 5],
        &[(20, 500, 100); 5],
    ];
    for after in nothing {
        assert_eq!(happens(&[&shared[..], after].concat()), [0; 0], "{after:?}");
    }
    assert_eq!(happens(&[&[(80, 1000, 100); 3][..], &end].concat()), [0; 0], "there was no queue");
    let gone = [shared, [(80, 1000, 100); 3]].concat();
    assert_eq!(rooms_beyond(50, &mut Start::new(GAMMA_1, true), &gone), [0; 0], "no closer, though the law has less");
}

/// Nobody takes more than the estimate over gamma for room, nor without pacing, nor who does not follow.
#[test]
fn room_is_the_estimate_over_gamma() {
    let rounds = |gap| [[(80, 1000, 200); 3], [(80, gap, 100); 3]].concat();
    let mut start = Start::new(GAMMA_4, true);
    assert_eq!(rooms(&mut start, &rounds(250)), [0; 0], "a quarter of 400 is the window");
    let mut start = Start::new(GAMMA_4, true);
    assert_eq!(rooms(&mut start, &rounds(125)), [200]);
    assert_eq!(start.hardened.threshold(&start.path), Some(segments(200).as_f64()), "growth goes no further");
    let mut start = Start::new(SwiftStartHardenedConfig { follow: false, ..GAMMA_1 }, true);
    assert_eq!(rooms(&mut start, &rounds(500)), [0; 0]);
    let mut start = Start::new(GAMMA_1, true);
    start.hardened.transport_paces = false;
    assert_eq!(rooms(&mut start, &rounds(500)), [0; 0]);
    let mut start = Start::new(GAMMA_1, true);
    rooms(&mut start, &[(80, 1000, 200); 3]);
    start.ack(&[9_000_000, 9_001_000]);
    start.ack(&[9_002_000, 9_003_000]);
    assert!(!start.hardened.follows, "nobody asks any more");
}

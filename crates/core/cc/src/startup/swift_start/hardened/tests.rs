use super::super::SwiftStart;
use super::*;
use crate::compose::{Opening, Stage, Startup, Step};
use crate::tests::{MSS, segments};
use crate::{AckedSegment, Granted, Quantity, RttSample, SendLimit};

const RTT: Span = Span::from_millis(100);
const MILLI: Span = Span::from_millis(1);

/// A start over a path with an RTT of 100 ms, whose flight was sent.
struct Start {
    hardened: SwiftStart,
    path: Path,
    window: Window,
    now: Time,
    in_flight: Bytes,
    next: u64,
    acked: u64,
    /// Whether the next ACK begins a round trip.
    new_round: bool,
    /// RTT sample of ACKs.
    rtt: Span,
    /// Limit that stops the sender.
    limit: SendLimit,
}

impl Start {
    fn new(config: HardenedConfig, arrival_times: bool) -> Self {
        let mut start = Self::begun(SwiftStart::hardened(config), arrival_times);
        start.send(u64::MAX);
        start.now += RTT;
        start
    }

    /// A start whose flight is not sent yet.
    fn begun(mut hardened: SwiftStart, arrival_times: bool) -> Self {
        let mut path = Path::new(MSS);
        (path.handshake_rtt, path.queued) = (Some(RTT), Bytes(1 << 30));
        let granted = Granted { arrival_times, segments: true, ..Granted::basic() };
        hardened.on_granted(&granted, &path).unwrap();
        let (mut window, now) = (Window::new(segments(10).as_f64()), Time::from_nanos(5_000_000_000));
        assert_eq!(hardened.begin(Opening::Connection, now, &path, &mut window), Step::Stay);
        let (in_flight, limit) = (Bytes::ZERO, SendLimit::Cwnd);
        Self { hardened, path, window, now, in_flight, next: 0, acked: 0, new_round: false, rtt: RTT, limit }
    }

    /// Sends what the window allows, up to `most` segments. Returns how many.
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

    /// Processes an ACK of segments that arrived at these times in microseconds.
    fn ack(&mut self, arrivals: &[u64]) -> Step {
        self.ack_with(arrivals, |_| {})
    }

    fn ack_with(&mut self, arrivals: &[u64], change: impl Fn(&mut AckedSegment)) -> Step {
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
        (ack.cwnd_limited, ack.limit) = (true, self.limit);
        ack.round_start = std::mem::take(&mut self.new_round);
        ack.rtt = Some(RttSample { rtt: self.rtt, sent_at: self.now - RTT });
        self.hardened.observe(&ack, &self.path);
        self.hardened.on_ack(&ack, &self.path, &mut self.window)
    }

    fn tick(&mut self) -> Step {
        self.now = self.now.max(self.hardened.next_tick().unwrap());
        self.hardened.on_tick(self.now, &self.path, &mut self.window)
    }

    fn rate(&self) -> u64 {
        self.hardened.overlay().pace.unwrap().rate.as_bytes_per_sec()
    }
}

const GAMMA_4: HardenedConfig = HardenedConfig { gamma: 4, flight: 10, abort: Span::from_millis(200), follow: true };
const GAMMA_1: HardenedConfig = HardenedConfig { gamma: 1, ..GAMMA_4 };

/// Returns the rate that the scheme reports for logs.
fn estimate(start: &SwiftStart) -> Option<Rate> {
    let mut told = None;
    start.estimates(&mut |estimate| told = Some(estimate.value));
    told.map(|value| match value {
        Quantity::Rate(rate) => rate,
        other => panic!("{other:?}"),
    })
}

/// Segments arrive 1 ms apart, so that the path holds 100. The times of the ACKs do not matter. From the second ACK on
/// there are three gaps, and a quarter of the estimate is paced, less what was sent before. Then the window is the
/// outstanding bytes, and the undivided estimate is the threshold.
#[test]
fn the_estimate_is_by_arrivals() {
    let mut start = Start::new(GAMMA_4, true);
    assert_eq!(start.in_flight, segments(10));
    assert_eq!((start.ack(&[0, 1000]), start.send(99)), (Step::Stay, 3), "two and one more");
    // At the same time as the first one: ACK compression.
    assert_eq!(start.ack(&[2000, 3000]), Step::Stay);
    assert_eq!(estimate(&start.hardened), Some(Rate::from_bytes_over(MSS, MILLI)));
    assert_eq!((start.rate(), start.window.cwnd), (365_000, start.in_flight.as_f64()));
    assert_eq!((start.tick(), start.send(99)), (Step::Stay, 22), "25 of which three left before");
    assert_eq!(start.tick(), Step::Done);
    assert_eq!(start.window, Window { cwnd: start.in_flight.as_f64(), ssthresh: segments(100).as_f64() });
}

/// With gamma 1, the window equals the threshold, so that congestion avoidance follows.
#[test]
fn at_gamma_1_the_whole_pipe_is_paced() {
    let mut start = Start::new(GAMMA_1, true);
    start.ack(&[0, 1000]);
    start.send(99);
    start.ack(&[2000, 3000]);
    start.ack(&[4000, 5000]);
    start.ack(&[6000, 7000]);
    start.ack(&[8000, 9000]);
    assert_eq!((start.tick(), start.send(999)), (Step::Stay, 97));
    assert_eq!(start.tick(), Step::Done);
    assert_eq!((start.window.cwnd, start.window.below_threshold()), (segments(100).as_f64(), false));
}

/// Later gaps of the flight correct the first ones: other flows sent in between, and the path yields a third.
#[test]
fn more_gaps_correct_the_estimate() {
    let mut start = Start::new(GAMMA_1, true);
    start.ack(&[0, 1000]);
    start.ack(&[2000, 3000]);
    assert_eq!(start.rate(), 1_460_000);
    // The other six segments of the flight take 3 ms each.
    start.ack(&[6000, 9000]);
    start.ack(&[12_000, 15_000]);
    start.ack(&[18_000, 21_000]);
    assert_eq!(estimate(&start.hardened), Some(Rate::from_bytes_over(MSS, MILLI * 3)), "the median is of most");
    assert!((start.rate() as f64 / 486_666.0 - 1.0).abs() < 1e-3);
}

/// Arrival times of a link of 12 Gb/s, whose ACKs come 2 ms apart: the paced round has four times their rate. Without the
/// bound, it has the peer's window.
#[test]
fn the_spacing_of_acks_bounds_false_times() {
    for (bounded, window) in [(true, segments(400)), (false, Bytes(1_000_000))] {
        let mut start = Start::new(GAMMA_1, true);
        start.path.peer_window = Bytes(1_000_000);
        start.hardened.arrivals.spacing = bounded.then(Spacing::default);
        for pair in 0..5 {
            start.ack(&[2 * pair, 2 * pair + 1]);
            start.now += MILLI * 2;
        }
        let paced = Rate::from_bytes_over(window, RTT).as_bytes_per_sec();
        assert!(start.rate().abs_diff(paced) <= paced / 50, "{} for {paced}", start.rate());
    }
}

/// Arrivals merged by receive offload are ignored. If the whole flight has too few gaps, slow start continues.
#[test]
fn merged_arrivals_are_left_out() {
    let mut start = Start::new(GAMMA_4, true);
    for pair in 0..4 {
        let step = start.ack_with(&[pair * 10, pair * 10 + 5], |segment| segment.arrival_coalesced = true);
        assert_eq!(step, Step::Stay);
    }
    assert_eq!(start.ack_with(&[40, 45], |segment| segment.arrival_coalesced = true), Step::Done);
    assert_eq!((estimate(&start.hardened), start.window.cwnd), (None, segments(15).as_f64()));
    assert_eq!(start.window.ssthresh, f64::INFINITY);
}

/// Without an estimate in time, or after a loss, slow start continues.
#[test]
fn it_gives_up_in_time_and_at_losses() {
    let mut start = Start::new(GAMMA_4, true);
    start.ack(&[0, 1000]);
    assert_eq!(start.hardened.next_tick(), Some(start.now + Span::from_millis(200)));
    assert_eq!(start.tick(), Step::Done);
    let mut start = Start::new(GAMMA_4, true);
    start.ack(&[0, 1000]);
    let mut again = Sent::new(start.now, TxId(99), MSS);
    (again.kind, again.in_flight_before) = (SegmentKind::Retransmit, start.in_flight);
    start.hardened.on_sent(&again, &start.path);
    assert_eq!(start.ack(&[2000, 3000]), Step::Done);
}

/// An estimate that does not exceed the window starts no paced round, but sets the threshold.
#[test]
fn a_slow_path_gets_its_threshold() {
    let mut start = Start::new(GAMMA_4, true);
    start.ack(&[0, 5000]);
    assert_eq!(start.ack(&[10_000, 15_000]), Step::Done);
    assert_eq!(start.window, Window { cwnd: segments(12).as_f64(), ssthresh: segments(20).as_f64() });
}

/// The estimate is at most twice the peer's window, and no more than the peer's window is paced. The RTT is at most
/// that of the handshake.
#[test]
fn the_estimate_is_bounded() {
    let mut start = Start::new(GAMMA_1, true);
    start.path.peer_window = segments(40);
    start.ack(&[0, 1000]);
    start.ack(&[2000, 3000]);
    assert_eq!(start.hardened.holds(&start.path), Some(segments(80)));
    assert_eq!(start.rate(), 40 * MSS.0 * 10, "40 segments in 100 ms");
    assert_eq!((start.tick(), start.send(999)), (Step::Stay, 40));
    let mut start = Start::new(GAMMA_1, true);
    start.path.handshake_rtt = Some(RTT / 2);
    start.ack(&[0, 1000]);
    start.ack(&[2000, 3000]);
    assert_eq!(start.hardened.holds(&start.path), Some(segments(50)));
}

/// After the start, the threshold follows the path, round trip by round trip, as long as it is queried.
#[test]
fn the_threshold_follows_the_path() {
    for follow in [true, false] {
        let mut start = Start::new(HardenedConfig { follow, ..GAMMA_4 }, true);
        start.ack(&[0, 1000]);
        start.ack(&[2000, 3000]);
        start.tick();
        start.send(99);
        start.tick();
        let threshold = |start: &mut Start| {
            start.hardened.threshold(true, &start.path, &start.window).map(|bytes| bytes as u64 / MSS.0)
        };
        assert_eq!(threshold(&mut start), follow.then_some(100));
        // All segments of the next round trip arrive at half the interval.
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
        // After an ACK without a query, estimation ends.
        start.ack(&[9000, 9500]);
        start.ack(&[9600, 9700]);
        assert_eq!(threshold(&mut start), None);
    }
}

/// For a peer without reports, the paper's pair of ACKs is used with the handshake's RTT, and sets the threshold.
#[test]
fn without_reports_it_is_the_papers() {
    let mut start = Start::new(GAMMA_4, false);
    start.path.handshake_rtt = Some(RTT / 2);
    assert_eq!((start.in_flight, start.ack(&[0, 0]), start.send(99)), (segments(10), Step::Stay, 3));
    start.now += MILLI;
    start.ack(&[0, 0]);
    assert_eq!(Stage::phase(&start.hardened), "swift-start-paced");
    assert_eq!((start.tick(), start.send(99)), (Step::Stay, 22), "2920 x 50 / 1 / 4 is 25 segments");
    assert_eq!((start.tick(), start.window.ssthresh), (Step::Done, segments(100).as_f64()));
    assert_eq!(start.hardened.threshold(true, &start.path, &start.window), None);
}

/// Simulates round trips while congestion avoidance has a window of 100 segments, which the path fills at one segment
/// per ms. Each element of `rounds` has the number of segments, their interval in microseconds and the RTT in ms.
/// Returns the windows, in segments, for which the start reports room.
fn rooms(start: &mut Start, rounds: &[(u64, u64, u64)]) -> Vec<u64> {
    rooms_beyond(100, start, rounds)
}

fn rooms_beyond(cwnd: u64, start: &mut Start, rounds: &[(u64, u64, u64)]) -> Vec<u64> {
    start.ack(&[0, 1000]);
    start.send(99);
    start.ack(&[2000, 3000]);
    while start.tick() == Step::Stay {
        start.send(999);
    }
    start.window.cwnd = segments(cwnd).as_f64();
    let (mut rooms, mut last) = (Vec::new(), 1_000_000);
    for (count, gap, millis) in rounds {
        (start.rtt, start.new_round) = (Span::from_millis(*millis), true);
        for _ in 0..count / 2 {
            start.ack(&[last + gap, last + 2 * gap]);
            last += 2 * gap;
            rooms.extend(start.hardened.threshold(false, &start.path, &start.window));
        }
    }
    rooms.into_iter().map(|room| room as u64 / MSS.0).collect()
}

/// If the queue of other flows disappears while segments arrive at half the interval, there is room for what the path
/// holds, once.
#[test]
fn there_is_room_when_others_leave() {
    let shared = [(80, 1000, 200); 3];
    let (left, end) = ([(80, 500, 100); 2], [(80, 500, 100); 3]);
    let happens = |rounds: &[(u64, u64, u64)]| rooms(&mut Start::new(GAMMA_1, true), rounds);
    assert_eq!(happens(&[&shared[..], &left, &end].concat()), [200], "until there is more");
    let nothing: [&[(u64, u64, u64)]; 5] = [
        // Closer, but the queue remains; or the queue is gone, but segments are no closer.
        &[(80, 500, 200); 5],
        &[(80, 500, 115); 5],
        &[(80, 1000, 100); 5],
        // Closer by less than a quarter; or too few gaps.
        &[(80, 810, 100); 5],
        &[(20, 500, 100); 5],
    ];
    for after in nothing {
        assert_eq!(happens(&[&shared[..], after].concat()), [0; 0], "{after:?}");
    }
    assert_eq!(happens(&[&[(80, 1000, 100); 3][..], &end].concat()), [0; 0], "there was no queue");
    let gone = [shared, [(80, 1000, 100); 3]].concat();
    assert_eq!(
        rooms_beyond(50, &mut Start::new(GAMMA_1, true), &gone),
        [0; 0],
        "no closer, though congestion avoidance has less"
    );
}

/// The room is at most the estimate divided by gamma. There is none without pacing or if estimation has ended.
#[test]
fn room_is_the_estimate_over_gamma() {
    let rounds = |gap| [[(80, 1000, 200); 3], [(80, gap, 100); 3]].concat();
    let mut start = Start::new(GAMMA_4, true);
    assert_eq!(rooms(&mut start, &rounds(250)), [0; 0], "a quarter of 400 is the window");
    let mut start = Start::new(GAMMA_4, true);
    assert_eq!(rooms(&mut start, &rounds(125)), [200]);
    assert_eq!(
        start.hardened.threshold(true, &start.path, &start.window),
        Some(segments(200).as_f64()),
        "slow start goes no further"
    );
    let mut start = Start::new(HardenedConfig { follow: false, ..GAMMA_1 }, true);
    assert_eq!(rooms(&mut start, &rounds(500)), [0; 0]);
    let mut start = Start::new(GAMMA_1, true);
    start.hardened.transport_paces = false;
    assert_eq!(rooms(&mut start, &rounds(500)), [0; 0]);
    let mut start = Start::new(GAMMA_1, true);
    rooms(&mut start, &[(80, 1000, 200); 3]);
    start.ack(&[9_000_000, 9_001_000]);
    start.ack(&[9_002_000, 9_003_000]);
    assert!(!start.hardened.arrivals.follows, "nobody asks any more");
}

/// A handshake of two segments shows nothing. The next flight is measured as the first one of a connection would be.
#[test]
fn a_flight_that_the_application_ends_is_not_used_up() {
    let mut start = Start::begun(SwiftStart::hardened(GAMMA_1), true);
    for _ in 0..3 {
        start.send(2);
        start.now += RTT;
        assert_eq!(start.ack(&[0, 50_000]), Step::Stay);
        assert_eq!((start.hardened.next_tick(), start.in_flight), (None, Bytes::ZERO));
        start.window.cwnd = segments(10).as_f64();
    }
    start.send(99);
    start.now += RTT;
    start.ack(&[200_000, 201_000]);
    start.ack(&[202_000, 203_000]);
    assert_eq!(start.rate(), 1_460_000, "a segment per ms");
}

/// The first segment, which was sent 70 ms before the others, is acknowledged first. The others have their own time, and
/// the pause does not count as spacing of their ACKs.
#[test]
fn an_early_segment_neither_ends_nor_bounds_the_start() {
    let mut start = Start::begun(SwiftStart::hardened(GAMMA_1).bounded(), true);
    let begun = start.now;
    start.send(1);
    start.now += MILLI * 70;
    start.send(9);
    start.now += MILLI * 30;
    assert_eq!(start.ack(&[0]), Step::Stay);
    assert_eq!(start.hardened.next_tick(), Some(begun + MILLI * 70 + RTT + MILLI * 200));
    for number in 0..4_u64 {
        start.now = begun + MILLI * 70 + RTT + MILLI * (2 * number);
        start.ack(&[70_000 + number * 2_000, 71_000 + number * 2_000]);
    }
    let sent = start.send(99) + {
        start.tick();
        start.send(999)
    };
    assert!(sent > 80, "{sent} segments, and 9 of the flight are acknowledged");
}

/// If the application pauses, the window still becomes the planned one, provided that pauses are allowed for.
#[test]
fn a_pause_in_the_paced_round_leaves_the_planned_window() {
    for (pauses, expected) in [(true, 100), (false, 10)] {
        let hardened = SwiftStart::hardened(GAMMA_1);
        let mut start = Start::begun(if pauses { hardened.with_pauses() } else { hardened }, true);
        start.send(99);
        start.now += RTT;
        start.ack(&[0, 1000]);
        start.ack(&[2000, 3000]);
        start.tick();
        (start.path.queued, start.limit) = (Bytes::ZERO, SendLimit::App);
        assert_eq!(start.ack(&[4000, 5000]), Step::Done);
        let room = start.window.cwnd as u64 / MSS.0;
        assert!(room.abs_diff(expected) <= 6, "{pauses}: {room} segments");
    }
}

/// After an idle period, the flight has at most the window from before.
#[test]
fn an_idle_period_begins_another_start_if_pauses_are_allowed_for() {
    for (pauses, cwnd, expected) in
        [(true, 50, (Step::Stay, 10)), (true, 4, (Step::Stay, 4)), (false, 4, (Step::Done, 4))]
    {
        let hardened = SwiftStart::hardened(GAMMA_1);
        let mut start = Start::begun(if pauses { hardened.with_pauses() } else { hardened }, true);
        start.hardened.abort();
        start.window.cwnd = segments(cwnd).as_f64();
        let step = start.hardened.begin(Opening::Idle, start.now, &start.path, &mut start.window);
        assert_eq!((step, start.window.cwnd as u64 / MSS.0), expected);
    }
}

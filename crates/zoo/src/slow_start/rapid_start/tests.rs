use longhaul_cc::{RttSample, update};

use super::*;
use crate::tests::{MSS, Sender, segments};

const RTT: Span = Span::from_millis(100);

/// Returns a sender that knows the minimum RTT of its path.
fn sender(spec: &str) -> Sender {
    let mut sender = crate::tests::sender(spec);
    sender.path.min_rtt = Some(RTT);
    sender
}

/// draft-kazuho-ccwg-rapid-start, section 3.2: the window grows by two bytes per byte acknowledged.
#[test]
fn the_window_triples_each_round_without_a_queue() {
    let mut sender = sender("rapid-start+cubic");
    sender.fill();
    for round in 1..8 {
        sender.round();
        assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(10 * 3_u64.pow(round)), "rapid-start"));
    }
}

#[test]
fn with_a_queue_it_doubles_and_without_one_again_it_triples() {
    let mut sender = sender("rapid-start+cubic");
    sender.fill();
    sender.round();
    sender.rtt = RTT + Span::from_millis(5);
    sender.round();
    // By the time of this round's first sample, the samples of the last round trip have expired.
    assert_eq!(sender.cwnd(), segments(60));
    sender.rtt = RTT;
    sender.round();
    assert_eq!(sender.cwnd(), segments(180));
}

/// Returns the factor by which the window grows per round trip, for a minimum RTT of `base` us and an RTT greater by
/// `rise` us.
fn factor(spec: &str, base: u64, rise: u64) -> u64 {
    let mut sender = crate::tests::sender(spec);
    sender.rtt = Span::from_micros(base + rise);
    sender.path.min_rtt = Some(Span::from_micros(base));
    sender.fill();
    sender.round();
    sender.cwnd().0 / segments(10).0
}

/// The threshold is the lesser of min + 4 ms and 1.10 min in the draft, and the greater of min + 4 ms and 35/32 min in
/// quicly.
#[test]
fn a_queue_is_what_exceeds_the_threshold() {
    for (spec, base, most) in [
        ("rapid-start+cubic", 20_000, 2_000),
        ("rapid-start+cubic", 40_000, 4_000),
        ("rapid-start+cubic", 600_000, 4_000),
        ("rapid-start(threshold=quicly)+cubic", 20_000, 4_000),
        ("rapid-start(threshold=quicly)+cubic", 32_000, 4_000),
        ("rapid-start(threshold=quicly)+cubic", 320_000, 30_000),
    ] {
        assert_eq!(factor(spec, base, most), 3, "{spec}, {base} us");
        assert_eq!(factor(spec, base, most + 1), 2, "{spec}, {base} us");
    }
}

/// The floor is the minimum RTT of the last round trip only, with a resolution of a quarter of it.
#[test]
fn the_floor_forgets_what_is_older_than_a_round_trip() {
    let mut floor = Floor::default();
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    floor.sample(at(1000), RTT, RTT);
    for ms in (1001..1100).step_by(11) {
        floor.sample(at(ms), RTT * 2, RTT);
        assert_eq!(floor.value(), Some(RTT), "{ms}");
    }
    floor.sample(at(1100), RTT * 2, RTT);
    assert_eq!(floor.value(), Some(RTT * 2));
    floor.sample(at(1101), RTT, RTT);
    floor.sample(at(5000), RTT * 3, RTT);
    assert_eq!(floor.value(), Some(RTT * 3));
}

/// Section 3.1 of the draft: the first flight is paced over a whole round trip. While the window triples, the pace is
/// three windows per round trip, as in quicly.
#[test]
fn the_first_flight_is_paced_over_a_round_trip() {
    let mut path = Path::new(MSS);
    (path.handshake_rtt, path.min_rtt) = (Some(RTT), Some(RTT));
    let mut slow_start = RapidStart { initial_segments: 20, ..RapidStart::default() };
    let mut window = Window::new(slow_start.initial_window(&path).as_f64());
    assert_eq!(window.cwnd, segments(20).as_f64());
    slow_start.begin(Reason::NoLoss, &path, &window);
    let pace = |slow_start: &RapidStart| slow_start.overlay().pace.map(|pace| pace.rate.as_bytes_per_sec());
    assert_eq!(pace(&slow_start), Some(segments(200).0));
    path.srtt = Some(RTT);
    let mut ack = Ack::new(Time::from_nanos(1_000_000_000));
    ack.rtt = Some(RttSample::new(RTT, Time::ZERO));
    slow_start.on_ack(&ack, MSS * 20, &path, &mut window);
    assert_eq!(pace(&slow_start), Some(segments(3 * 60 * 10).0));
    ack.now += RTT * 2;
    ack.rtt = Some(RttSample::new(RTT * 2, Time::ZERO));
    slow_start.on_ack(&ack, MSS, &path, &mut window);
    assert_eq!(pace(&slow_start), None);
}

/// Rapid Start applies to the start of a connection only: after a timeout, the window doubles.
#[test]
fn after_congestion_it_is_slow_start() {
    let mut sender = sender("rapid-start+cubic");
    sender.fill();
    sender.round();
    sender.time_out(1);
    sender.fill();
    assert_eq!(sender.snapshot().phase, "slow-start");
    sender.round();
    assert_eq!(sender.cwnd(), segments(2));
}

#[test]
fn it_ends_exactly_at_the_threshold() {
    let mut path = Path::new(MSS);
    path.min_rtt = Some(RTT);
    let mut slow_start = RapidStart::default();
    let mut window = update!(Window { ssthresh: segments(12).as_f64(), ..Window::new(segments(10).as_f64()) });
    slow_start.begin(Reason::NoLoss, &path, &window);
    let mut ack = Ack::new(Time::from_nanos(1_000_000_000));
    ack.rtt = Some(RttSample::new(RTT, Time::ZERO));
    assert_eq!(slow_start.on_ack(&ack, MSS * 2, &path, &mut window), Step::Done);
    assert_eq!(window.cwnd, window.ssthresh);
}

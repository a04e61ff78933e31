use super::*;
use crate::TxId;

const MSS: Bytes = Bytes(1448);
const TICK: TickClock = TickClock { tick: Span::from_millis(1) };
const CONTINUOUS: TickClock = TickClock { tick: Span::ZERO };

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(1_000_000 + micros)
}

/// Returns the departure times of segments if every instant is met, in microseconds.
fn times(mut departures: Departures, count: usize) -> Vec<u64> {
    let (mut now, mut times) = (departures.from, Vec::new());
    let mut granted = departures.grant(now);
    while times.len() < count {
        times.extend((0..granted).map(|_| (now - departures.from).as_micros()));
        now = departures.next(now);
        granted = departures.grant(now);
    }
    times
}

#[test]
fn even_departures_are_an_interval_apart_and_the_last_is_at_the_end() {
    let departures = Departures::even(at(0), Span::from_millis(500), 10, CONTINUOUS);
    let expected: Vec<_> = (1..=10).map(|k| k * 50_000).collect();
    assert_eq!(times(departures, 10), expected);
}

/// 252 intervals in 503 ms are 1.996 ms each. With a tick of 1 ms the fractions accumulate, so that the k-th segment
/// is sent at the first tick at or after k * 1.996 ms.
#[test]
fn fractions_of_a_tick_accumulate() {
    let departures = Departures::even(at(0), Span::from_millis(503), 252, TICK);
    let expected: Vec<_> = (1..=252_u64).map(|k| (k * 503).div_ceil(252) * 1000).collect();
    assert_eq!(times(departures, 252), expected);
}

/// At most two segments are sent per tick, and missed departures catch up within that limit.
#[test]
fn a_tick_lets_two_go_and_what_was_missed_catches_up() {
    let mut departures = Departures::even(at(0), Span::from_millis(10), 15, TICK);
    assert_eq!((departures.grant(at(0)), departures.next(at(0))), (0, at(1000)));
    // Five ticks were missed, so seven segments are due.
    let granted: Vec<_> = (5..10).map(|tick| departures.grant(at(tick * 1000))).collect();
    assert_eq!(granted, [2, 2, 2, 2, 2]);
    assert_eq!(departures.next(at(9000)), at(10_000));
    let mut fast = Departures::even(at(0), Span::from_millis(10), 1000, TICK);
    assert_eq!((fast.grant(at(5000)), fast.next(at(5000)), fast.grant(at(6000))), (2, at(6000), 2));
}

/// NASA's patterns: groups are a third or a quarter of the RTT apart, and the first is sent at once.
#[test]
fn groups_leave_together() {
    let six = |groups, pattern| {
        let even = Departures::even(at(0), Span::from_millis(120), groups, CONTINUOUS);
        times(even.grouped(pattern), 6).into_iter().map(|micros| micros / 1000).collect::<Vec<_>>()
    };
    assert_eq!(six(4, &[2, 1]), [0, 0, 30, 60, 60, 90]);
    assert_eq!(six(3, &[2]), [0, 0, 40, 40, 80, 80]);
    assert_eq!(six(6, &[1]), [0, 20, 40, 60, 80, 100]);
}

fn plan(window: u64, sent: u64) -> RoundPlan {
    RoundPlan { window: Bytes(window), sent: MSS * sent, rtt: Span::from_millis(100), mss: MSS }
}

fn send(round: &mut Round, now: Time) {
    let mut sent = Sent::new(now, TxId(0), MSS);
    sent.in_flight_before = round.in_flight;
    round.on_sent(&sent, MSS);
}

/// Ten segments may be sent after ten ticks, and no timer fires after that, until a better estimate adds two.
#[test]
fn once_all_of_a_round_may_be_sent_there_are_no_ticks() {
    let mut round = Round::new(at(0), &plan(14_480, 0), Bytes::ZERO, CONTINUOUS, false);
    let ticks = |round: &mut Round| {
        let mut ticks = 0;
        while let Some(now) = round.next_tick().filter(|_| ticks < 100) {
            round.on_tick(now, MSS);
            ticks += 1;
        }
        ticks
    };
    assert_eq!((ticks(&mut round), round.window()), (10, MSS * 10));
    round.replan(at(100_000), &plan(17_376, 0));
    assert_eq!((ticks(&mut round), round.window()), (2, MSS * 12));
}

/// Departures that were not granted in time are lost: a late tick grants at most two segments.
#[test]
fn departures_that_are_skipped_are_granted_no_more() {
    let mut departures = Departures::even(at(0), Span::from_millis(10), 20, CONTINUOUS);
    departures.skip(at(0), at(5000));
    assert_eq!((departures.grant(at(5000)), departures.grant(at(6000))), (0, 2));
    let mut departures = Departures::even(at(0), Span::from_millis(10), 40, TICK);
    departures.skip(at(0), at(3000));
    // Six of twelve are lost.
    assert_eq!([3, 4, 5, 6].map(|tick| departures.grant(at(tick * 1000))), [2, 2, 2, 2]);
}

/// The quota is 10.5 segments, three of which were sent before. Seven more follow, the first one after an interval. Then
/// the window equals the bytes in flight.
#[test]
fn a_round_sends_its_quota_and_no_more() {
    for transport_paces in [true, false] {
        let plan = plan(1448 * 21 / 2, 3);
        let mut round = Round::new(at(0), &plan, MSS * 5, CONTINUOUS, transport_paces);
        assert_eq!(round.window(), MSS * 5);
        let interval = 100_000_000_u64.div_ceil(11);
        assert!(round.next_tick().unwrap().since(at(0)).as_nanos().abs_diff(interval) <= 1);
        let mut left = 0;
        for _ in 0..20 {
            let Some(due) = round.next_tick().filter(|_| !round.is_over()) else { break };
            round.on_tick(due, MSS);
            while round.window() >= round.in_flight + MSS && !round.is_over() {
                send(&mut round, due);
                left += 1;
            }
        }
        assert_eq!((left, round.in_flight, round.window(), round.is_over()), (7, MSS * 12, MSS * 12, true));
    }
}

/// An ACK during the round reduces the window by its bytes. If the application pauses or the peer's window shrinks,
/// data that does not fit is not sent.
#[test]
fn acks_do_not_open_the_window_of_a_round() {
    let mut path = Path::new(MSS);
    path.queued = MSS * 100;
    let new = || {
        let mut round = Round::new(at(0), &plan(14_480, 3), MSS * 5, CONTINUOUS, true);
        round.on_tick(at(10_000), MSS);
        round
    };
    let mut round = new();
    assert_eq!(round.window(), MSS * 12);
    let mut ack = Ack::new(at(11_000));
    (ack.in_flight, ack.limit) = (MSS * 3, SendLimit::Pacing);
    round.on_ack(&ack, &path);
    assert_eq!((round.window(), round.is_over()), (MSS * 10, false));

    let shrunk = Path { peer_window: MSS * 5, ..path };
    round.on_ack(&ack, &shrunk);
    assert_eq!((round.window(), round.is_over()), (MSS * 5, false));
    round.on_ack(&ack, &Path { peer_window: MSS * 3, ..path });
    assert!(round.is_over());

    let mut round = new();
    ack.limit = SendLimit::App;
    round.on_ack(&ack, &path);
    assert!(!round.is_over(), "there is more to send");
    round.on_ack(&ack, &Path { queued: Bytes::ZERO, ..path });
    assert!(round.is_over(), "the application pauses");
    assert_eq!(round.next_tick(), Some(at(11_000)));
}

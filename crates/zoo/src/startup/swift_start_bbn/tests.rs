use super::*;
use crate::tests::{Sender, segments, sender};

fn at(begun: Time, millis: u64) -> Time {
    begun + Span::from_millis(millis)
}

fn pass(sender: &mut Sender, until: Time) -> Vec<Time> {
    let mut left = Vec::new();
    while let Some(due) = sender.controller.next_tick().filter(|due| *due <= until) {
        sender.now = sender.now.max(due);
        sender.controller.on_tick(sender.now, &sender.path);
        left.extend((0..sender.fill()).map(|_| sender.now));
    }
    sender.now = until;
    left
}

/// Figures 1 and 2 of NASA TM-2004-212938: 5 Mb/s, 500 ms. The estimate is of one segment and its `delta` is too long
/// by a round trip, so the window determines the pace: two segments at the first ACK, then a gap, six segments in
/// total where the path holds 216, and then six per round trip for the rest of the connection.
#[test]
fn six_segments_leave_in_the_second_round_and_in_every_other() {
    let mut sender = sender("swift-start-bbn(gamma=1)+new-reno");
    sender.path.handshake_rtt = Some(Span::from_millis(500));
    sender.path.queued = Bytes(1 << 30);
    let begun = sender.now;
    assert_eq!(sender.fill(), 4);
    sender.now = at(begun, 505);
    sender.ack(2);
    assert_eq!((sender.cwnd(), sender.fill()), (segments(4), 2), "premature: two at once");
    assert!(pass(&mut sender, at(begun, 510)).is_empty(), "and a gap before the third");
    sender.ack(2);
    assert_eq!(sender.fill(), 0);
    let left = pass(&mut sender, at(begun, 1004));
    let millis: Vec<_> = left.iter().map(|time| (*time - begun).as_millis()).collect();
    assert_eq!(millis, [593, 676, 760, 843], "a sixth of a round trip apart");
    assert_eq!(sender.in_flight, segments(6));
    // Each segment is acknowledged a round trip after it was sent; the window stays at six.
    for _ in 0..30 {
        let until = sender.now + Span::from_micros(83_334);
        sender.now = until - Span::from_micros(1);
        sender.ack(1);
        pass(&mut sender, until);
        assert!(sender.in_flight <= segments(6) && sender.cwnd() <= segments(6));
    }
    assert_eq!(sender.snapshot().phase, "swift-start-paced");
}

/// Faults 1 and 2: one segment per `delta` of a round trip and 5 ms is less than a segment, with either clock.
#[test]
fn the_estimate_is_of_one_segment_a_round_trip() {
    for tick in [Span::ZERO, Span::from_millis(1)] {
        let mut start = SwiftStartBbn::new(1, TickClock { tick });
        let (begun, rtt) = (Time::from_nanos(1_000_000_000), Span::from_millis(500));
        start.begin(Opening::Connection, begun, &Path::new(Bytes(1448)), &mut Window::new(0.0));
        // 1448 x 500 / 505.
        assert_eq!(start.estimate(at(begun, 505), rtt, Bytes(1448)), 1433.0);
    }
}

/// If the application has nothing to send, no timer fires once two segments may be sent. What would have been released
/// later is lost.
#[test]
fn without_data_there_are_no_ticks() {
    let mut sender = sender("swift-start-bbn(gamma=1)+new-reno");
    sender.path.handshake_rtt = Some(Span::from_millis(500));
    let begun = sender.now;
    sender.fill();
    sender.now = at(begun, 505);
    sender.ack(4);
    let mut ticks = 0;
    while let Some(due) = sender.controller.next_tick().filter(|_| ticks < 100) {
        sender.now = due;
        sender.controller.on_tick(due, &sender.path);
        ticks += 1;
    }
    assert!((1..=2).contains(&ticks), "{ticks}");
    sender.now = at(begun, 10_505);
    assert_eq!(sender.fill(), 2);
    let left = pass(&mut sender, at(begun, 10_630));
    assert_eq!(left, [at(begun, 10_605)], "a fifth of a round trip apart");
}

/// A loss has the usual response and ends the paced start.
#[test]
fn a_loss_ends_it() {
    let mut sender = sender("swift-start-bbn+new-reno");
    sender.fill();
    sender.now += Span::from_millis(100);
    sender.ack(1);
    sender.fill();
    sender.lose();
    assert_eq!((sender.snapshot().phase, sender.ssthresh()), ("recovery", segments(5) / 2));
    sender.recover();
    assert_eq!(sender.controller.next_tick(), None);
}

/// If the RTT is unknown, or zero by a coarse clock, nothing is paced: a timer would fire every nanosecond.
#[test]
fn without_a_round_trip_nothing_is_paced() {
    for rtt in [None, Some(Span::ZERO)] {
        let mut sender = sender("swift-start-bbn+new-reno");
        sender.path.handshake_rtt = rtt;
        sender.path.srtt = rtt;
        let mut start = SwiftStartBbn::new(1, TickClock { tick: Span::ZERO });
        let (mut window, path) = (Window::new(0.0), sender.path);
        start.begin(Opening::Connection, sender.now, &path, &mut window);
        let mut ack = Ack::new(sender.now + Span::from_millis(100));
        (ack.delivered, ack.cumulative) = (path.mss, path.mss);
        assert_eq!(start.on_ack(&ack, &path, &mut window), Step::Done, "{rtt:?}");
        assert_eq!((start.next_tick(), window.cwnd >= path.mss.as_f64()), (None, true), "{rtt:?}");
    }
}

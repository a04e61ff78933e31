use super::*;
use crate::tests::{Sender, segments, sender};

/// Sends the flight and processes its first ACK 100 ms later and the second 4 ms after that. Returns the send times of
/// all further segments in ms after the first ACK.
fn second_round(spec: &str) -> (Vec<u64>, Sender) {
    let mut sender = sender(spec);
    sender.path.queued = Bytes(1 << 30);
    sender.fill();
    sender.now += Span::from_millis(100);
    let (first, mut left) = (sender.now, Vec::new());
    let mut note = |sender: &mut Sender| {
        let count = sender.fill();
        left.extend((0..count).map(|_| (sender.now - first).as_millis()));
    };
    sender.ack(2);
    note(&mut sender);
    sender.now += Span::from_millis(4);
    sender.ack(2);
    note(&mut sender);
    while let Some(due) = sender.controller.next_tick() {
        sender.now = due.max(sender.now);
        sender.controller.on_tick(sender.now, &sender.path);
        note(&mut sender);
    }
    (left, sender)
}

/// NASA's six segments: even, 2-1-2-1 and 2-2-2; then slow start continues from the outstanding data.
#[test]
fn six_segments_leave_in_their_pattern() {
    let cases = [("even", [0, 16, 33, 50, 66, 83]), ("2121", [0, 0, 25, 50, 50, 75]), ("222", [0, 0, 33, 33, 66, 66])];
    for (pattern, times) in cases {
        let (left, mut sender) = second_round(&format!("pacing-only(pattern={pattern})+new-reno"));
        assert_eq!(left, times, "{pattern}");
        assert_eq!((sender.cwnd(), sender.in_flight), (segments(6), segments(6)));
        assert_eq!(sender.snapshot().phase, "slow-start");
        sender.ack(1);
        assert_eq!(sender.cwnd(), segments(7), "{pattern}");
    }
}

/// Without loss, the window is that of slow start.
#[test]
fn an_ack_of_the_second_round_ends_it() {
    let mut sender = sender("pacing-only+new-reno");
    sender.path.queued = Bytes(1 << 30);
    sender.fill();
    sender.now += Span::from_millis(100);
    sender.ack(4);
    sender.fill();
    assert_eq!(sender.in_flight, segments(1), "one of five, and four more in turn");
    sender.ack(1);
    assert_eq!((sender.snapshot().phase, sender.controller.next_tick()), ("slow-start", None));
    assert_eq!(sender.cwnd(), segments(5));
}

#[test]
fn a_loss_or_a_retransmission_ends_it() {
    let paced = || {
        let mut sender = sender("pacing-only+new-reno");
        sender.path.queued = Bytes(1 << 30);
        sender.fill();
        sender.now += Span::from_millis(100);
        sender.ack(2);
        sender.fill();
        sender
    };
    let mut sender = paced();
    sender.lose();
    assert_eq!(sender.snapshot().phase, "recovery");
    let mut sender = paced();
    sender.send(SegmentKind::Retransmit);
    sender.ack(1);
    assert_eq!((sender.snapshot().phase, sender.controller.next_tick()), ("slow-start", None));
}

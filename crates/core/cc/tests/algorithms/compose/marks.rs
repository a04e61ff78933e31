//! Congestion marks that a start-up scheme handles itself, until the data in flight is accounted for.

use longhaul_conformance::testing::{MSS, Sender, segments};

/// RFC 9959, sections 3.5 and 3.6: the window is PipeSize / 2, and does not grow until the last unvalidated segment
/// is acknowledged. The threshold is half of the data delivered by then.
#[test]
fn a_mark_in_a_resumed_jump_is_a_safe_retreat_to_its_end() {
    for validating in [false, true] {
        let mut sender = Sender::resumed("careful-resume+new-reno");
        assert_eq!(sender.fill(), 10);
        sender.round();
        assert_eq!((sender.snapshot().phase, sender.cwnd(), sender.flight()), ("unvalidated", segments(200), 200));
        if validating {
            (0..30).for_each(|_| sender.ack(1));
            assert_eq!((sender.snapshot().phase, sender.flight()), ("validating", 170));
        }
        sender.mark();
        let retreat = sender.cwnd();
        assert_eq!((sender.snapshot().phase, retreat), ("safe-retreat", MSS * if validating { 31 } else { 4 } / 2));
        while sender.flight() > 1 {
            sender.ack(1);
            assert_eq!((sender.snapshot().phase, sender.cwnd()), ("safe-retreat", retreat), "{} left", sender.flight());
        }
        sender.ack(1);
        assert_eq!((sender.snapshot().phase, sender.ssthresh()), ("slow-start", segments(100)));
        assert_eq!(sender.cwnd(), retreat);
    }
}

/// As the source specifies for losses: the window grows from the initial window to at most the amount delivered at
/// the mark, until the flight is delivered; then it is half of the flight.
#[test]
fn a_mark_in_a_remembered_flight_is_answered_until_that_has_arrived() {
    let mut sender = Sender::resumed("cached-start+new-reno");
    assert_eq!(sender.fill(), 400);
    (0..49).for_each(|_| sender.ack(1));
    sender.mark();
    assert_eq!((sender.snapshot().phase, sender.cwnd()), ("recovery", segments(10)));
    for k in 51..400 {
        sender.ack(1);
        assert_eq!((sender.snapshot().phase, sender.cwnd()), ("recovery", segments((k - 40).min(50))), "{k}");
    }
    sender.ack(1);
    assert_eq!((sender.snapshot().phase, sender.cwnd()), ("congestion-avoidance", segments(200)));
}

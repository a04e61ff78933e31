//! Tests of the attribution of ACKs to transmissions. The minimum RTT is 100 ms; the segments have 1000 bytes.

use super::*;
use crate::scoreboard::Scoreboard;

const MIN_RTT: Span = Span::from_millis(100);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn clock() -> TimestampClock {
    TimestampClock::new(500, Time::ZERO, false)
}

/// Returns the state of an ACK of everything that arrives at `millis` and echoes the timestamp of `echoed`.
fn ack(millis: u64, echoed: u64) -> Attribution {
    let echo = Some(clock().value(at(echoed)));
    Attribution { at: at(millis), ack: 10_001, echo, clock: clock(), min_rtt: Some(MIN_RTT), asked_at: None }
}

/// A board with three segments, sent at 0 ms, 5 ms and 10 ms.
fn board() -> Scoreboard {
    let mut board = Scoreboard::new();
    for (start, millis) in [(1, 0), (1001, 5), (2001, 10)] {
        board.begin_burst(Burst::new(at(millis)));
        board.push(start, 1000, false, false);
    }
    board
}

/// Retransmits the first segment at `millis`.
fn retransmit(board: &mut Scoreboard, millis: u64) {
    board.mark_lost(board.head);
    board.begin_burst(Burst::new(at(millis)));
    board.retransmit(board.head);
}

fn first(board: &Scoreboard) -> (Record, Burst) {
    let record = *board.front().unwrap().1;
    (record, *board.burst_of(&record))
}

fn is_ambiguous(attribution: Attribution, (record, burst): (Record, Burst)) -> bool {
    attribution.of(&record, &burst).is_ambiguous
}

/// RFC 8985, section 6.2, step 2.
#[test]
fn an_ack_sooner_than_the_minimum_rtt_is_ambiguous_after_a_retransmission() {
    let mut board = board();
    assert!(!is_ambiguous(ack(50, 0), first(&board)), "a segment that was sent once");
    retransmit(&mut board, 200);
    let sent = first(&board);
    assert_eq!([299, 300].map(|millis| is_ambiguous(ack(millis, 200), sent)), [true, false]);
    let unmeasured = Attribution { min_rtt: None, ..ack(201, 200) };
    assert!(!is_ambiguous(unmeasured, sent), "without a minimum RTT, only the echo counts");
}

/// The echo of an older timestamp belongs to the original, but above a hole it is that of the data before the hole
/// (RFC 7323, section 4.3).
#[test]
fn an_older_echo_is_ambiguous_below_the_ack_only() {
    let mut board = board();
    retransmit(&mut board, 200);
    let sent = first(&board);
    assert_eq!([199, 200, 201].map(|echoed| is_ambiguous(ack(400, echoed), sent)), [true, false, false]);
    let ends_there = Attribution { ack: 1001, ..ack(400, 0) };
    let beyond_hole = Attribution { ack: 1000, ..ack(400, 0) };
    assert_eq!([ends_there, beyond_hole].map(|ack| is_ambiguous(ack, sent)), [true, false]);
    assert!(!is_ambiguous(Attribution { echo: None, ..ack(400, 0) }, sent), "no timestamps");
}

#[test]
fn a_copy_is_told_by_its_timestamp() {
    let mut board = board();
    board.note_copy(board.head);
    let (record, burst) = first(&board);
    let ambiguity = |echoed| ack(400, echoed).of(&record, &burst);
    assert_eq!(ambiguity(0), Ambiguity { is_ambiguous: false, is_copy: false, is_asked: false }, "the original's");
    assert_eq!(ambiguity(20), Ambiguity { is_ambiguous: true, is_copy: true, is_asked: false });
}

/// A segment with our own CE mark may overtake others (RFC 9331, section 5.1).
#[test]
fn a_segment_with_our_mark_is_ambiguous() {
    let (record, burst) = first(&board());
    for (asked_at, is_asked) in [(Some(1), true), (Some(1001), false), (None, false)] {
        let ambiguity = Attribution { asked_at, ..ack(400, 0) }.of(&record, &burst);
        assert_eq!((ambiguity.is_asked, ambiguity.is_ambiguous), (is_asked, is_asked));
        let mut delivery = Delivery::default();
        delivery.add(&record, &burst, ambiguity);
        assert_eq!(delivery.asked, is_asked.then_some(true), "it was sent once");
    }
}

/// Karn's algorithm: retransmitted segments yield no sample, and neither do those that were sent before the
/// retransmission, because the receiver may have held their ACK back.
#[test]
fn samples_come_from_segments_that_were_sent_once() {
    for (retransmitted_at, clean) in
        [(None, Some((at(10), at(0)))), (Some(9), Some((at(10), at(10)))), (Some(10), None)]
    {
        let (mut board, mut delivery) = (board(), Delivery::default());
        if let Some(millis) = retransmitted_at {
            retransmit(&mut board, millis);
        }
        let ambiguity = Ambiguity { is_ambiguous: false, is_copy: false, is_asked: false };
        for index in board.head..board.head + 3 {
            let record = *board.get(index).unwrap();
            delivery.add(&record, board.burst_of(&record), ambiguity);
        }
        assert_eq!(delivery.clean(), clean, "{retransmitted_at:?}");
    }
    let (record, burst) = first(&board());
    let mut delivery = Delivery::default();
    delivery.add(&record, &burst, Ambiguity { is_ambiguous: true, is_copy: true, is_asked: false });
    assert_eq!((delivery.clean(), delivery.newest.is_some()), (None, true), "when a copy was sent is unknown");
}

//! Unit tests of the loss detectors with a scoreboard and ACKs, without a connection.

use super::detect::Marking;
use super::*;
use crate::scoreboard::{Burst, Told};

const MSS: u16 = 1000;
const RTT: Span = Span::from_millis(100);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(1000 + millis)
}

/// Returns a scoreboard with `count` segments from offset 1, sent 1 ms apart.
fn board(count: u64) -> Scoreboard {
    let mut board = Scoreboard::new();
    for nth in 0..count {
        board.begin_burst(Burst::new(at(nth)));
        board.push(1 + nth * 1000, MSS, false, false);
    }
    board
}

/// SACKs the segment with this number and calls `each` for it.
fn sack(board: &mut Scoreboard, nth: u64, mut each: impl FnMut(&Record, Time)) {
    let start = 1 + nth * 1000;
    board.sack(start, start + 1000, |record, burst| each(record, burst.sent_at));
}

fn lost(board: &Scoreboard) -> Vec<u64> {
    (board.head..).map_while(|i| board.get(i)).filter(|r| r.is_lost()).map(|r| r.start / 1000).collect()
}

fn marking(board: &mut Scoreboard) -> Marking<'_> {
    Marking { board, lists: None, observed: None, mtu_probe_bytes: 0 }
}

/// RFC 8985, section 3.3: a segment sent before a delivered one is lost once the reordering window has passed.
#[test]
fn rack_marks_segments_overtaken_by_more_than_the_window() {
    let (mut rack, mut board) = (Rack::default(), board(4));
    assert_eq!(rack.detect(at(200), Span::ZERO, TxId(0), &mut marking(&mut board)).check_at, None);
    sack(&mut board, 2, |record, sent_at| {
        rack.detect_reordering(record);
        rack.on_delivered(record, sent_at, at(102), false);
    });
    let window = RTT / 4;
    let outcome = rack.detect(at(102), window, TxId(0), &mut marking(&mut board));
    // The third segment was sent at 2 ms and took 100 ms: segments sent before it are due at 2 + 100 + 25 ms.
    assert_eq!((lost(&board), outcome.check_at), (vec![], Some(at(127))));
    let outcome = rack.detect(at(127), window, TxId(0), &mut marking(&mut board));
    assert_eq!((lost(&board), outcome.check_at, outcome.retransmission_lost), (vec![0, 1], None, false));
}

/// RACK visits segments in order of transmission, also after a spurious recovery and after the receiver has reneged.
#[test]
fn segments_that_are_in_flight_again_hide_none_from_rack() {
    let detect = |board: &mut Scoreboard| {
        let mut rack = Rack::default();
        sack(board, 5, |record, sent_at| rack.on_delivered(record, sent_at, at(105), false));
        rack.detect(at(300), Span::ZERO, TxId(0), &mut marking(board));
        lost(board)
    };
    // The retransmission of the first segment was marked lost as well, and the recovery was spurious.
    let mut forgiven = board(6);
    let head = forgiven.head;
    forgiven.mark_lost(head);
    forgiven.begin_burst(Burst::new(at(200)));
    forgiven.retransmit(head);
    forgiven.mark_lost(head);
    forgiven.forgive();
    assert_eq!(detect(&mut forgiven), [1, 2, 3, 4]);
    // The receiver has discarded two segments, after which another one was sent.
    let mut reneged = board(6);
    for nth in [1, 2] {
        sack(&mut reneged, nth, |_, _| ());
    }
    reneged.begin_burst(Burst::new(at(10)));
    reneged.push(6001, MSS, false, false);
    reneged.renege();
    assert_eq!(detect(&mut reneged), [0, 1, 2, 3, 4]);
}

#[test]
fn racks_window_opens_with_reordering_and_shrinks_after_sixteen_episodes() {
    let mut rack = Rack::default();
    let window = |rack: &Rack| rack.reordering_window(true, Some(RTT), Some(RTT));
    assert_eq!(window(&rack), Span::ZERO);
    let mut board = board(3);
    for nth in [2, 1] {
        sack(&mut board, nth, |record, _| rack.detect_reordering(record));
    }
    assert_eq!(window(&rack), RTT / 4);
    rack.widen(1, 3001);
    rack.widen(1, 3001);
    assert_eq!(window(&rack), RTT / 2, "once per round trip");
    rack.widen(3001, 6001);
    rack.widen(6001, 9001);
    rack.widen(9001, 12_001);
    assert_eq!(window(&rack), RTT, "at most SRTT");
    for _ in 0..16 {
        rack.on_episode_end();
    }
    assert_eq!(window(&rack), RTT / 4);
}

/// IsLost (RFC 6675, section 4): three SACKed segments above, or SACKed bytes of more than two segments.
#[test]
fn sack_counting_needs_three_segments_above() {
    let (mut counting, mut board) = (SackCounting::default(), board(6));
    for (nth, expected) in [(1, vec![]), (2, vec![]), (3, vec![0])] {
        sack(&mut board, nth, |_, _| ());
        counting.detect(MSS, TxId(0), &mut marking(&mut board));
        assert_eq!(lost(&board), expected);
    }
    // NextSeg rule 4: no other segment may be lost, so the highest one is sent once.
    // If the window or the batch has no room, it is offered again.
    for _ in 0..2 {
        let last = counting.rescue(&board).and_then(|i| board.get(i)).copied();
        assert_eq!(last.map(|record| record.start), Some(5001));
    }
    counting.on_retransmit(board.last_unsacked().unwrap().1, 6001);
    assert_eq!(counting.rescue(&board), None);
}

/// RFC 5681, section 3.2, and RFC 6582, section 3.2, step 3.
#[test]
fn three_duplicates_and_partial_acks() {
    let (mut duplicates, mut board) = (DuplicateAcks::default(), board(5));
    let duplicate = AckOutcome { duplicate: true, ..AckOutcome::default() };
    for nth in 1..=3 {
        duplicates.count(&duplicate, MSS, false, 5000);
        let marked = duplicates.detect(&duplicate, Phase::Open, 1, TxId(0), &mut marking(&mut board));
        assert_eq!(marked, nth == 3);
    }
    assert_eq!((lost(&board), duplicates.emulated), (vec![0], 3000));
    board.acknowledge(2001, Told::All, |_, _| ());
    let partial = AckOutcome { una_advanced: 2000, ..AckOutcome::default() };
    duplicates.count(&partial, MSS, true, 3000);
    assert!(duplicates.detect(&partial, Phase::Recovery(5001), 2001, TxId(5), &mut marking(&mut board)));
    assert_eq!((lost(&board), duplicates.emulated), (vec![2], 2000));
}

/// An older echo proves nothing unless the answer arrives before the retransmission can have been answered.
#[test]
fn eifel_needs_an_answer_sooner_than_the_minimum_rtt() {
    for (answer_after, proves) in [(40, true), (100, false)] {
        let (mut spurious, mut board) = (SpuriousDetection::default(), board(2));
        assert_eq!(spurious.check(&AckOutcome::default(), Some(RTT)), None);
        spurious.begin(1, false, true);
        board.mark_lost(board.head);
        board.begin_burst(Burst::new(at(200)));
        board.retransmit(board.head);
        let front = *board.front().unwrap().1;
        spurious.on_retransmit(&front, 77);
        spurious.on_delivered(&front, at(200), at(200 + answer_after));
        let ack = AckOutcome { una_advanced: 1000, echo: Some(76), ..AckOutcome::default() };
        assert_eq!(spurious.check(&ack, Some(RTT)), proves.then_some(false), "{answer_after}");
    }
}

/// RFC 8985, section 7.4.2.
#[test]
fn a_tail_loss_probe_was_needed_unless_it_is_reported_as_a_duplicate() {
    for (dsack, was_needed) in [(None, true), (Some((4001, 5001)), false)] {
        let mut tail = TailLossProbe::default();
        assert!(tail.may_send());
        tail.send(5001, true);
        assert!(!tail.may_send());
        tail.on_ack(4001, &AckOutcome { dsack, ..AckOutcome::default() });
        assert!(!std::mem::take(&mut tail.was_needed));
        tail.on_ack(6001, &AckOutcome { dsack, una_advanced: 2000, ..AckOutcome::default() });
        assert_eq!(std::mem::take(&mut tail.was_needed), was_needed);
        assert!(tail.may_send() && !std::mem::take(&mut tail.was_needed));
    }
}

/// RFC 9293, section 3.8.3: R2 ends a connection only if the peer is silent. A peer that has closed is given up sooner, and
/// one that discards our data gets the RST.
#[test]
fn timeouts_lead_to_the_end_only_of_a_silent_peer() {
    let nth = |n: u32, resets, only_fin, may_give_up, heard: bool| {
        let mut loss = Loss::default();
        let mut steps = (0..n).map(|_| {
            loss.unanswered = if heard { 0 } else { loss.unanswered };
            loss.on_timeout(resets, only_fin, may_give_up)
        });
        steps.find(|step| *step != TimeoutStep::Retransmit).map(|step| (loss.timeouts, step))
    };
    let gone = TimeoutStep::End(Some(ConnectionError::TimedOut));
    assert_eq!(nth(100, false, false, true, false), Some((16, gone)));
    assert_eq!(nth(100, false, false, false, false), None, "it still answers, or the user timeout decides");
    assert_eq!(nth(100, false, true, false, false), Some((9, TimeoutStep::End(None))));
    assert_eq!(nth(100, false, true, false, true), None);
    assert_eq!(nth(100, true, false, false, true), Some((6, TimeoutStep::Reset)));
    assert_eq!(nth(100, true, false, false, false), None);
}

//! Tests of the timing of ACKs.

use super::*;

/// A full-sized segment in order, and one beyond a hole.
const FULL: Place = Place::Next;
const BEYOND_HOLE: Place = Place::Other;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Returns a schedule that has acknowledged the first segments of the connection.
fn later() -> AckSchedule {
    AckSchedule { initial_acks: 0, ..AckSchedule::new(0) }
}

/// RFC 5681, section 4.2: an ACK for at least every second full-sized segment; one for the batch if it is larger.
#[test]
fn every_second_full_sized_segment_is_acknowledged() {
    for (segments, is_delayed, is_due) in [(0, false, false), (1, true, false), (2, false, true), (40, false, true)] {
        let mut acks = later();
        (0..segments).for_each(|_| assert!(!acks.on_data(1000, FULL, 2, true)));
        assert_eq!((acks.end_batch(2, true), acks.due), (is_delayed, is_due), "{segments}");
        acks.on_ack_sent(1);
        assert!(!acks.due && !acks.end_batch(2, true), "nothing is left to acknowledge");
    }
    // Without delay, each batch is acknowledged.
    let mut acks = later();
    acks.on_data(1000, FULL, 2, true);
    assert!(!acks.end_batch(2, false) && acks.due);
}

/// A segment is full-sized if none was larger, or if it has the default MSS. Small ones count at the start only.
#[test]
fn small_segments_are_not_full_sized() {
    let is_due = |mut acks: AckSchedule, lens: [usize; 3]| {
        for len in lens {
            acks.on_data(len, Place::Next, 3, true);
        }
        acks.end_batch(3, true);
        acks.due
    };
    assert!(is_due(later(), [100, 100, 100]) && is_due(later(), [1000, 536, 536]));
    assert!(!is_due(later(), [1000, 535, 536]) && !is_due(later(), [101, 100, 101]));
    assert!(is_due(AckSchedule::new(0), [1000, 535, 536]), "at the start, any size counts");
}

/// RFC 5681, section 4.2: an out-of-order segment is acknowledged at once. One ACK has room for three SACK blocks.
#[test]
fn out_of_order_data_is_acknowledged_at_once() {
    let mut acks = later();
    let outcomes: Vec<bool> = (0..3).map(|_| acks.on_data(1000, BEYOND_HOLE, 2, true)).collect();
    assert_eq!((outcomes, acks.due), (vec![false, false, true], true));
    assert!(acks.needs_pure_ack(true) && !acks.needs_pure_ack(false));
    assert!(later().on_data(1000, BEYOND_HOLE, 2, false), "without SACK, each duplicate ACK counts");
    let mut acks = later();
    acks.dsack = Some((1, 1001));
    assert!(acks.on_data(1000, BEYOND_HOLE, 2, true));
    assert!(acks.needs_pure_ack(false));
    assert_eq!((acks.dsack.take(), acks.dsack.take()), (Some((1, 1001)), None));
    let mut acks = later();
    acks.probe_echo = Some(7);
    assert_eq!((acks.on_data(1000, BEYOND_HOLE, 2, true), acks.probe_echo.take()), (true, Some(7)));
}

/// Segments that continue a SACK block need no ACK of their own within a receive batch.
#[test]
fn one_ack_reports_a_run_beyond_a_hole() {
    let run = |acks: &mut AckSchedule| acks.on_data(1000, Place::SameBlock, 2, true);
    let mut acks = later();
    let mut outcomes = vec![acks.on_data(1000, BEYOND_HOLE, 2, true)];
    outcomes.extend((0..100).map(|_| run(&mut acks)));
    outcomes.push(acks.on_data(1000, BEYOND_HOLE, 2, true));
    assert!(outcomes.iter().all(|now| !now) && acks.due);
    assert!(acks.on_data(1000, BEYOND_HOLE, 2, true), "the third block");
    acks.on_ack_sent(1);
    // The block that continues after an ACK is one of the next three.
    let outcomes = [run(&mut acks), acks.on_data(1000, BEYOND_HOLE, 2, true), acks.on_data(1000, BEYOND_HOLE, 2, true)];
    assert_eq!(outcomes, [false, false, true]);
    assert!(later().on_data(1000, Place::SameBlock, 2, false), "without SACK");
}

/// An ACK that covers several segments repeats a block, as its predecessor may be lost.
#[test]
fn acks_report_changed_blocks_and_repeat_one() {
    let due = |places: &[Place]| {
        let mut acks = later();
        places.iter().for_each(|&place| _ = acks.on_data(1000, place, 2, true));
        acks.blocks_due()
    };
    let [next, same, other] = [Place::Next, Place::SameBlock, Place::Other];
    assert_eq!([due(&[]), due(&[other]), due(&[other, same]), due(&[other, other])], [0, 1, 1, 2]);
    let mut acks = later();
    acks.on_data(1000, BEYOND_HOLE, 2, true);
    acks.dsack = Some((1, 1001));
    assert_eq!(acks.blocks_due(), 2, "the D-SACK block comes first");
    assert_eq!([due(&[other, same, same]), due(&[other, same, other]), due(&[next, next, other])], [2, 3, 2]);
}

/// RFC 5961, section 7.
#[test]
fn challenge_acks_are_limited_to_two_per_second() {
    let mut acks = AckSchedule::new(0);
    let sent: Vec<u64> = (0..1100).filter(|millis| acks.may_challenge(at(*millis))).collect();
    assert_eq!(sent, [0, 500, 1000]);
}

/// RFC 3168, section 6.1.3: ECE is set until CWR arrives. A segment with both CWR and CE begins a new echo.
#[test]
fn ce_is_echoed_until_cwr() {
    let mut acks = AckSchedule::new(0);
    let mut echo = |cwr, ce| {
        acks.on_ecn(cwr, ce);
        let echo = (acks.echo_congestion, acks.due);
        acks.on_ack_sent(0);
        echo
    };
    assert_eq!([echo(false, false), echo(false, true)], [(false, false), (true, true)]);
    assert_eq!([echo(false, true), echo(false, false)], [(true, false), (true, false)], "sent at once only at first");
    assert_eq!([echo(true, false), echo(false, true), echo(true, true)], [(false, false), (true, true), (true, true)]);
}

#[test]
fn an_ack_covers_what_arrived_before_it() {
    let mut acks = AckSchedule::new(0);
    acks.on_ack_sent(100);
    acks.due |= acks.last_sent < 100;
    assert!(!acks.due);
    acks.due |= acks.last_sent < 101;
    assert!(acks.due && acks.last_sent == 100);
    acks.queue.push_back(Header::default());
    acks.close();
    assert!(!acks.due && acks.queue.is_empty());
}

/// Returns which of `count` full-sized in-order segments trigger an ACK in the middle of a batch.
fn acked_segments(acks: &mut AckSchedule, count: u32, own: u32) -> Vec<u32> {
    let is_acked = |acks: &mut AckSchedule| {
        let due = acks.on_data(1000, FULL, own, true);
        if due {
            acks.on_ack_sent(0);
        }
        due
    };
    (0..count).filter(|_| is_acked(acks)).collect()
}

/// A request for an ACK every `n` segments applies to 256 segments, the first of which is acknowledged at once.
#[test]
fn an_ack_request_applies_to_256_segments() {
    let mut unasked = AckSchedule::new(0);
    let without = acked_segments(&mut unasked, 300, 2);
    assert_eq!(without, (0..128).filter(|k| k % 2 == 1).collect::<Vec<_>>());
    let mut acks = AckSchedule::new(0);
    acks.apply_request(1);
    assert_eq!(acked_segments(&mut acks, 300, 2), (0..256).collect::<Vec<_>>());
    let mut acks = AckSchedule::new(0);
    acks.apply_request(6);
    assert_eq!(acked_segments(&mut acks, 256, 2), (0..256).filter(|k| k % 6 == 0).collect::<Vec<_>>());
    assert_eq!(acks.every(2), 2);
    // A repeated request extends the period and triggers no immediate ACK.
    acks.apply_request(6);
    acked_segments(&mut acks, 20, 2);
    acks.on_ack_sent(0);
    acks.apply_request(6);
    assert_eq!(acked_segments(&mut acks, 12, 2), [5, 11]);
    acks.apply_request(3);
    assert_eq!(acked_segments(&mut acks, 7, 2), [0, 3, 6]);
}

/// Linux acknowledges the first 16 segments one by one, and then every second one.
#[test]
fn the_first_segments_may_be_acknowledged_one_by_one() {
    let mut acks = AckSchedule::new(16);
    assert_eq!(acked_segments(&mut acks, 24, 2), (0..16).chain([17, 19, 21, 23]).collect::<Vec<_>>());
}

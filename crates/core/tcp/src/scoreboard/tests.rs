use super::model::{Op, Twins};
use super::*;
use longhaul_units::Span;
use proptest::prelude::*;

#[test]
fn a_record_stays_small() {
    assert_eq!(size_of::<Record>(), 32);
    assert!(size_of::<Burst>() <= 72);
}

fn filled(segments: u64, mss: u16) -> Scoreboard {
    let mut board = Scoreboard::new();
    for i in 0..segments {
        board.begin_burst(Burst::new(Time::ZERO + Span::from_millis(i)));
        board.push(1 + i * u64::from(mss), mss, false, false);
    }
    board
}

#[test]
fn a_block_counts_only_whole_segments() {
    let mut board = filled(10, 100);
    assert_eq!(board.sack(150, 450, |_, _| {}), 200); // segments 201..301 and 301..401
    assert_eq!(board.sack(101, 501, |_, _| {}), 200); // and the two beside them
    assert_eq!((board.sacked_bytes, board.in_flight), (400, 600));
    assert_eq!(board.acknowledge(501, Told::All, |_, _| {}), 100);
    assert_eq!((board.sacked_bytes, board.in_flight, board.len()), (0, 500, 5));
}

#[test]
fn retransmissions_move_to_the_end_of_the_send_time_list() {
    let mut board = filled(4, 100);
    let first = board.head;
    board.mark_lost(first);
    assert_eq!(board.next_lost(), Some(first));
    assert_eq!(board.oldest_sent(), Some(first + 1));
    board.begin_burst(Burst::new(Time::ZERO + Span::from_secs(1)));
    board.retransmit(first);
    assert_eq!(board.next_lost(), None);
    board.sack(101, 401, |_, _| {});
    assert_eq!(board.oldest_sent(), Some(first));
    assert_eq!(board.in_flight, 100);
}

#[test]
fn resegmenting_keeps_bytes_flags_and_order() {
    let mut board = filled(4, 1000);
    board.sack(1001, 2001, |_, _| {});
    board.mark_lost(board.head);
    board.resegment(400);
    assert_eq!(board.len(), 12);
    assert_eq!((board.lost_bytes, board.sacked_bytes, board.in_flight), (1000, 1000, 2000));
    assert_eq!(board.acknowledge(4001, Told::All, |_, _| {}), 3000);
}

/// The number of records written when a lost path MTU probe is split does not depend on the data in flight after it. A
/// decrease of the path MTU writes each record once.
#[test]
fn only_records_up_to_a_lost_probe_are_written() {
    let mut board = Scoreboard::new();
    board.begin_burst(Burst::new(Time::ZERO));
    board.push(1, 1400, false, false);
    board.push(1401, 1500, false, true);
    board.append(2901, 1400, 0, 100_000);
    let probe = board.head + 1;
    board.mark_lost(probe);
    assert_eq!(board.resegment_to(probe, 1400), 3);
    let pieces = [(1, 1400), (1401, 1400), (2801, 100), (2901, 1400)];
    let head = board.head;
    for (index, piece) in (head..).zip(pieces) {
        assert_eq!(board.get(index).map(|record| (record.start, record.len)), Some(piece));
    }
    assert_eq!((board.next_lost(), board.lost_bytes, board.len()), (Some(head + 1), 1500, 100_003));
    assert_eq!((board.resegment_to(head + 1, 1400), board.resegment(1400)), (0, 0));
    assert_eq!(board.resegment(700), 1 + 200_004);
}

/// A flipped pair is in sequence order in the ring, but in order of sending in the list and by transmission number.
#[test]
fn a_flipped_pair_is_in_order_of_sending_in_the_list() {
    let mut board = filled(1, 100);
    board.begin_burst(Burst::new(Time::ZERO + Span::from_secs(1)));
    let (first_sent, second_sent) = board.push_flipped(101, 100, 99);
    let head = board.head;
    assert!(first_sent < second_sent && board.last_tx() == second_sent);
    let of = |board: &Scoreboard, i| board.get(head + i).map(|r| (r.start, r.len, r.tx, r.is_flipped())).unwrap();
    assert_eq!(of(&board, 1), (101, 100, second_sent, true));
    assert_eq!(of(&board, 2), (201, 99, first_sent, false));
    board.acknowledge(101, Told::All, |_, _| {});
    assert_eq!(board.oldest_sent(), Some(head + 2));
    board.sack(201, 300, |_, _| {});
    assert_eq!((board.oldest_sent(), board.in_flight), (Some(head + 1), 100));
}

/// A segment that the peer already had counts as SACKed when segments are selected for transmission or loss
/// detection, and in no other counter. If the receiver discards it, it is sent like any other segment.
#[test]
fn skipped_data_is_in_no_counter() {
    let mut board = filled(2, 100);
    board.push_passed(201, 5000);
    board.push(5201, 100, false, false);
    let head = board.head;
    assert_eq!((board.in_flight, board.sacked_bytes, board.passed_bytes, board.lost_bytes), (300, 0, 5000, 0));
    assert!(board.get(head + 2).is_some_and(|record| record.is_passed() && record.is_sacked()));
    assert_eq!(board.last_unsacked().map(|(index, _)| index), Some(head + 3));
    assert_eq!((board.next_in_doubt(0), board.mark_lost(head + 2)), (None, false), "no SACK above says anything");
    assert_eq!(board.sack(201, 5301, |_, _| {}), 100);
    // Acknowledge a part of the segment, which no honest peer does, and then all of it.
    let mut told = 0;
    assert_eq!((board.acknowledge(301, Told::All, |_, _| told += 1), board.passed_bytes, told), (200, 4900, 2));
    board.resegment(1000);
    assert_eq!((board.len(), board.passed_bytes, board.sacked_bytes), (6, 4900, 100));
    let mut reneged = board.clone();
    assert_eq!((board.acknowledge(5201, Told::All, |_, _| told += 1), board.passed_bytes, told), (0, 0, 2));
    reneged.renege();
    assert_eq!((reneged.passed_bytes, reneged.sacked_bytes, reneged.in_flight), (0, 0, 5000));
    assert!(reneged.mark_lost(reneged.head));
    assert_eq!((reneged.next_lost(), reneged.lost_bytes), (Some(reneged.head), 1000));
    assert_eq!(reneged.acknowledge(5301, Told::All, |_, _| told += 1), 5000);
}

/// If a segment was sent twice, its delivery is attributed to the later transmission only if that was sent before
/// the horizon.
#[test]
fn the_send_time_tells_which_of_two_copies_was_delivered() {
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    let mut board = Scoreboard::new();
    for (k, millis) in [10, 20, 30].into_iter().enumerate() {
        board.begin_burst(Burst::new(at(millis)));
        board.push(1 + 100 * k as u64, 100, false, false);
        board.note_early();
    }
    board.horizon = at(20);
    board.sack(101, 301, |record, _| assert!(record.is_early() && record.is_copied()));
    let early: Vec<_> = (0..3).filter_map(|k| board.get(board.head + k)).map(Record::is_early).collect();
    assert_eq!(early, [true, false, true]);
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u16..2000).prop_map(Op::Push),
        1 => (1u16..2000, 0u32..24).prop_map(|(len, count)| Op::PushRun(len, count)),
        1 => (1u16..9000).prop_map(Op::Pass),
        3 => (0u64..60_000, 0u64..20_000).prop_map(|(a, b)| Op::Sack(a, b)),
        2 => (0u64..8_000).prop_map(Op::Ack),
        3 => (0u64..60).prop_map(Op::Lose),
        3 => Just(Op::Retransmit),
        1 => Just(Op::Forgive),
        1 => Just(Op::Renege),
        1 => (1u16..1500).prop_map(Op::Resegment),
        1 => (0u64..60, 1u16..1500).prop_map(|(nth, mss)| Op::ResegmentTo(nth, mss)),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_naive_model(ops in prop::collection::vec(op(), 1..300)) {
        let mut twins = Twins::new();
        for op in ops {
            twins.apply(op);
            twins.agree();
        }
    }
}

#[test]
fn scoreboard_corpus() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/scoreboard");
    let mut seeds = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        super::model::play(&std::fs::read(&path).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", directory.display());
}

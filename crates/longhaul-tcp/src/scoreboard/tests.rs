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
    assert_eq!((board.sacked_bytes(), board.in_flight()), (400, 600));
    assert_eq!(board.acknowledge(501, |_, _| {}), 100);
    assert_eq!((board.sacked_bytes(), board.in_flight(), board.len()), (0, 500, 5));
}

#[test]
fn retransmissions_move_to_the_end_of_the_send_time_list() {
    let mut board = filled(4, 100);
    let first = board.head_index();
    board.mark_lost(first);
    assert_eq!(board.next_lost(), Some(first));
    assert_eq!(board.oldest_sent(), Some(first + 1));
    board.begin_burst(Burst::new(Time::ZERO + Span::from_secs(1)));
    board.retransmit(first);
    assert_eq!(board.next_lost(), None);
    board.sack(101, 401, |_, _| {});
    assert_eq!(board.oldest_sent(), Some(first));
    assert_eq!(board.in_flight(), 100);
}

#[test]
fn resegmenting_keeps_bytes_flags_and_order() {
    let mut board = filled(4, 1000);
    board.sack(1001, 2001, |_, _| {});
    board.mark_lost(board.head_index());
    board.resegment(400);
    assert_eq!(board.len(), 12);
    assert_eq!((board.lost_bytes(), board.sacked_bytes(), board.in_flight()), (1000, 1000, 2000));
    assert_eq!(board.acknowledge(4001, |_, _| {}), 3000);
}

/// A flipped pair is in sequence order in the ring, and in the order of sending in the list and by transmission.
#[test]
fn a_flipped_pair_left_second_first() {
    let mut board = filled(1, 100);
    board.begin_burst(Burst::new(Time::ZERO + Span::from_secs(1)));
    let (first_sent, second_sent) = board.push_flipped(101, 100, 99);
    let head = board.head_index();
    assert!(first_sent < second_sent && board.last_tx() == second_sent);
    let of = |board: &Scoreboard, i| board.get(head + i).map(|r| (r.start, r.len, r.tx, r.is_flipped())).unwrap();
    assert_eq!(of(&board, 1), (101, 100, second_sent, true));
    assert_eq!(of(&board, 2), (201, 99, first_sent, false));
    board.acknowledge(101, |_, _| {});
    assert_eq!(board.oldest_sent(), Some(head + 2));
    board.sack(201, 300, |_, _| {});
    assert_eq!((board.oldest_sent(), board.in_flight()), (Some(head + 1), 100));
}

/// The slow and obvious scoreboard.
#[derive(Default)]
struct Model(Vec<(u64, u64, bool, bool)>);

impl Model {
    fn in_flight(&self) -> u64 {
        self.0.iter().filter(|s| !s.2 && !s.3).map(|s| s.1).sum()
    }
    fn sacked(&self) -> u64 {
        self.0.iter().filter(|s| s.2).map(|s| s.1).sum()
    }
    fn lost(&self) -> u64 {
        self.0.iter().filter(|s| s.3).map(|s| s.1).sum()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Push(u16),
    Sack(u64, u64),
    Ack(u64),
    Lose(u64),
    Retransmit,
    Forgive,
    Renege,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u16..2000).prop_map(Op::Push),
        3 => (0u64..60_000, 0u64..20_000).prop_map(|(a, b)| Op::Sack(a, b)),
        2 => (0u64..8_000).prop_map(Op::Ack),
        3 => (0u64..60).prop_map(Op::Lose),
        3 => Just(Op::Retransmit),
        1 => Just(Op::Forgive),
        1 => Just(Op::Renege),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_naive_model(ops in prop::collection::vec(op(), 1..300)) {
        let mut board = Scoreboard::new();
        let mut model = Model::default();
        let (mut una, mut nxt, mut now) = (1u64, 1u64, Time::ZERO);
        for op in ops {
            now += Span::from_micros(10);
            match op {
                Op::Push(len) => {
                    board.begin_burst(Burst::new(now));
                    board.push(nxt, len, false, false);
                    model.0.push((nxt, u64::from(len), false, false));
                    nxt += u64::from(len);
                }
                Op::Sack(from, len) => {
                    let (left, right) = (una + from, (una + from + len).min(nxt));
                    let before = model.sacked();
                    for s in &mut model.0 {
                        if s.0 >= left && s.0 + s.1 <= right {
                            (s.2, s.3) = (true, false);
                        }
                    }
                    let mut told = 0;
                    let bytes = board.sack(left, right, |r, _| told += r.sequence_len());
                    prop_assert_eq!(bytes, model.sacked() - before);
                    prop_assert_eq!(bytes, told);
                }
                Op::Ack(by) => {
                    una = (una + by).min(nxt);
                    board.acknowledge(una, |_, _| {});
                    model.0.retain_mut(|s| {
                        if s.0 + s.1 <= una {
                            return false;
                        }
                        let cut = una.saturating_sub(s.0);
                        s.0 += cut;
                        s.1 -= cut;
                        true
                    });
                }
                Op::Lose(nth) => {
                    let index = board.head_index() + nth;
                    if board.get(index).is_some() {
                        board.mark_lost(index);
                        let s = &mut model.0[nth as usize];
                        s.3 = !s.2;
                    }
                }
                Op::Retransmit => {
                    let want = model.0.iter().position(|s| s.3).map(|p| p as u64 + board.head_index());
                    prop_assert_eq!(board.next_lost(), want);
                    if let Some(index) = want {
                        board.begin_burst(Burst::new(now));
                        board.retransmit(index);
                        model.0[(index - board.head_index()) as usize].3 = false;
                    }
                }
                Op::Forgive => {
                    board.forgive();
                    model.0.iter_mut().for_each(|s| s.3 = false);
                }
                Op::Renege => {
                    board.renege();
                    model.0.iter_mut().for_each(|s| s.2 = false);
                }
            }
            prop_assert_eq!(board.in_flight(), model.in_flight());
            prop_assert_eq!(board.sacked_bytes(), model.sacked());
            prop_assert_eq!(board.lost_bytes(), model.lost());
            let base = board.head_index();
            let unsacked = model.0.iter().rposition(|s| !s.2).map(|p| base + p as u64);
            prop_assert_eq!(board.last_unsacked_below(u64::MAX), unsacked);
            let top = model.0.iter().rposition(|s| s.2);
            prop_assert_eq!(board.last_sacked_below(u64::MAX), top.map(|p| base + p as u64));
            for offset in [0, una, una + (nxt - una) / 2, nxt] {
                let doubtful = |(p, s): (usize, &(u64, u64, bool, bool))| {
                    (top.is_some_and(|top| p < top) && !s.2 && !s.3 && s.0 >= offset).then_some(base + p as u64)
                };
                prop_assert_eq!(board.next_in_doubt(offset), model.0.iter().enumerate().find_map(doubtful));
            }
            let mut linked = 0;
            let mut at = board.oldest_sent();
            while let Some(index) = at {
                linked += 1;
                let next = board.record(index).next;
                at = (next != NIL).then(|| board.widen(next));
            }
            prop_assert_eq!(linked, model.0.iter().filter(|s| !s.2 && !s.3).count());
        }
    }
}

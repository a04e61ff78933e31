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

/// What was passed over is SACKed to who looks for the next to be sent or the last to be judged, and in no other count; a receiver that
/// discarded it has it sent like all else.
#[test]
fn what_was_passed_over_is_in_no_count() {
    let mut board = filled(2, 100);
    board.push_passed(201, 5000);
    board.push(5201, 100, false, false);
    let head = board.head_index();
    assert_eq!((board.in_flight(), board.sacked_bytes(), board.passed_bytes(), board.lost_bytes()), (300, 0, 5000, 0));
    assert!(board.get(head + 2).is_some_and(|record| record.is_passed() && record.is_sacked()));
    assert_eq!(board.last_unsacked().map(|(index, _)| index), Some(head + 3));
    assert_eq!((board.next_in_doubt(0), board.mark_lost(head + 2)), (None, false), "no SACK above says anything");
    assert_eq!(board.sack(201, 5301, |_, _| {}), 100);
    // In part, as no honest peer does; then all of it.
    let mut told = 0;
    assert_eq!((board.acknowledge(301, |_, _| told += 1), board.passed_bytes(), told), (200, 4900, 2));
    board.resegment(1000);
    assert_eq!((board.len(), board.passed_bytes(), board.sacked_bytes()), (6, 4900, 100));
    let mut reneged = board.clone();
    assert_eq!((board.acknowledge(5201, |_, _| told += 1), board.passed_bytes(), told), (0, 0, 2));
    reneged.renege();
    assert_eq!((reneged.passed_bytes(), reneged.sacked_bytes(), reneged.in_flight()), (0, 0, 5000));
    assert!(reneged.mark_lost(reneged.head_index()));
    assert_eq!((reneged.next_lost(), reneged.lost_bytes()), (Some(reneged.head_index()), 1000));
    assert_eq!(reneged.acknowledge(5301, |_, _| told += 1), 5000);
}

/// Of what left twice, an answer within the horizon is not of the second time.
#[test]
fn an_answer_tells_which_of_two_it_is_of_by_its_time() {
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    let mut board = Scoreboard::new();
    for (k, millis) in [10, 20, 30].into_iter().enumerate() {
        board.begin_burst(Burst::new(at(millis)));
        board.push(1 + 100 * k as u64, 100, false, false);
        board.note_early();
    }
    board.set_horizon(at(20));
    board.sack(101, 301, |record, _| assert!(record.is_early() && record.is_copied()));
    let early: Vec<_> = (0..3).filter_map(|k| board.get(board.head_index() + k)).map(Record::is_early).collect();
    assert_eq!(early, [true, false, true]);
}

/// A segment of the slow and obvious scoreboard.
struct Segment {
    start: u64,
    len: u64,
    sacked: bool,
    lost: bool,
    /// The peer had it before it was ever in flight.
    passed: bool,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.len
    }

    fn is_in_flight(&self) -> bool {
        !self.sacked && !self.lost
    }
}

/// The scoreboard and the slow and obvious one, of the same stream.
struct Twins {
    board: Scoreboard,
    model: Vec<Segment>,
    una: u64,
    nxt: u64,
    now: Time,
}

#[derive(Clone, Debug)]
enum Op {
    Push(u16),
    Pass(u16),
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
        1 => (1u16..9000).prop_map(Op::Pass),
        3 => (0u64..60_000, 0u64..20_000).prop_map(|(a, b)| Op::Sack(a, b)),
        2 => (0u64..8_000).prop_map(Op::Ack),
        3 => (0u64..60).prop_map(Op::Lose),
        3 => Just(Op::Retransmit),
        1 => Just(Op::Forgive),
        1 => Just(Op::Renege),
    ]
}

impl Twins {
    fn new() -> Self {
        Self { board: Scoreboard::new(), model: Vec::new(), una: 1, nxt: 1, now: Time::ZERO }
    }

    fn bytes(&self, which: impl Fn(&Segment) -> bool) -> u64 {
        self.model.iter().filter(|segment| which(segment)).map(|segment| segment.len).sum()
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        self.now += Span::from_micros(10);
        match op {
            Op::Push(len) => {
                self.board.begin_burst(Burst::new(self.now));
                self.board.push(self.nxt, len, false, false);
                let len = u64::from(len);
                self.model.push(Segment { start: self.nxt, len, sacked: false, lost: false, passed: false });
                self.nxt += len;
            }
            Op::Pass(len) => {
                self.board.begin_burst(Burst::new(self.now));
                self.board.push_passed(self.nxt, len);
                let len = u64::from(len);
                self.model.push(Segment { start: self.nxt, len, sacked: true, lost: false, passed: true });
                self.nxt += len;
            }
            Op::Sack(from, len) => self.sack(self.una + from, (self.una + from + len).min(self.nxt))?,
            Op::Ack(by) => self.acknowledge((self.una + by).min(self.nxt)),
            Op::Lose(nth) => {
                let index = self.board.head_index() + nth;
                if self.board.get(index).is_some() {
                    self.board.mark_lost(index);
                    let segment = &mut self.model[nth as usize];
                    segment.lost = !segment.sacked;
                }
            }
            Op::Retransmit => self.retransmit()?,
            Op::Forgive => {
                self.board.forgive();
                self.model.iter_mut().for_each(|segment| segment.lost = false);
            }
            Op::Renege => {
                self.board.renege();
                self.model.iter_mut().for_each(|segment| (segment.sacked, segment.passed) = (false, false));
            }
        }
        Ok(())
    }

    fn sack(&mut self, left: u64, right: u64) -> Result<(), TestCaseError> {
        let before = self.bytes(|segment| segment.sacked);
        for segment in self.model.iter_mut().filter(|segment| segment.start >= left && segment.end() <= right) {
            (segment.sacked, segment.lost) = (true, false);
        }
        let mut told = 0;
        let bytes = self.board.sack(left, right, |record, _| told += record.sequence_len());
        prop_assert_eq!(bytes, self.bytes(|segment| segment.sacked) - before);
        prop_assert_eq!(bytes, told);
        Ok(())
    }

    fn acknowledge(&mut self, una: u64) {
        self.una = una;
        self.board.acknowledge(una, |_, _| {});
        self.model.retain(|segment| segment.end() > una);
        for segment in &mut self.model {
            let cut = una.saturating_sub(segment.start);
            segment.start += cut;
            segment.len -= cut;
        }
    }

    fn retransmit(&mut self) -> Result<(), TestCaseError> {
        let first = self.model.iter().position(|segment| segment.lost);
        let index = first.map(|place| place as u64 + self.board.head_index());
        prop_assert_eq!(self.board.next_lost(), index);
        if let Some((place, index)) = first.zip(index) {
            self.board.begin_burst(Burst::new(self.now));
            self.board.retransmit(index);
            self.model[place].lost = false;
        }
        Ok(())
    }

    fn agree(&self) -> Result<(), TestCaseError> {
        let (board, model) = (&self.board, &self.model);
        prop_assert_eq!(board.in_flight(), self.bytes(Segment::is_in_flight));
        prop_assert_eq!(board.sacked_bytes(), self.bytes(|segment| segment.sacked && !segment.passed));
        prop_assert_eq!(board.passed_bytes(), self.bytes(|segment| segment.passed));
        prop_assert_eq!(board.lost_bytes(), self.bytes(|segment| segment.lost));
        let index = |place: usize| board.head_index() + place as u64;
        let unsacked = model.iter().rposition(|segment| !segment.sacked);
        prop_assert_eq!(board.last_unsacked_below(u64::MAX), unsacked.map(index));
        let top = model.iter().rposition(|segment| segment.sacked);
        prop_assert_eq!(board.last_sacked_below(u64::MAX), top.map(index));
        let top = model.iter().rposition(|segment| segment.sacked && !segment.passed);
        for offset in [0, self.una, self.una + (self.nxt - self.una) / 2, self.nxt] {
            let mut below = model.iter().take(top.unwrap_or(0));
            let doubtful = below.position(|segment| segment.is_in_flight() && segment.start >= offset);
            prop_assert_eq!(board.next_in_doubt(offset), doubtful.map(index));
        }
        let next = |at: &u64| Some(board.record(*at).next).filter(|next| *next != NIL).map(|next| board.widen(next));
        let linked = std::iter::successors(board.oldest_sent(), next).count();
        prop_assert_eq!(linked, model.iter().filter(|segment| segment.is_in_flight()).count());
        Ok(())
    }
}

proptest! {
    #[test]
    fn agrees_with_the_naive_model(ops in prop::collection::vec(op(), 1..300)) {
        let mut twins = Twins::new();
        for op in ops {
            twins.apply(op)?;
            twins.agree()?;
        }
    }
}

//! Naive reference model of the scoreboard, for the tests and for the fuzz target that plays scripts to both.

use longhaul_cc::TxId;
use longhaul_units::{Span, Time};

use super::{LINKED, NIL, Reclaim, Told};
use crate::{Burst, Scoreboard};

/// Segment of the reference model.
struct Segment {
    start: u64,
    len: u64,
    sacked: bool,
    lost: bool,
    /// Whether the peer had the segment before it was ever in flight.
    passed: bool,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.len
    }

    fn is_in_flight(&self) -> bool {
        !self.sacked && !self.lost
    }

    /// Splits the segment into pieces of at most `mss` bytes.
    fn pieces(&self, mss: u64) -> impl Iterator<Item = Self> {
        let Self { start, sacked, lost, passed, .. } = *self;
        let ends = self.end();
        (start..ends).step_by(mss as usize).map(move |start| {
            let len = mss.min(ends - start);
            Self { start, len, sacked, lost, passed }
        })
    }
}

/// Scoreboard and reference model of the same stream.
pub(crate) struct Twins {
    board: Scoreboard,
    model: Vec<Segment>,
    una: u64,
    nxt: u64,
    now: Time,
}

/// Operation applied to both.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Push(u16),
    /// Segments of the same length in one burst.
    PushRun(u16, u32),
    Pass(u16),
    Sack(u64, u64),
    Ack(u64),
    Lose(u64),
    Retransmit,
    Forgive,
    Renege,
    Resegment(u16),
    /// Only up to the segment with this number.
    ResegmentTo(u64, u16),
}

impl Twins {
    pub(crate) fn new() -> Self {
        // Links to records begin again soon.
        let board = Scoreboard::from_kept(&(0, u64::from(u32::MAX) - 10));
        Self { board, model: Vec::new(), una: 1, nxt: 1, now: Time::ZERO }
    }

    fn bytes(&self, which: impl Fn(&Segment) -> bool) -> u64 {
        self.model.iter().filter(|segment| which(segment)).map(|segment| segment.len).sum()
    }

    pub(crate) fn apply(&mut self, op: Op) {
        self.now += Span::from_micros(10);
        match op {
            Op::Push(len) => {
                self.begin_burst(len);
                self.board.push(self.nxt, len, false, false);
                self.note_push(len);
            }
            Op::PushRun(len, count) => {
                self.begin_burst(len);
                let mut twin = self.board.clone();
                let first = self.board.append(self.nxt, len, 0, count);
                for number in 0..count {
                    assert_eq!(twin.push(self.nxt, len, false, false), TxId(first.0 + u64::from(number)));
                    self.note_push(len);
                }
                assert_eq!(ends(&self.board, count), ends(&twin, count));
            }
            Op::Pass(len) => {
                self.board.begin_burst(Burst::new(self.now));
                self.board.push_passed(self.nxt, len);
                let len = u64::from(len);
                self.model.push(Segment { start: self.nxt, len, sacked: true, lost: false, passed: true });
                self.nxt += len;
            }
            Op::Sack(from, len) => self.sack(self.una + from, (self.una + from + len).min(self.nxt)),
            Op::Ack(by) => self.acknowledge((self.una + by).min(self.nxt)),
            Op::Lose(nth) => {
                let index = self.board.head + nth;
                if self.board.get(index).is_some() {
                    self.board.mark_lost(index);
                    let segment = &mut self.model[nth as usize];
                    segment.lost = !segment.sacked;
                }
            }
            Op::Retransmit => self.retransmit(),
            Op::Forgive => {
                self.board.forgive();
                self.model.iter_mut().for_each(|segment| segment.lost = false);
            }
            Op::Renege => {
                self.board.renege();
                self.model.iter_mut().for_each(|segment| (segment.sacked, segment.passed) = (false, false));
            }
            Op::Resegment(mss) => {
                self.board.resegment(mss);
                self.model = self.model.iter().flat_map(|segment| segment.pieces(mss.into())).collect();
            }
            Op::ResegmentTo(nth, mss) => {
                let index = self.board.head + nth;
                if self.board.get(index).is_some() {
                    self.board.resegment_to(index, mss);
                    let rest = self.model.split_off(nth as usize + 1);
                    self.model = self.model.iter().flat_map(|segment| segment.pieces(mss.into())).collect();
                    self.model.extend(rest);
                }
            }
        }
    }

    /// Begins a burst, or lets the next segments join the last one.
    fn begin_burst(&mut self, len: u16) {
        if len.is_multiple_of(4) || self.board.bursts.is_empty() {
            self.board.begin_burst(Burst::new(self.now));
        }
    }

    fn note_push(&mut self, len: u16) {
        let len = u64::from(len);
        self.model.push(Segment { start: self.nxt, len, sacked: false, lost: false, passed: false });
        self.nxt += len;
    }

    fn sack(&mut self, left: u64, right: u64) {
        let before = self.bytes(|segment| segment.sacked);
        for segment in self.model.iter_mut().filter(|segment| segment.start >= left && segment.end() <= right) {
            (segment.sacked, segment.lost) = (true, false);
        }
        let mut told = 0;
        let bytes = self.board.sack(left, right, |record, _| told += record.sequence_len());
        assert_eq!(bytes, self.bytes(|segment| segment.sacked) - before);
        assert_eq!(bytes, told);
    }

    fn acknowledge(&mut self, una: u64) {
        self.una = una;
        self.acknowledge_by_runs(una);
        self.model.retain(|segment| segment.end() > una);
        for segment in &mut self.model {
            let cut = una.saturating_sub(segment.start);
            segment.start += cut;
            segment.len -= cut;
        }
    }

    /// Segments that are not reported must be like the ones before and after them, and everything else the same as if each
    /// was reported.
    fn acknowledge_by_runs(&mut self, una: u64) {
        let mut twin = self.board.clone();
        let apart: Vec<u64> = self.model.iter().step_by(3).map(|segment| segment.start).collect();
        let (mut each, mut told) = (Vec::new(), Vec::new());
        let bytes = twin.acknowledge(una, Told::All, |record, burst| each.push((*record, burst.sent_at)));
        assert_eq!(self.board.acknowledge(una, Told::Ends { and: &apart }, |record, _| told.push(*record)), bytes);
        let mut told = told.iter().peekable();
        let mut run = None;
        for (record, sent_at) in each {
            if told.next_if(|next| next.start == record.start).is_some() {
                run = Some((record, sent_at));
                continue;
            }
            assert!(!apart.contains(&record.start));
            let (Some((first, first_at)), Some(last)) = (run, told.peek()) else {
                unreachable!("the segment at {} is neither told nor within a run", record.start);
            };
            assert_eq!((first.flags, record.flags, last.flags), (LINKED, LINKED, LINKED));
            assert_eq!((sent_at, first.burst, last.burst), (first_at, record.burst, record.burst));
            assert!(first.tx <= record.tx && record.tx <= last.tx);
        }
        assert!(told.next().is_none());
        assert_eq!(ends(&self.board, 0), ends(&twin, 0));
    }

    fn retransmit(&mut self) {
        let first = self.model.iter().position(|segment| segment.lost);
        let index = first.map(|place| place as u64 + self.board.head);
        assert_eq!(self.board.next_lost(), index);
        if let Some((place, index)) = first.zip(index) {
            self.board.begin_burst(Burst::new(self.now));
            self.board.retransmit(index);
            self.model[place].lost = false;
        }
    }

    pub(crate) fn agree(&self) {
        let (board, model) = (&self.board, &self.model);
        assert_eq!(board.in_flight, self.bytes(Segment::is_in_flight));
        assert_eq!(board.sacked_bytes, self.bytes(|segment| segment.sacked && !segment.passed));
        assert_eq!(board.passed_bytes, self.bytes(|segment| segment.passed));
        assert_eq!(board.lost_bytes, self.bytes(|segment| segment.lost));
        let index = |place: usize| board.head + place as u64;
        let unsacked = model.iter().rposition(|segment| !segment.sacked);
        assert_eq!(board.last_unsacked_below(u64::MAX), unsacked.map(index));
        let top = model.iter().rposition(|segment| segment.sacked);
        assert_eq!(board.last_sacked_below(u64::MAX), top.map(index));
        let top = model.iter().rposition(|segment| segment.sacked && !segment.passed);
        for offset in [0, self.una, self.una + (self.nxt - self.una) / 2, self.nxt] {
            let mut below = model.iter().take(top.unwrap_or(0));
            let doubtful = below.position(|segment| segment.is_in_flight() && segment.start >= offset);
            assert_eq!(board.next_in_doubt(offset), doubtful.map(index));
        }
        let next = |at: &u64| Some(board.record(*at).next).filter(|next| *next != NIL).map(|next| board.widen(next));
        let linked: Vec<_> = std::iter::successors(board.oldest_sent(), next).collect();
        assert_eq!(linked.len(), model.iter().filter(|segment| segment.is_in_flight()).count());
        assert!(linked.is_sorted_by_key(|index| (board.record(*index).tx, *index)), "order of transmission");
        assert_eq!(linked.last().copied(), (board.newest != NIL).then(|| board.widen(board.newest)));
        let live: u32 = board.bursts.iter().map(|burst| burst.live).sum();
        assert_eq!(live as usize, model.len());
    }
}

/// Returns what the newest `count` records, and the ends of the lists, are like.
fn ends(board: &Scoreboard, count: u32) -> String {
    // The record before them has a link to them.
    let from = board.tail.saturating_sub(u64::from(count) + 1).max(board.head);
    let records: Vec<_> = (from..board.tail).map(|index| board.record(index)).collect();
    let Scoreboard { head, tail, oldest, newest, bursts, next_tx, in_flight, .. } = board;
    format!("{head} {tail} {oldest} {newest} {bursts:?} {next_tx} {in_flight} {records:?}")
}

/// Plays a script of bytes to both and compares them after each step.
///
/// # Panics
/// Panics if the two disagree.
pub(crate) fn play(script: &[u8]) {
    let mut twins = Twins::new();
    // The number of steps is limited, because both are compared entirely after each step.
    for step in script.chunks_exact(4).take(500) {
        let &[kind, a, b, c] = step else { continue };
        let word = u16::from_be_bytes([a, b]);
        twins.apply(match kind & 15 {
            0..=3 => Op::Push(1 + word % 2000),
            4 => Op::PushRun(1 + word % 2000, (c % 24).into()),
            5 => Op::Pass(1 + word % 9000),
            6..=8 => Op::Sack(u64::from(word), u64::from(c) * 128),
            9 | 10 => Op::Ack(u64::from(word) >> 3),
            11 | 12 => Op::Lose(u64::from(c)),
            13 => Op::Retransmit,
            14 if c == 0 => Op::Renege,
            14 => Op::Forgive,
            _ if c < 128 => Op::ResegmentTo(c.into(), 1 + word % 1500),
            _ => Op::Resegment(1 + word % 1500),
        });
        twins.agree();
    }
}

//! Segments in flight that are longer than the current segment size are split where they are.

use super::list::link;
use super::{FIN, LINKED, NIL, PROBE};
use crate::{Record, Scoreboard};

#[expect(clippy::multiple_inherent_impl, reason = "one file per operation")]
impl Scoreboard {
    /// Splits every segment longer than `mss`, after a decrease of the path MTU. Returns the number of records written.
    pub(crate) fn resegment(&mut self, mss: u16) -> usize {
        let last = (self.head..self.tail).rev().find(|index| self.record(*index).len > mss);
        last.map_or(0, |last| self.resegment_to(last, mss))
    }

    /// Splits the segments up to the one at `last` that are longer than `mss`. Returns the number of records written.
    ///
    /// Records up to `last` move towards the head and those above keep their places. A lost path MTU probe is split at
    /// little cost, because when its loss is detected, few segments before it are outstanding.
    pub(crate) fn resegment_to(&mut self, last: u64, mss: u16) -> usize {
        let mss = mss.max(1);
        let pieces = |record: &Record| u64::from(record.len.div_ceil(mss)).max(1);
        let extra: u64 = (self.head..=last).map(|index| pieces(self.record(index)) - 1).sum();
        if extra == 0 {
            return 0;
        }
        while self.ring.len() - self.len() < extra as usize {
            self.grow();
        }
        let (first, top) = (self.head, self.sacked_top.max(self.head));
        self.head -= extra;
        self.lost_hint = self.head;
        let mut to = self.head;
        for from in first..=last {
            if from == top {
                self.sacked_top = to;
            }
            let record = *self.record(from);
            self.sacked.clear(from);
            self.lost.clear(from);
            let end = to + pieces(&record);
            self.place(&record, to..end, mss);
            to = end;
        }
        (to - self.head) as usize
    }

    /// Writes the pieces of a record to these indices, in its position in the list. A piece keeps the flags, except
    /// that only the last one carries the FIN and none is an MTU probe.
    fn place(&mut self, record: &Record, to: std::ops::Range<u64>, mss: u16) {
        let last = to.end - 1;
        let clears = if to.start < last { PROBE } else { 0 };
        let mut rest = Record { flags: record.flags & !clears, ..*record };
        for index in to.clone() {
            let mut piece = rest;
            if index < last {
                (piece.len, piece.flags) = (mss, rest.flags & !FIN);
                (rest.start, rest.len) = (rest.start + u64::from(mss), rest.len - mss);
                piece.next = link(index + 1);
                rest.prev = link(index);
            }
            *self.record_mut(index) = piece;
            if record.is_sacked() {
                self.sacked.set(index);
            } else if record.is_lost() {
                self.lost.set(index);
            }
        }
        let at = record.burst.wrapping_sub(self.first_burst) as usize;
        if let Some(burst) = self.bursts.get_mut(at) {
            burst.live += (last - to.start) as u32;
        }
        if record.flags & LINKED == 0 {
            return;
        }
        match record.prev {
            NIL => self.oldest = link(to.start),
            prev => {
                let prev = self.widen(prev);
                self.record_mut(prev).next = link(to.start);
            }
        }
        match record.next {
            NIL => self.newest = link(last),
            next => {
                let next = self.widen(next);
                self.record_mut(next).prev = link(last);
            }
        }
    }
}

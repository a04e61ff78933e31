//! Runs of segments that were sent once, consecutively and in one burst: an ordinary ACK delivers many of them, and
//! they can be handled together.

use longhaul_cc::TxId;

use super::list::link;
use super::{FIN, LINKED, NIL};
use crate::{Record, Scoreboard};

/// Delivered segments that are reported to the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told<'a> {
    All,
    /// The first and the last of each run, and the segments that start at the offsets `and`.
    Ends {
        and: &'a [u64],
    },
}

/// At least two segments at the head of the scoreboard.
pub(super) struct Run {
    pub(super) last: u64,
    pub(super) bytes: u64,
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per operation")]
impl Scoreboard {
    /// Appends `count` segments of new data with `len` bytes each, which were sent in the current burst. Returns the first
    /// transmission.
    pub(crate) fn append(&mut self, start: u64, len: u16, flags: u16, count: u32) -> TxId {
        let (before, first, tx) = (self.newest, self.tail, self.next_tx + 1);
        if count == 0 {
            return TxId(tx);
        }
        while self.ring.len() - self.len() < count as usize {
            self.grow();
        }
        let size = u64::from(len) + u64::from(flags & FIN);
        let burst = self.join_burst(size * u64::from(count), count);
        for number in 0..u64::from(count) {
            let index = first + number;
            let (prev, next) = (link(index.wrapping_sub(1)), link(index + 1));
            let (start, tx) = (start + number * size, TxId(tx + number));
            *self.record_mut(index) = Record { start, tx, burst, prev, next, len, flags: flags | LINKED };
        }
        let last = first + u64::from(count) - 1;
        self.record_mut(first).prev = before;
        self.record_mut(last).next = NIL;
        (self.tail, self.newest, self.next_tx) = (last + 1, link(last), self.next_tx + u64::from(count));
        match before {
            NIL => self.oldest = link(first),
            _ => {
                let before = self.widen(before);
                self.record_mut(before).next = link(first);
            }
        }
        TxId(tx)
    }

    /// Returns the run that begins with `first`, the record at the head, and ends at `una` or before. No segment within it
    /// starts at one of the offsets `apart`.
    pub(super) fn run_at_head(&self, first: &Record, una: u64, apart: &[u64]) -> Option<Run> {
        if first.flags != LINKED || first.prev != NIL {
            return None;
        }
        let stop = apart.iter().copied().filter(|start| *start > first.start).min().unwrap_or(u64::MAX);
        let mut run = Run { last: self.head, bytes: first.sequence_len() };
        let mut next = first.next;
        while next == link(run.last + 1) {
            let record = self.record(run.last + 1);
            if record.flags != LINKED || record.burst != first.burst || record.end() > una || record.start >= stop {
                break;
            }
            run.last += 1;
            run.bytes += record.sequence_len();
            next = record.next;
        }
        (run.last > self.head).then_some(run)
    }

    pub(super) fn remove_run(&mut self, run: &Run, burst: u32) {
        let count = run.last + 1 - self.head;
        self.in_flight -= run.bytes;
        self.oldest = self.record(run.last).next;
        if self.oldest == NIL {
            self.newest = NIL;
        } else {
            let oldest = self.widen(self.oldest);
            self.record_mut(oldest).prev = NIL;
        }
        self.leave_burst(burst, count as u32);
        self.head += count;
    }
}

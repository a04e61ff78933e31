//! Runs of segments that were sent once, one after the other and in one burst: an ordinary ACK delivers many of them, and they
//! can be handled together.

use super::list::link;
use super::{LINKED, NIL, Record, Scoreboard};

/// Of which segments that an ACK delivers the caller is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told<'a> {
    /// Of each.
    All,
    /// Of the first and the last of each run, and of the segments that start at the offsets `and`.
    Ends { and: &'a [u64] },
}

/// At least two segments from the head of the scoreboard on.
pub(super) struct Run {
    /// Index of the last one.
    pub(super) last: u64,
    pub(super) bytes: u64,
}

impl Scoreboard {
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

    /// Removes a run, which was sent in `burst`, from the head.
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

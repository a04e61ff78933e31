//! Linked list of the segments in flight in order of transmission, embedded in the records.

use super::{LINKED, NIL, Scoreboard};

/// Links are indices modulo this, which suffices for 2 billion records. None of them equals [`NIL`].
const TURN: u64 = 1 << 31;

/// Returns the link to a record.
pub(super) const fn link(index: u64) -> u32 {
    (index % TURN) as u32
}

impl Scoreboard {
    /// Converts a link to an index.
    pub(super) fn widen(&self, link: u32) -> u64 {
        self.head + u64::from(link).wrapping_sub(self.head) % TURN
    }

    pub(super) fn link_newest(&mut self, index: u64) {
        let link = link(index);
        let before = self.newest;
        let record = self.record_mut(index);
        record.flags |= LINKED;
        (record.prev, record.next) = (before, NIL);
        self.newest = link;
        if before == NIL {
            self.oldest = link;
        } else {
            let before = self.widen(before);
            self.record_mut(before).next = link;
        }
    }

    pub(super) fn link_oldest(&mut self, index: u64) {
        let link = link(index);
        let after = self.oldest;
        let record = self.record_mut(index);
        record.flags |= LINKED;
        (record.prev, record.next) = (NIL, after);
        self.oldest = link;
        if after == NIL {
            self.newest = link;
        } else {
            let after = self.widen(after);
            self.record_mut(after).prev = link;
        }
    }

    pub(super) fn unlink(&mut self, index: u64) {
        let (prev, next) = (self.record(index).prev, self.record(index).next);
        self.record_mut(index).flags &= !LINKED;
        if prev == NIL {
            self.oldest = next;
        } else {
            let prev = self.widen(prev);
            self.record_mut(prev).next = next;
        }
        if next == NIL {
            self.newest = prev;
        } else {
            let next = self.widen(next);
            self.record_mut(next).prev = prev;
        }
    }
}

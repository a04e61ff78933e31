//! Linked list of the segments in flight in order of transmission, embedded in the records.

use super::{LINKED, NIL};
use crate::Scoreboard;

/// Links are indices modulo this value, which suffices for 2 billion records. None of them equals [`NIL`].
const TURN: u64 = 1 << 31;

pub(super) const fn link(index: u64) -> u32 {
    (index % TURN) as u32
}

impl Scoreboard {
    pub(super) fn widen(&self, link: u32) -> u64 {
        self.head + u64::from(link).wrapping_sub(self.head) % TURN
    }

    /// Inserts records where they belong in order of transmission.
    pub(super) fn link_in_order(&mut self, mut indices: Vec<u64>) {
        // The pieces of a split segment belong to the same transmission and are in sequence order.
        let order = |board: &Self, index: u64| (board.record(index).tx, index);
        indices.sort_unstable_by_key(|index| order(self, *index));
        let mut after = self.oldest;
        for index in indices {
            while after != NIL && order(self, self.widen(after)) < order(self, index) {
                after = self.record(self.widen(after)).next;
            }
            self.link_before(index, after);
        }
    }

    /// Inserts a record before the one with the link `after`, or at the end if that is [`NIL`].
    pub(super) fn link_before(&mut self, index: u64, after: u32) {
        let link = link(index);
        let before = if after == NIL {
            std::mem::replace(&mut self.newest, link)
        } else {
            let after = self.widen(after);
            std::mem::replace(&mut self.record_mut(after).prev, link)
        };
        let record = self.record_mut(index);
        record.flags |= LINKED;
        (record.prev, record.next) = (before, after);
        if before == NIL {
            self.oldest = link;
        } else {
            let before = self.widen(before);
            self.record_mut(before).next = link;
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

//! Ring of transmissions that are not yet acknowledged or lost.

use std::collections::VecDeque;

use longhaul_units::{Bytes, Time};

use crate::sampler::Snapshot;

/// A packet, or a batch of packets sent together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) tx: u64,
    /// The stack's packet number, which is not unique: each packet number space begins at zero.
    pub(crate) number: Option<u64>,
    /// The stack's time of sending.
    pub(crate) stamp: Time,
    pub(crate) sent_at: Time,
    pub(crate) bytes: u64,
    /// Bytes that are not yet acknowledged or lost.
    pub(crate) left: u64,
    pub(crate) tag: u16,
    pub(crate) snapshot: Snapshot,
}

/// Bytes that a callback removed from the ring, and their entry as of its send time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) bytes: u64,
    pub(crate) entry: Entry,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    /// Position at which the search for the next lost packet begins, because lost packets are reported in order.
    cursor: usize,
}

impl Ring {
    /// Adds an entry, and drops the oldest one if there are more than `most`: some stacks report a receiver's own ACKs
    /// as sent, but never as acknowledged.
    pub(crate) fn push(&mut self, entry: Entry, most: usize) {
        self.entries.push_back(entry);
        if self.entries.len() > most.max(1) {
            self.entries.pop_front();
            self.cursor = self.cursor.saturating_sub(1);
        }
    }

    /// Removes `bytes` of the data sent at `stamp`, from the packet with this number if the stack reports packet
    /// numbers.
    pub(crate) fn acked(&mut self, stamp: Time, number: Option<u64>, bytes: u64) -> Option<Taken> {
        let first = self.entries.partition_point(|entry| entry.stamp < stamp);
        let same = self.entries.range_mut(first..).take_while(|entry| entry.stamp == stamp);
        let entry = same.into_iter().find(|entry| entry.left > 0 && entry.number == number)?;
        let taken = take(entry, bytes);
        self.trim();
        Some(taken)
    }

    /// Removes the lost packet with this number and size, or the oldest if there are several.
    pub(crate) fn lost(&mut self, number: u64, bytes: u64) -> Option<Taken> {
        let is_it = |entry: &Entry| entry.left > 0 && entry.left == bytes && entry.number == Some(number);
        let from = self.cursor.min(self.entries.len());
        let later = self.entries.range(from..).position(is_it).map(|at| from + at);
        let at = later.or_else(|| self.entries.range(..from).position(is_it))?;
        self.cursor = at;
        Some(take(self.entries.get_mut(at)?, bytes))
    }

    /// Removes up to `bytes` of the oldest data sent no later than `stamp`, one entry at a time.
    pub(crate) fn oldest(&mut self, stamp: Time, bytes: u64) -> Option<Taken> {
        let entry = self.entries.iter_mut().find(|entry| entry.left > 0)?;
        let taken = (entry.stamp <= stamp).then(|| take(entry, bytes));
        self.trim();
        taken
    }

    /// Ends the search for lost packets.
    pub(crate) fn trim(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.left == 0) {
            self.entries.pop_front();
        }
        self.cursor = 0;
    }

    /// Removes transmissions before number `tx` that were sent before `horizon`. The stack would have reported them if
    /// it had not discarded them silently (a lost MTU probe, a packet number space whose keys were discarded).
    pub(crate) fn forget(&mut self, tx: u64, horizon: Time) {
        while self.entries.front().is_some_and(|entry| entry.left == 0 || entry.tx < tx && entry.sent_at < horizon) {
            self.entries.pop_front();
        }
        self.cursor = 0;
    }

    pub(crate) fn newest_mut(&mut self) -> Option<&mut Entry> {
        self.entries.back_mut()
    }
}

fn take(entry: &mut Entry, bytes: u64) -> Taken {
    let bytes = bytes.min(entry.left);
    entry.left -= bytes;
    Taken { bytes, entry: *entry }
}

impl Taken {
    pub(crate) const fn bytes(&self) -> Bytes {
        Bytes(self.bytes)
    }
}

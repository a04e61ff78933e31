//! Sender's scoreboard: segments sent and not cumulatively acknowledged.
//!
//! Records are kept in a ring in sequence order. A doubly linked list through the records keeps the order of
//! transmission for RACK (RFC 8985). Two bit sets with summaries mark the SACKed segments and the segments that
//! wait for retransmission. Values that a batch of segments shares (send time, delivery-rate snapshot) are stored
//! once, in a [`Burst`]. Every operation takes amortised constant time per segment, except for the binary search
//! for the edge of a SACK block.

use std::collections::VecDeque;

use longhaul_cc::{SegmentKind, TxId};
use longhaul_units::Time;

use crate::connection::Reclaim;

mod ahead;
mod bits;
mod list;
#[cfg(any(test, feature = "_internals"))]
#[path = "scoreboard/tests/model.rs"]
pub(crate) mod model;
mod resegment;
mod runs;
#[cfg(test)]
mod tests;

use bits::BitRing;
pub(crate) use runs::Told;

const NIL: u32 = u32::MAX;
const MIN_CAPACITY: usize = 16;
/// Index of the first record. Split segments extend the scoreboard below its head, and no connection splits this many.
const FIRST: u64 = 1 << 48;

/// Record of one segment. It has 32 bytes, because 10 Gb/s with a round-trip time of 600 ms need 520,000 records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Stream offset of the first byte.
    pub(crate) start: u64,
    pub(crate) tx: TxId,
    /// Burst of the newest transmission.
    burst: u32,
    prev: u32,
    next: u32,
    /// Payload bytes.
    pub(crate) len: u16,
    flags: u16,
}

const FIN: u16 = 1;
const SACKED: u16 = 2;
const LOST: u16 = 4;
const RETRANSMITTED: u16 = 8;
const PROBE: u16 = 16;
const LINKED: u16 = 32;
const FLIPPED: u16 = 64;
const COPIED: u16 = 128;
const PASSED: u16 = 256;
const EARLY: u16 = 512;

#[expect(clippy::multiple_inherent_impl, reason = "what other modules may ask of it")]
impl Record {
    /// Returns the offset after the segment, including its FIN.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.sequence_len()
    }

    /// Returns the length of the segment in sequence space, including its FIN.
    pub(crate) fn sequence_len(&self) -> u64 {
        u64::from(self.len) + u64::from(self.flags & FIN)
    }

    pub(crate) fn is_fin(&self) -> bool {
        self.flags & FIN != 0
    }

    pub(crate) fn is_sacked(&self) -> bool {
        self.flags & SACKED != 0
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.flags & LOST != 0
    }

    pub(crate) fn is_retransmitted(&self) -> bool {
        self.flags & RETRANSMITTED != 0
    }

    /// Returns whether the segment is a path MTU probe, whose loss does not indicate congestion (RFC 8899, section 3).
    pub(crate) fn is_mtu_probe(&self) -> bool {
        self.flags & PROBE != 0
    }

    /// Returns whether the sender swapped the segment with its successor; its late arrival is then not reordering.
    pub(crate) fn is_flipped(&self) -> bool {
        self.flags & FLIPPED != 0
    }

    /// Returns whether a probe carried a copy of the segment; the delivered copy may be the probe.
    pub(crate) fn is_copied(&self) -> bool {
        self.flags & COPIED != 0
    }

    /// Returns the kind of the newest transmission.
    pub(crate) fn kind(&self) -> SegmentKind {
        if self.is_retransmitted() { SegmentKind::Retransmit } else { SegmentKind::Data }
    }

    fn counts_in_flight(&self) -> bool {
        self.flags & (SACKED | LOST) == 0
    }
}

/// Send-time snapshot for delivery-rate sampling, shared by segments sent together
/// (draft-cheng-iccrg-delivery-rate-estimation, section 3.1.2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    pub(crate) sent_at: Time,
    /// Bytes delivered when the burst was sent.
    pub(crate) delivered: u64,
    /// Time of the newest delivery at the time of the snapshot.
    pub(crate) delivered_at: Time,
    /// Send time of the first segment of that sampling interval.
    pub(crate) first_sent_at: Time,
    /// Bytes in flight, including the burst.
    pub(crate) in_flight: u64,
    pub(crate) lost: u64,
    pub(crate) app_limited: bool,
    pub(crate) tag: u16,
    live: u32,
}

impl Burst {
    pub(crate) fn new(sent_at: Time) -> Self {
        Self { sent_at, delivered_at: sent_at, first_sent_at: sent_at, ..Self::default() }
    }
}

/// Scoreboard of segments sent and not cumulatively acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    ring: Vec<Record>,
    sacked: BitRing,
    lost: BitRing,
    /// Index of the oldest record, and one past the newest.
    pub(crate) head: u64,
    tail: u64,
    /// Ends of the list in order of transmission.
    oldest: u32,
    newest: u32,
    bursts: VecDeque<Burst>,
    first_burst: u32,
    next_tx: u64,
    pub(crate) in_flight: u64,
    pub(crate) sacked_bytes: u64,
    pub(crate) passed_bytes: u64,
    pub(crate) lost_bytes: u64,
    /// No segment below this index waits for retransmission.
    lost_hint: u64,
    /// One past the highest record ever SACKed.
    pub(crate) sacked_top: u64,
    /// Latest time at which a transmission can have been sent to be answered by now.
    pub(crate) horizon: Time,
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per operation")]
impl Scoreboard {
    /// State before the first transmission.
    pub(crate) const UNUSED: (u64, u64) = (0, FIRST);

    #[cfg(any(test, feature = "_internals"))]
    pub(crate) fn new() -> Self {
        Self::from_kept(&Self::UNUSED)
    }

    /// Returns whether the scoreboard is empty, and stores the values to keep in that case.
    pub(crate) fn rest(&mut self, kept: &mut (u64, u64)) -> bool {
        *kept = (self.next_tx, self.head);
        self.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    pub(crate) fn len(&self) -> usize {
        (self.tail - self.head) as usize
    }

    pub(crate) fn memory(&self) -> usize {
        self.ring.capacity() * size_of::<Record>()
            + self.bursts.capacity() * size_of::<Burst>()
            + self.sacked.memory()
            + self.lost.memory()
    }

    fn slot(&self, index: u64) -> usize {
        index as usize & (self.ring.len() - 1)
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Record> {
        (self.head..self.tail).contains(&index).then(|| &self.ring[self.slot(index)])
    }

    fn record(&self, index: u64) -> &Record {
        &self.ring[self.slot(index)]
    }

    fn record_mut(&mut self, index: u64) -> &mut Record {
        let slot = self.slot(index);
        &mut self.ring[slot]
    }

    pub(crate) fn front(&self) -> Option<(u64, &Record)> {
        self.get(self.head).map(|r| (self.head, r))
    }

    pub(crate) fn last_unsacked_below(&self, index: u64) -> Option<u64> {
        self.sacked.last::<false>(self.head, index.min(self.tail))
    }

    pub(crate) fn last_sacked_below(&self, index: u64) -> Option<u64> {
        self.sacked.last::<true>(self.head, index.min(self.tail))
    }

    /// Returns the lowest record in flight that starts at or after `offset` and has a SACKed record above it. Lost
    /// records are skipped one at a time, because callers ask only when no segment waits for retransmission.
    pub(crate) fn next_in_doubt(&self, offset: u64) -> Option<u64> {
        let mut at = self.index_at_or_after(offset);
        while let Some(index) = self.sacked.next::<false>(at, self.sacked_top) {
            if !self.record(index).is_lost() {
                return Some(index);
            }
            at = index + 1;
        }
        None
    }

    pub(crate) fn burst_of(&self, record: &Record) -> &Burst {
        &self.bursts[record.burst.wrapping_sub(self.first_burst) as usize]
    }

    /// Starts a burst: all segments sent until the next call share it.
    pub(crate) fn begin_burst(&mut self, burst: Burst) {
        self.trim_bursts();
        if self.bursts.back().is_some_and(|b| b.live == 0) {
            self.bursts.pop_back();
        }
        self.bursts.push_back(burst);
    }

    fn trim_bursts(&mut self) {
        while self.bursts.front().is_some_and(|b| b.live == 0) {
            self.bursts.pop_front();
            self.first_burst = self.first_burst.wrapping_add(1);
        }
    }

    pub(crate) fn last_tx(&self) -> TxId {
        TxId(self.next_tx)
    }

    fn take_tx(&mut self) -> TxId {
        self.next_tx += 1;
        TxId(self.next_tx)
    }

    /// Adds `count` segments with `bytes` bytes in total to the current burst, and returns its number.
    fn join_burst(&mut self, bytes: u64, count: u32) -> u32 {
        self.in_flight += bytes;
        let in_flight = self.in_flight;
        if let Some(burst) = self.bursts.back_mut() {
            burst.live += count;
            burst.in_flight = in_flight;
        }
        self.first_burst.wrapping_add(self.bursts.len() as u32).wrapping_sub(1)
    }

    fn leave_burst(&mut self, burst: u32, count: u32) {
        let at = burst.wrapping_sub(self.first_burst) as usize;
        if let Some(burst) = self.bursts.get_mut(at) {
            burst.live = burst.live.saturating_sub(count);
        }
    }

    /// Appends a segment of new data that was sent in the current burst.
    pub(crate) fn push(&mut self, start: u64, len: u16, fin: bool, mtu_probe: bool) -> TxId {
        let flags = if fin { FIN } else { 0 } | if mtu_probe { PROBE } else { 0 };
        self.append(start, len, flags, 1)
    }

    /// Appends a flipped pair: two segments of new data in the current burst, of which the second was sent first
    /// and the first follows immediately. Their transmission numbers and list positions are in the order of
    /// sending, as RACK requires. Returns the transmissions of the second and of the first segment.
    pub(crate) fn push_flipped(&mut self, start: u64, len: u16, next_len: u16) -> (TxId, TxId) {
        let earlier = self.push(start, len, false, false);
        let later = self.push(start + u64::from(len), next_len, false, false);
        let (first, second) = (self.tail - 2, self.tail - 1);
        self.unlink(first);
        self.link_before(first, NIL);
        let record = self.record_mut(first);
        record.tx = later;
        record.flags |= FLIPPED;
        self.record_mut(second).tx = earlier;
        (earlier, later)
    }

    /// Records that a probe carries a copy of the segment.
    pub(crate) fn note_copy(&mut self, index: u64) {
        if self.get(index).is_some() {
            self.record_mut(index).flags |= COPIED;
        }
    }

    /// Records that a lost segment (or, for a probe, any segment that is not SACKed) was retransmitted in the current
    /// burst.
    pub(crate) fn retransmit(&mut self, index: u64) -> TxId {
        let record = *self.record(index);
        debug_assert!(!record.is_sacked(), "the list has only segments in flight");
        self.take_out(index, &record);
        self.leave_burst(record.burst, 1);
        let tx = self.take_tx();
        let burst = self.join_burst(record.sequence_len(), 1);
        let record = self.record_mut(index);
        record.flags = (record.flags & !(LOST | PROBE)) | RETRANSMITTED;
        record.tx = tx;
        record.burst = burst;
        self.link_before(index, NIL);
        tx
    }

    /// Removes all segments below `una` and calls `delivered` for those that were not SACKed before. Returns the newly
    /// delivered bytes. A partly acknowledged segment is shortened.
    pub(crate) fn acknowledge(&mut self, una: u64, told: Told<'_>, mut delivered: impl FnMut(&Record, &Burst)) -> u64 {
        let mut bytes = 0;
        while self.head < self.tail {
            let index = self.head;
            let record = *self.record(index);
            if record.end() > una {
                bytes += self.shorten(index, una);
                break;
            }
            if let Told::Ends { and } = told
                && let Some(run) = self.run_at_head(&record, una, and)
            {
                bytes += run.bytes;
                let burst = self.burst_of(&record);
                delivered(&record, burst);
                delivered(self.record(run.last), burst);
                self.remove_run(&run, record.burst);
                continue;
            }
            if record.is_sacked() {
                self.sacked.clear(index);
                *self.count_of(&record) -= record.sequence_len();
            } else {
                bytes += record.sequence_len();
                self.take_out(index, &record);
                delivered(&record, self.burst_of(&record));
            }
            self.leave_burst(record.burst, 1);
            self.head += 1;
        }
        self.lost_hint = self.lost_hint.max(self.head);
        self.sacked_top = self.sacked_top.max(self.head);
        self.trim_bursts();
        bytes
    }

    /// Removes a segment from the bytes in flight, from the list and from the lost segments.
    fn take_out(&mut self, index: u64, record: &Record) {
        if record.counts_in_flight() {
            self.in_flight -= record.sequence_len();
        }
        if record.flags & LINKED != 0 {
            self.unlink(index);
        }
        if record.is_lost() {
            self.lost.clear(index);
            self.lost_bytes -= record.sequence_len();
        }
    }

    fn shorten(&mut self, index: u64, una: u64) -> u64 {
        let record = *self.record(index);
        let cut = una.saturating_sub(record.start).min(u64::from(record.len));
        if cut == 0 {
            return 0;
        }
        if record.is_sacked() {
            *self.count_of(&record) -= cut;
        } else if record.is_lost() {
            self.lost_bytes -= cut;
        } else {
            self.in_flight -= cut;
        }
        let short = self.record_mut(index);
        short.start += cut;
        short.len -= cut as u16;
        if record.is_sacked() { 0 } else { cut }
    }

    /// Marks the segments entirely within `left..right` as SACKed and calls `delivered` for each newly SACKed one.
    /// Returns the newly SACKed bytes.
    pub(crate) fn sack(&mut self, left: u64, right: u64, mut delivered: impl FnMut(&Record, &Burst)) -> u64 {
        let from = self.index_at_or_after(left);
        // One past the last record that ends at or below `right`.
        let mut to = self.index_at_or_after(right);
        if to > from && self.record(to - 1).end() > right {
            to -= 1;
        }
        let mut bytes = 0;
        let mut at = from;
        while let Some(index) = if at < to { self.sacked.next::<false>(at, to) } else { None } {
            let record = *self.record(index);
            self.take_out(index, &record);
            delivered(&record, self.burst_of(&record));
            let clears = if self.is_answered(&record) { LOST | EARLY } else { LOST };
            let sacked = self.record_mut(index);
            sacked.flags = (sacked.flags & !clears) | SACKED;
            self.sacked.set(index);
            self.sacked_bytes += record.sequence_len();
            bytes += record.sequence_len();
            at = index + 1;
        }
        if bytes > 0 {
            self.sacked_top = self.sacked_top.max(to);
        }
        bytes
    }

    pub(crate) fn index_at_or_after(&self, offset: u64) -> u64 {
        let (mut low, mut high) = (self.head, self.tail);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.record(middle).start < offset { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Marks a segment lost: it is no longer in flight and waits for retransmission. Returns whether it was in
    /// flight.
    pub(crate) fn mark_lost(&mut self, index: u64) -> bool {
        let record = *self.record(index);
        if !record.counts_in_flight() {
            return false;
        }
        self.take_out(index, &record);
        self.record_mut(index).flags |= LOST;
        self.lost.set(index);
        self.lost_bytes += record.sequence_len();
        self.lost_hint = self.lost_hint.min(index);
        true
    }

    /// Clears the lost mark of all segments that have not been retransmitted (the congestion response was spurious).
    pub(crate) fn forgive(&mut self) {
        let lost = self.lost.ones(self.head, self.tail);
        self.lost.bits.fill(0);
        (self.lost_bytes, self.lost_hint) = (0, self.tail);
        self.return_to_flight(lost);
    }

    pub(crate) fn next_lost(&mut self) -> Option<u64> {
        if self.lost_bytes == 0 {
            return None;
        }
        let from = self.lost_hint.max(self.head);
        let found = self.lost.next::<true>(from, self.tail);
        self.lost_hint = found.unwrap_or(self.tail);
        found
    }

    /// Discards all SACK information because the receiver reneged (RFC 2018, section 8).
    pub(crate) fn renege(&mut self) {
        let sacked = self.sacked.ones(self.head, self.tail);
        self.sacked.bits.fill(0);
        (self.sacked_bytes, self.passed_bytes, self.sacked_top) = (0, 0, self.head);
        self.return_to_flight(sacked);
    }

    fn return_to_flight(&mut self, indices: Vec<u64>) {
        for index in &indices {
            self.record_mut(*index).flags &= !(LOST | SACKED | PASSED);
            self.in_flight += self.record(*index).sequence_len();
        }
        self.link_in_order(indices);
    }

    pub(crate) fn oldest_sent(&self) -> Option<u64> {
        (self.oldest != NIL).then(|| self.widen(self.oldest))
    }

    fn grow(&mut self) {
        let capacity = (self.ring.len() * 2).max(MIN_CAPACITY);
        let blank = Record { start: 0, tx: TxId(0), burst: 0, prev: NIL, next: NIL, len: 0, flags: 0 };
        let mut ring = vec![blank; capacity];
        let mut sacked = BitRing::with_capacity(capacity);
        let mut lost = BitRing::with_capacity(capacity);
        for index in self.head..self.tail {
            let record = *self.record(index);
            ring[index as usize & (capacity - 1)] = record;
            if record.is_sacked() {
                sacked.set(index);
            }
            if record.is_lost() {
                lost.set(index);
            }
        }
        (self.ring, self.sacked, self.lost) = (ring, sacked, lost);
    }
}

/// Keeps the ID of the next transmission, and the index of the next record.
impl Reclaim for Scoreboard {
    type Kept = (u64, u64);

    fn from_kept(&(next_tx, head): &Self::Kept) -> Self {
        let ends = Self { oldest: NIL, newest: NIL, ..Self::default() };
        Self { next_tx, head, tail: head, lost_hint: head, sacked_top: head, ..ends }
    }
}

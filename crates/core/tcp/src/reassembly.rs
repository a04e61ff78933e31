//! Receive buffer: in-order data that has not been read, and out-of-order data.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use arrayvec::ArrayVec;
use bytes::{Buf, Bytes, BytesMut};

use crate::connection::{Reclaim, Train};

mod chunks;
mod piece;

pub use chunks::Chunks;
use piece::StreamPart;

/// In-order data shorter than this is copied into blocks, so that a peer that sends single bytes does not pin a receive
/// buffer with each byte.
const GATHER_BELOW: usize = 512;
/// Size of a block of gathered pieces. The first block is smaller, and no block is kept once all data is read, because
/// most connections of a server are idle.
const GATHER_BLOCK: usize = 2 << 10;
/// Out-of-order data shorter than this is copied: it may be kept for a long time, and a slice pins the whole receive
/// buffer it belongs to. If every second segment is lost, slices would pin twice the window.
const COPY_BELOW: usize = 16 << 10;
/// Minimum memory charged for uncopied out-of-order data: a receive buffer holds one UDP datagram or one batch of
/// merged datagrams, at most 64 KiB.
const RECEIVE_BUFFER: usize = 64 << 10;
/// Overhead of a chunk: its entry in a B-tree whose nodes may be half empty, the reference count and the header of
/// the allocator.
const CHUNK_COST: usize = 128;
/// Overhead of a range: its entry in the B-tree of ranges.
const RANGE_COST: usize = 48;
/// Number of queue entries for in-order data that stay allocated when all data is read.
const READY_MIN: usize = 1 << 10;
/// Number of recently changed ranges to remember: at most four SACK blocks fit into the options (RFC 2018, section
/// 3).
const RECENT: usize = 4;

/// Limits for out-of-order data in [`Reassembly::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum number of out-of-order ranges, which is the number of holes.
    pub(crate) ranges: usize,
    /// Maximum of [`length`](Reassembly::length) in bytes.
    pub(crate) memory: usize,
}

/// Receive buffer that contains in-order data.
#[derive(Clone, Copy, Debug)]
struct Pin {
    /// Address of the buffer, which is unique while the data is kept.
    buffer: usize,
    end: u64,
    bytes: usize,
    cost: usize,
}

/// Result of [`Reassembly::insert`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inserted {
    /// Number of bytes of the segment that were not in the buffer before.
    pub(crate) new_bytes: usize,
    /// First contiguous part of the segment that had arrived before, to be reported as a D-SACK block (RFC 2883,
    /// section 4).
    pub(crate) duplicate: Option<Range<u64>>,
    pub(crate) advanced: bool,
    /// Whether RCV.NXT advanced while no out-of-order data was held: the only case in which the acknowledgment may
    /// be delayed (RFC 5681, section 4.2).
    pub(crate) in_order: bool,
    /// Whether the segment lay beyond a hole and its new bytes were dropped because of the limits.
    pub(crate) dropped_over_cap: bool,
}

/// Reassembly buffer for one direction of a connection.
///
/// Offsets are 64-bit stream offsets, as at the sender. The caller must keep segments within the advertised window.
/// If bytes arrive more than once, the first copy is kept. In-order data is never refused, whatever the memory
/// limit, so that a full buffer cannot cause a deadlock.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// RCV.NXT.
    pub(crate) next: u64,
    /// In-order data before `tail`.
    ready: VecDeque<StreamPart>,
    /// Short in-order data after `ready`.
    tail: BytesMut,
    pub(crate) unread: usize,
    /// The receive buffers with in-order data, and the sums of their data and costs.
    pins: VecDeque<Pin>,
    pinned: usize,
    pin_cost: usize,
    /// Disjoint pieces of out-of-order data, by offset.
    chunks: BTreeMap<u64, Bytes>,
    /// Ranges covered by `chunks`, from start to end: disjoint, not adjacent, all beyond `next`.
    ranges: BTreeMap<u64, u64>,
    pub(crate) out_of_order: usize,
    chunk_bytes: usize,
    /// One offset in each of the most recently changed ranges, newest first. Offsets below RCV.NXT are stale.
    recent: ArrayVec<u64, RECENT>,
}

/// Keeps RCV.NXT.
impl Reclaim for Reassembly {
    type Kept = u64;

    fn from_kept(next: &u64) -> Self {
        Self { next: *next, ..Self::default() }
    }
}

impl Reassembly {
    /// Frees memory that recent load did not need. Returns whether the buffer is empty, and stores the values to keep
    /// in that case.
    pub(crate) fn rest(&mut self, kept: &mut u64) -> bool {
        *kept = self.next;
        self.ready.shrink_to_fit();
        self.pins.shrink_to_fit();
        self.is_empty()
    }

    /// Returns the memory used by the buffer in bytes: data, free space in blocks, receive buffers that
    /// [`pin`](Self::pin) has counted, and bookkeeping. An uncopied slice out of order counts with at least 64 KiB, which is
    /// the most that it can pin.
    pub(crate) fn memory(&self) -> usize {
        let pins = self.pins.capacity().saturating_mul(size_of::<Pin>());
        self.length().saturating_sub(self.pinned).saturating_add(self.pin_cost).saturating_add(pins)
    }

    /// Like [`memory`](Self::memory), but counts the length of the data instead of the receive buffers that contain it.
    fn length(&self) -> usize {
        let parts = [
            self.unread.saturating_sub(self.tail.len()),
            self.tail.capacity(),
            self.ready.capacity().saturating_mul(size_of::<StreamPart>()),
            self.chunk_bytes,
            self.ranges.len().saturating_mul(RANGE_COST),
        ];
        parts.into_iter().fold(0, usize::saturating_add)
    }

    /// Counts `buffer`, which contains the last `bytes` in-order bytes, until they have been read. Data that has been
    /// copied does not keep the buffer.
    pub(crate) fn pin(&mut self, buffer: &Bytes, bytes: usize) {
        if bytes < GATHER_BELOW {
            return;
        }
        let (len, buffer) = (buffer.len(), buffer.as_ptr() as usize);
        self.pinned = self.pinned.saturating_add(bytes);
        if let Some(last) = self.pins.back_mut().filter(|last| last.buffer == buffer) {
            (last.end, last.bytes) = (self.next, last.bytes.saturating_add(bytes));
            return;
        }
        // A message longer than a quarter of a receive buffer is not copied out of it.
        let cost = if len > COPY_BELOW { len.max(RECEIVE_BUFFER) } else { len };
        self.pin_cost = self.pin_cost.saturating_add(cost);
        self.pins.push_back(Pin { buffer, end: self.next, bytes, cost });
    }

    /// Stops counting the receive buffers whose data has been read.
    fn unpin(&mut self) {
        let read = self.next.saturating_sub(self.unread as u64);
        while let Some(first) = self.pins.front().copied().filter(|first| first.end <= read) {
            self.pins.pop_front();
            self.pinned = self.pinned.saturating_sub(first.bytes);
            self.pin_cost = self.pin_cost.saturating_sub(first.cost);
        }
    }

    /// Inserts the bytes at `offset`. This takes constant time for in-order data without holes; otherwise it takes
    /// time logarithmic in the number of chunks plus constant time for each range that the segment joins.
    pub(crate) fn insert(&mut self, offset: u64, data: Bytes, limits: Limits) -> Inserted {
        if offset == self.next && self.ranges.is_empty() && !data.is_empty() {
            let new_bytes = data.len();
            self.push_ready(data);
            return Inserted { new_bytes, advanced: true, in_order: true, ..Inserted::default() };
        }
        self.insert_slowly(offset, data, limits)
    }

    /// Appends a train in order. Returns `false` without a change if there is out-of-order data, or if the payloads are short.
    pub(crate) fn append_train(&mut self, train: &Train<'_>) -> bool {
        let Train { buffer, part, count, payload, header } = *train;
        if !self.ranges.is_empty() || usize::from(payload) < GATHER_BELOW {
            return false;
        }
        let len = count.saturating_mul(payload.into());
        self.flush_tail();
        self.next = self.next.saturating_add(len as u64);
        self.unread = self.unread.saturating_add(len);
        self.ready.push_back(StreamPart::train(buffer.slice_ref(part), payload, header));
        self.pin(buffer, len);
        true
    }

    fn insert_slowly(&mut self, offset: u64, mut data: Bytes, limits: Limits) -> Inserted {
        let mut inserted = Inserted::default();
        let Some(end) = offset.checked_add(data.len() as u64) else {
            return Inserted { dropped_over_cap: true, ..inserted };
        };
        if data.is_empty() {
            return inserted;
        }
        inserted.duplicate = self.first_duplicate(offset..end);
        if end <= self.next {
            return inserted;
        }
        if offset > self.next {
            self.insert_out_of_order(offset, &data, limits, &mut inserted);
            return inserted;
        }
        inserted.advanced = true;
        inserted.in_order = self.ranges.is_empty();
        data.advance(self.next.saturating_sub(offset) as usize);
        inserted.new_bytes = self.insert_in_order(end, data);
        inserted
    }

    /// Appends `data`, which spans from RCV.NXT to `end`, and the ranges that it reaches; returns the number of new
    /// bytes.
    fn insert_in_order(&mut self, end: u64, mut data: Bytes) -> usize {
        let mut new_bytes = 0;
        while self.next < end {
            let hole_end = self.ranges.first_key_value().map_or(end, |(&start, _)| start.min(end));
            let filling = data.split_to(hole_end.saturating_sub(self.next) as usize);
            new_bytes = filling.len().saturating_add(new_bytes);
            self.push_ready(filling);
            let joined = self.join_first_range();
            data.advance(data.len().min(joined));
        }
        new_bytes
    }

    /// Moves the first range to the in-order data if it begins at RCV.NXT; returns its length in bytes.
    fn join_first_range(&mut self) -> usize {
        let Some(range) = self.ranges.first_entry().filter(|range| *range.key() == self.next) else {
            return 0;
        };
        let (start, end) = range.remove_entry();
        while self.next < end
            && let Some((_, chunk)) = self.chunks.pop_first()
        {
            self.chunk_bytes = self.chunk_bytes.saturating_sub(chunk_cost(chunk.len()));
            self.push_ready(chunk);
        }
        let joined = end.saturating_sub(start) as usize;
        self.out_of_order = self.out_of_order.saturating_sub(joined);
        self.recent.retain(|at| *at >= end);
        joined
    }

    fn insert_out_of_order(&mut self, offset: u64, data: &Bytes, limits: Limits, inserted: &mut Inserted) {
        let end = offset.saturating_add(data.len() as u64);
        // Find the ranges that the segment overlaps or touches, and the holes between them that it fills.
        let before = self.ranges.range(..offset).next_back().filter(|&(_, &last)| last >= offset);
        let joined = before.into_iter().chain(self.ranges.range(offset..=end));
        let mut merged = offset..end;
        let mut holes = Holes { at: offset, cost: 0, bytes: 0 };
        let mut is_new_range = true;
        for (&start, &last) in joined {
            merged = merged.start.min(start)..merged.end.max(last);
            holes.count(start);
            holes.at = last;
            is_new_range = false;
        }
        holes.count(end);
        // Store the new bytes unless a limit is exceeded.
        if holes.bytes > 0 {
            let memory = self.length().saturating_add(holes.cost).saturating_add(RANGE_COST);
            if memory > limits.memory || (is_new_range && self.ranges.len() >= limits.ranges) {
                inserted.dropped_over_cap = true;
                return;
            }
            self.fill_holes(offset, data, merged.start, end);
            inserted.new_bytes = holes.bytes;
            self.out_of_order = self.out_of_order.saturating_add(holes.bytes);
            self.chunk_bytes = self.chunk_bytes.saturating_add(holes.cost);
            self.ranges.insert(merged.start, merged.end);
        }
        // The range of the newest segment is reported first (RFC 2018, section 4).
        self.recent.retain(|at| !merged.contains(at));
        if self.recent.is_full() {
            self.recent.pop();
        }
        self.recent.insert(0, offset);
    }

    /// Stores the parts of `data` up to `end` that no range covers, and removes the ranges from `first` on that the
    /// segment overlaps or touches.
    fn fill_holes(&mut self, offset: u64, data: &Bytes, first: u64, end: u64) {
        let mut at = offset;
        while let Some((&start, &last)) = self.ranges.range(first..=end).next() {
            self.ranges.remove(&start);
            self.keep_part(offset, data, at..start);
            at = at.max(last);
        }
        self.keep_part(offset, data, at..end);
    }

    fn keep_part(&mut self, offset: u64, data: &Bytes, part: Range<u64>) {
        if part.start < part.end {
            let within = part.start.saturating_sub(offset) as usize..part.end.saturating_sub(offset) as usize;
            self.chunks.insert(part.start, keep(data, within));
        }
    }

    fn first_duplicate(&self, segment: Range<u64>) -> Option<Range<u64>> {
        if segment.start < self.next {
            return Some(segment.start..segment.end.min(self.next));
        }
        let before = self.ranges.range(..=segment.start).next_back().filter(|&(_, &last)| last > segment.start);
        let (&start, &last) = before.or_else(|| self.ranges.range(segment.clone()).next())?;
        Some(start.max(segment.start)..last.min(segment.end))
    }

    fn push_ready(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        self.next = self.next.saturating_add(data.len() as u64);
        self.unread = self.unread.saturating_add(data.len());
        if data.len() < GATHER_BELOW {
            if self.tail.capacity().saturating_sub(self.tail.len()) < data.len() {
                self.flush_tail();
                let alone = self.unread == data.len();
                self.tail = BytesMut::with_capacity(if alone { GATHER_BELOW } else { GATHER_BLOCK });
            }
            self.tail.extend_from_slice(&data);
            return;
        }
        if !self.tail.is_empty() {
            self.flush_tail();
        }
        self.ready.push_back(data.into());
    }

    fn flush_tail(&mut self) {
        if !self.tail.is_empty() {
            self.ready.push_back(self.tail.split().freeze().into());
        }
    }

    /// Returns the next in-order bytes, at most `max`, without a copy; `None` if there are none or `max` is zero.
    pub(crate) fn read(&mut self, max: usize) -> Option<Bytes> {
        let front = self.first().filter(|_| max > 0)?;
        let bytes = front.take(max);
        if front.is_empty() {
            self.ready.pop_front();
        }
        self.on_read(bytes.len());
        Some(bytes)
    }

    fn first(&mut self) -> Option<&mut StreamPart> {
        if self.ready.is_empty() {
            self.flush_tail();
        }
        self.ready.front_mut()
    }

    /// Moves at most `max` in-order bytes to `chunks`, without a copy, and returns their number.
    pub(crate) fn read_chunks(&mut self, chunks: &mut Chunks, max: usize) -> usize {
        let mut left = max;
        while left > 0 && self.first().is_some() {
            let Some(mut piece) = self.ready.pop_front() else { break };
            let mut len = piece.len();
            if len > left {
                let first = piece.split_to(left);
                self.ready.push_front(std::mem::replace(&mut piece, first));
                len = left;
            }
            chunks.push(piece, len);
            left = left.saturating_sub(len);
        }
        let read = max.saturating_sub(left);
        self.on_read(read);
        read
    }

    /// Returns the bytes available to the next [`read`](Self::read), without consuming them.
    pub(crate) fn front(&mut self) -> Option<Bytes> {
        self.first().map(|front| front.share_front())
    }

    fn on_read(&mut self, bytes: usize) {
        self.unread = self.unread.saturating_sub(bytes);
        self.unpin();
        if self.unread == 0 {
            self.tail = BytesMut::new();
            self.ready.shrink_to(READY_MIN);
            self.pins.shrink_to(READY_MIN);
        }
    }

    pub(crate) fn read_into(&mut self, buffer: &mut [u8]) -> usize {
        let all = buffer.len();
        let mut room = buffer;
        while !room.is_empty()
            && let Some(piece) = self.ready.front_mut()
        {
            let before = room.len();
            room = fill(room, piece.front());
            piece.advance(before.saturating_sub(room.len()));
            if piece.is_empty() {
                self.ready.pop_front();
            }
        }
        if self.ready.is_empty() {
            let before = room.len();
            room = fill(room, &self.tail);
            self.tail.advance(before.saturating_sub(room.len()));
        }
        let read = all.saturating_sub(room.len());
        self.on_read(read);
        read
    }

    /// Returns whether there is no data, in order or out of order.
    pub(crate) fn is_empty(&self) -> bool {
        self.unread == 0 && self.out_of_order == 0
    }

    pub(crate) fn peek_into(&self, buffer: &mut [u8]) -> usize {
        let all = buffer.len();
        let parts = self.ready.iter().flat_map(StreamPart::parts).chain([self.tail.as_ref()]);
        let room = parts.fold(buffer, |room, bytes| if room.is_empty() { room } else { fill(room, bytes) });
        all.saturating_sub(room.len())
    }

    /// Returns the out-of-order ranges in ascending order; there is a hole before each.
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = Range<u64>> + DoubleEndedIterator {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the out-of-order ranges in the order of SACK blocks (RFC 2018, section 4): first the range with the
    /// newest arrival, then the ranges that changed most recently before it, then all others in ascending order.
    pub(crate) fn recent_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let recent: ArrayVec<Range<u64>, RECENT> = self.recent.iter().filter_map(|&at| self.range_at(at)).collect();
        let others = {
            let recent = recent.clone();
            self.ranges().filter(move |range| !recent.contains(range))
        };
        recent.into_iter().chain(others)
    }

    /// Returns the out-of-order range with the newest arrival.
    pub(crate) fn newest_range(&self) -> Option<Range<u64>> {
        self.recent.first().and_then(|&at| self.range_at(at))
    }

    fn range_at(&self, at: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ranges.range(..=at).next_back()?;
        (at < end).then_some(start..end)
    }
}

struct Holes {
    at: u64,
    bytes: usize,
    cost: usize,
}

impl Holes {
    fn count(&mut self, until: u64) {
        let bytes = until.saturating_sub(self.at) as usize;
        if bytes > 0 {
            self.bytes = self.bytes.saturating_add(bytes);
            self.cost = self.cost.saturating_add(chunk_cost(bytes));
        }
    }
}

fn fill<'a>(room: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (part, rest) = room.split_at_mut(bytes.len().min(room.len()));
    part.copy_from_slice(bytes.get(..part.len()).unwrap_or_default());
    rest
}

fn chunk_cost(length: usize) -> usize {
    CHUNK_COST.saturating_add(if length < COPY_BELOW { length } else { length.max(RECEIVE_BUFFER) })
}

fn keep(data: &Bytes, range: Range<usize>) -> Bytes {
    let part = data.slice(range);
    if part.len() < COPY_BELOW { Bytes::copy_from_slice(&part) } else { part }
}

#[cfg(test)]
mod tests;

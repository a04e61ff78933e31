//! The receive buffer: in-order data not yet read, and what arrived beyond a hole.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use arrayvec::ArrayVec;
use bytes::{Buf, Bytes, BytesMut};

/// In-order data shorter than this is gathered in blocks: a peer that sends single bytes must not pin a receive
/// buffer with each.
const GATHER_BELOW: usize = 512;
/// The size of such a block; the first one is smaller, and once all is read none is held: most connections of a server
/// rest.
const GATHER_BLOCK: usize = 2 << 10;
/// Out-of-order data shorter than this is copied. It may wait for long, and a slice keeps the whole receive buffer
/// alive that it was cut from; with every second segment lost, twice the window would be pinned for nothing.
const COPY_BELOW: usize = 16 << 10;
/// What out-of-order data that is not copied is charged at least: a receive buffer holds one UDP datagram or one
/// batch of merged ones, 64 KiB at most.
const RECEIVE_BUFFER: usize = 64 << 10;
/// What a chunk costs beside its data: its place in a B-tree whose nodes may be half empty, the reference count and
/// the allocator's header.
const CHUNK_COST: usize = 128;
/// What a range costs: its place in the other B-tree.
const RANGE_COST: usize = 48;
/// Room for so many chunks of in-order data stays when all is read.
const READY_MIN: usize = 1 << 10;
/// How many ranges are remembered as recent: more SACK blocks than four never fit into the options (RFC 2018,
/// section 3).
const RECENT: usize = 4;

/// Bounds on what [`Reassembly::insert`] accepts out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most out-of-order ranges, that is, holes.
    pub(crate) ranges: usize,
    /// The most bytes of [`memory`](Reassembly::memory).
    pub(crate) memory: usize,
}

/// What [`Reassembly::insert`] did with a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inserted {
    /// How many bytes of the segment were not there yet and are now.
    pub(crate) new_bytes: usize,
    /// The first contiguous part of the segment that had arrived before, to be reported as a D-SACK block (RFC 2883,
    /// section 4).
    pub(crate) duplicate: Option<Range<u64>>,
    /// RCV.NXT moved.
    pub(crate) advanced: bool,
    /// RCV.NXT moved and nothing was waiting out of order: the one case in which the acknowledgment may be delayed
    /// (RFC 5681, section 4.2).
    pub(crate) in_order: bool,
    /// The segment lay beyond a hole and its new bytes were thrown away because of the limits.
    pub(crate) dropped_over_cap: bool,
}

/// The bytes of one direction of a connection put back in order.
///
/// Offsets are 64-bit stream offsets, as those of the sender. The caller keeps segments within the window it
/// advertised. Of bytes that arrive more than once the first copy counts: nothing already held changes. In-order
/// data is never refused, however little memory the limits allow, so that a full buffer cannot deadlock.
#[derive(Debug)]
pub(crate) struct Reassembly {
    /// RCV.NXT.
    next: u64,
    /// In-order data, then `tail`.
    ready: VecDeque<Bytes>,
    /// Short in-order data after all of `ready`.
    tail: BytesMut,
    unread: usize,
    /// Out-of-order data by offset, disjoint.
    chunks: BTreeMap<u64, Bytes>,
    /// What `chunks` cover, start to end: disjoint, never touching each other, all beyond `next`.
    ranges: BTreeMap<u64, u64>,
    out_of_order: usize,
    /// What `chunks` cost.
    chunk_bytes: usize,
    /// An offset in each of the ranges that changed last, newest first. Those that RCV.NXT has passed are stale.
    recent: ArrayVec<u64, RECENT>,
}

impl Reassembly {
    /// An empty buffer that expects offset `next` first.
    #[must_use]
    pub(crate) fn new(next: u64) -> Self {
        Self {
            next,
            ready: VecDeque::new(),
            tail: BytesMut::new(),
            unread: 0,
            chunks: BTreeMap::new(),
            ranges: BTreeMap::new(),
            out_of_order: 0,
            chunk_bytes: 0,
            recent: ArrayVec::new(),
        }
    }

    /// The offset after the last byte in order: RCV.NXT as far as data goes.
    #[must_use]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// How many bytes can be read.
    #[must_use]
    pub(crate) fn unread(&self) -> usize {
        self.unread
    }

    /// How many bytes wait beyond a hole.
    #[must_use]
    pub(crate) fn out_of_order(&self) -> usize {
        self.out_of_order
    }

    /// Bytes of memory that the buffer occupies: data, room in blocks, bookkeeping. Slices that are not copied count
    /// by their length in order, and 64 KiB at least out of order, which is the most that they can pin.
    #[must_use]
    pub(crate) fn memory(&self) -> usize {
        let parts = [
            self.unread.saturating_sub(self.tail.len()),
            self.tail.capacity(),
            self.ready.capacity().saturating_mul(size_of::<Bytes>()),
            self.chunk_bytes,
            self.ranges.len().saturating_mul(RANGE_COST),
        ];
        parts.into_iter().fold(0, usize::saturating_add)
    }

    /// Takes in the bytes from `offset` on. Constant time in order, logarithmic in the number of chunks held
    /// otherwise, plus constant time for each range that the segment joins.
    pub(crate) fn insert(&mut self, offset: u64, data: Bytes, limits: Limits) -> Inserted {
        if offset == self.next && self.ranges.is_empty() && !data.is_empty() {
            let new_bytes = data.len();
            self.push_ready(data);
            return Inserted { new_bytes, advanced: true, in_order: true, ..Inserted::default() };
        }
        self.insert_slowly(offset, data, limits)
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

    /// Takes in `data`, which begins at RCV.NXT and ends at `end`, and what it connects to; gives the new bytes.
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

    /// Moves the first range to the in-order data if it begins at RCV.NXT; gives how many bytes that were.
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
        // The ranges that the new one overlaps or touches, and what of the segment lies between them.
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
        if holes.bytes > 0 {
            let memory = self.memory().saturating_add(holes.cost).saturating_add(RANGE_COST);
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
        self.recent.retain(|at| !merged.contains(at));
        if self.recent.is_full() {
            self.recent.pop();
        }
        self.recent.insert(0, offset);
    }

    /// Keeps the parts of `data`, up to `end`, that no range covers, and takes out the ranges from `first` on that
    /// the segment overlaps or touches.
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
        self.ready.push_back(data);
    }

    fn flush_tail(&mut self) {
        if !self.tail.is_empty() {
            self.ready.push_back(self.tail.split().freeze());
        }
    }

    /// The next in-order bytes, at most `max` of them, without a copy; `None` if there are none or `max` is zero.
    pub(crate) fn read(&mut self, max: usize) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.flush_tail();
        }
        self.read_ready(max)
    }

    fn read_ready(&mut self, max: usize) -> Option<Bytes> {
        if max == 0 {
            return None;
        }
        let front = self.ready.front_mut()?;
        let bytes = if front.len() > max { Some(front.split_to(max)) } else { self.ready.pop_front() }?;
        self.on_read(bytes.len());
        Some(bytes)
    }

    fn on_read(&mut self, bytes: usize) {
        self.unread = self.unread.saturating_sub(bytes);
        if self.unread == 0 {
            self.tail = BytesMut::new();
            self.ready.shrink_to(READY_MIN);
        }
    }

    /// Copies in-order bytes into `buffer` and takes them out; gives how many.
    pub(crate) fn read_into(&mut self, buffer: &mut [u8]) -> usize {
        let mut room = &mut *buffer;
        while let Some(bytes) = self.read_ready(room.len()) {
            room = fill(room, &bytes);
        }
        if self.ready.is_empty() {
            let before = room.len();
            room = fill(room, &self.tail);
            let read = before.saturating_sub(room.len());
            self.tail.advance(read);
            self.on_read(read);
        }
        let left = room.len();
        buffer.len().saturating_sub(left)
    }

    /// Gives back room that the load of late no longer calls for.
    pub(crate) fn rest(&mut self) {
        self.ready.shrink_to_fit();
    }

    /// Copies in-order bytes into `buffer` and leaves them to be read; gives how many.
    pub(crate) fn peek_into(&self, buffer: &mut [u8]) -> usize {
        let mut room = &mut *buffer;
        for bytes in self.ready.iter().map(Bytes::as_ref).chain([self.tail.as_ref()]) {
            room = fill(room, bytes);
        }
        let left = room.len();
        buffer.len().saturating_sub(left)
    }

    /// The out-of-order ranges by offset: disjoint, and a hole before each.
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = Range<u64>> + DoubleEndedIterator {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// The out-of-order ranges in the order in which SACK blocks report them (RFC 2018, section 4): first the one
    /// that holds the newest arrival, then those that changed last before it, then all others from the lowest on.
    pub(crate) fn recent_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let recent: ArrayVec<Range<u64>, RECENT> = self.recent.iter().filter_map(|&at| self.range_at(at)).collect();
        let others = {
            let recent = recent.clone();
            self.ranges().filter(move |range| !recent.contains(range))
        };
        recent.into_iter().chain(others)
    }

    fn range_at(&self, at: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ranges.range(..=at).next_back()?;
        (at < end).then_some(start..end)
    }
}

/// Adds up the parts of a segment that are new.
struct Holes {
    /// The end of what was looked at.
    at: u64,
    bytes: usize,
    cost: usize,
}

impl Holes {
    /// Counts what lies between the last range and `until`.
    fn count(&mut self, until: u64) {
        let bytes = until.saturating_sub(self.at) as usize;
        if bytes > 0 {
            self.bytes = self.bytes.saturating_add(bytes);
            self.cost = self.cost.saturating_add(chunk_cost(bytes));
        }
    }
}

/// Copies what fits of `bytes` into `room`; gives the room that is left.
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

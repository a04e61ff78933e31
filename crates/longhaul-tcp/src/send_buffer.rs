//! The send buffer: what the application wrote and the peer has not yet acknowledged.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

mod frames;
mod piece;

pub(crate) use piece::Layout;
use piece::{Cells, Data, Piece};

/// Blocks for copied data double from one to the next between these two, so that a quiet connection costs little and
/// a fast one allocates rarely.
const BLOCK_MIN: usize = 512;
const BLOCK_MAX: usize = 256 << 10;
/// [`SendBuffer::write_bytes`] keeps data of at least this length and copies shorter data: below it, a copy costs no
/// more than the bookkeeping for a piece of its own.
const KEEP_FROM: usize = 4 << 10;
/// Emptied blocks are kept for the next write up to this many bytes, or as many as there ever was data in the buffer
/// since [`SendBuffer::rest`] was called: a window that empties and fills again each round trip must not pay for the
/// allocator and the pages each time.
const SPARE_MIN: usize = 16 << 10;

/// Bytes written by the application, from SND.UNA on; kept until cumulatively acknowledged, as RFC 2018, section 8
/// requires of data that was only selectively acknowledged.
///
/// Offsets are 64-bit stream offsets: the SYN is 0, the first byte of data 1. The buffer holds
/// [`start`](Self::start)`..`[`end`](Self::end). Small writes are gathered in blocks, large ones are kept without
/// copying. Reading back an offset that continues the last reading takes constant time, any other one logarithmic
/// in the number of pieces.
///
/// The capacity bounds the data, not the memory: what the data costs is [`memory`](Self::memory).
#[derive(Debug)]
pub(crate) struct SendBuffer {
    capacity: usize,
    start: u64,
    end: u64,
    /// The data in order, without gaps or empty pieces; the first may begin before `start`.
    pieces: VecDeque<Piece>,
    /// Empty blocks.
    spare: Vec<Vec<u8>>,
    /// Their capacities, summed.
    spare_bytes: usize,
    /// The most data held since the last rest.
    peak: usize,
    /// What the data of all pieces costs.
    piece_bytes: usize,
    /// The least size of the next block.
    block: usize,
    /// Pieces ever dropped from the front: the serial number of the first one.
    dropped: u64,
    /// The serial number of the piece where the last reading ended.
    cursor: Cell<u64>,
}

impl SendBuffer {
    /// An empty buffer for up to `capacity` bytes of data, beginning at offset 1.
    #[must_use]
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            start: 1,
            end: 1,
            pieces: VecDeque::new(),
            spare: Vec::new(),
            spare_bytes: 0,
            peak: 0,
            piece_bytes: 0,
            block: BLOCK_MIN,
            dropped: 0,
            cursor: Cell::new(0),
        }
    }

    /// Changes the capacity. Data beyond a smaller one stays; only writing waits until there is room again.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// How many bytes of data may be in the buffer.
    #[must_use]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The offset of the first byte not acknowledged: SND.UNA, except that it never passes the end of the data.
    #[must_use]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The offset after the last byte written.
    #[must_use]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// How many bytes the buffer holds.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        (self.end() - self.start()) as usize
    }

    /// Whether everything written was acknowledged.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How many bytes may be written now.
    #[must_use]
    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.len())
    }

    /// Bytes of memory that the buffer occupies, unused parts of blocks and spare blocks included. Kept data counts
    /// by its length: whether it pins a larger allocation only the application knows.
    #[must_use]
    pub(crate) fn memory(&self) -> usize {
        self.piece_bytes
            + self.spare_bytes
            + self.pieces.capacity() * size_of::<Piece>()
            + self.spare.capacity() * size_of::<Vec<u8>>()
    }

    /// Copies as much of `data` as there is room for, and gives how much that was. The segment sent next will begin at
    /// `next`; `layout` says what segments will be like.
    pub(crate) fn write(&mut self, data: &[u8], layout: Layout, next: u64) -> usize {
        let taken = data.len().min(self.free());
        let mut rest = &data[..taken];
        while !rest.is_empty() {
            let now = self.tail(rest.len(), layout, next).append(rest);
            self.end += now as u64;
            rest = &rest[now..];
        }
        self.peak = self.peak.max(self.len());
        taken
    }

    /// Gives back what the load of late no longer calls for: the sender fell silent.
    pub(crate) fn rest(&mut self) {
        self.peak = self.len();
        self.trim_spare();
        self.spare.shrink_to_fit();
        if self.is_empty() {
            self.block = BLOCK_MIN;
            self.pieces.shrink_to(0);
        }
    }

    /// Takes as much of `data` as there is room for, without copying if that is at least 4 KiB, and gives back the
    /// rest.
    pub(crate) fn write_bytes(&mut self, mut data: Bytes, layout: Layout, next: u64) -> Bytes {
        let taken = data.split_to(data.len().min(self.free()));
        if taken.len() < KEEP_FROM {
            self.write(&taken, layout, next);
            return data;
        }
        let len = taken.len();
        self.push(len, Data::Kept(taken));
        self.end += len as u64;
        data
    }

    /// Drops everything before `una`. Offsets before the start do nothing; those past the end, such as the
    /// acknowledgment of a FIN, count as the end.
    pub(crate) fn advance(&mut self, una: u64) {
        self.start = una.clamp(self.start, self.end);
        while let Some(piece) = self.pieces.front()
            && piece.end() <= self.start
        {
            let Some(piece) = self.pieces.pop_front() else {
                break;
            };
            self.dropped += 1;
            self.piece_bytes -= piece.cost();
            if let Data::Copied(block) | Data::Laid(Cells { block, .. }) = piece.data {
                self.keep_spare(block);
            }
        }
        self.trim_spare();
    }

    /// Calls `each` with the slices, in order, that make up `range`: usually one. Gives how many bytes they have:
    /// what of the range lies outside the buffer is left out.
    pub(crate) fn slices<'a>(&'a self, range: Range<u64>, mut each: impl FnMut(&'a [u8])) -> usize {
        let (from, to) = (range.start.max(self.start), range.end.min(self.end));
        if from >= to {
            return 0;
        }
        let mut index = self.find(from);
        let mut at = from;
        while let Some(piece) = self.pieces.get(index) {
            let last = to.min(piece.end());
            piece.slices(at..last, &mut each);
            at = last;
            if at == to {
                break;
            }
            index += 1;
        }
        self.cursor.set(self.dropped + index as u64);
        (to - from) as usize
    }

    /// Adds the slices that make up `range` to `out`; otherwise as [`slices`](Self::slices).
    pub(crate) fn gather<'a>(&'a self, range: Range<u64>, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.slices(range, |slice| out.extend([slice]))
    }

    /// The index of the piece with offset `at`, which is in the buffer.
    fn find(&self, at: u64) -> usize {
        // A serial number from before the pieces now in front gives index 0, as good a guess as any.
        let guess = self.cursor.get().saturating_sub(self.dropped) as usize;
        let holds = |index: usize| self.pieces.get(index).is_some_and(|piece| piece.start <= at && at < piece.end());
        if holds(guess) {
            guess
        } else if holds(guess + 1) {
            guess + 1
        } else {
            self.pieces.partition_point(|piece| piece.end() <= at)
        }
    }

    /// The piece that the next byte goes into, with room for at least one; `wanted` are about to follow.
    fn tail(&mut self, wanted: usize, layout: Layout, next: u64) -> &mut Piece {
        let lays = wanted >= layout.worth() && layout.stride() <= BLOCK_MAX / 2;
        let goes_on = self.pieces.back().is_some_and(|piece| {
            let room = piece.room();
            // A block is not left for a better layout while most of it is empty.
            room > 0 && (!lays || piece.is_in_phase(layout, next) || (room > piece.len && piece.len > 0))
        });
        if !goes_on {
            let data =
                if lays { self.new_cells(wanted, layout, next) } else { Data::Copied(self.new_block(wanted, 1)) };
            self.push(0, data);
        }
        match self.pieces.back_mut() {
            Some(piece) => piece,
            None => unreachable!("a piece was found or pushed"),
        }
    }

    /// Adds a piece at the end.
    fn push(&mut self, len: usize, data: Data) {
        if self.pieces.back().is_some_and(|piece| piece.room() > 0) {
            // The block's rest is lost; small blocks lose little if this happens with each small write.
            self.block = BLOCK_MIN;
        }
        let piece = Piece { start: self.end, len, data };
        self.piece_bytes += piece.cost();
        self.pieces.push_back(piece);
    }

    fn new_cells(&mut self, wanted: usize, layout: Layout, next: u64) -> Data {
        let payload = u64::from(layout.payload);
        // What completes the last segment of the data before.
        let lead = (self.end.saturating_sub(next).next_multiple_of(payload)).saturating_sub(self.end - next) as u16;
        let block = self.new_block(wanted, usize::from(lead) + layout.stride());
        Data::Laid(Cells { block, layout, lead })
    }

    /// An empty block of at least `least` bytes; `wanted` are about to follow.
    fn new_block(&mut self, wanted: usize, least: usize) -> Vec<u8> {
        let size = wanted.next_power_of_two().clamp(self.block, BLOCK_MAX).max(least);
        self.block = (2 * size).min(BLOCK_MAX);
        if let Some(block) = self.spare.pop_if(|block| block.capacity() >= least) {
            self.spare_bytes -= block.capacity();
            return block;
        }
        Vec::with_capacity(size)
    }

    fn keep_spare(&mut self, mut block: Vec<u8>) {
        block.clear();
        self.spare_bytes += block.capacity();
        self.spare.push(block);
    }

    /// Frees spare blocks that the present load does not call for.
    fn trim_spare(&mut self) {
        let most = if self.peak == 0 { 0 } else { self.peak.max(SPARE_MIN) };
        while self.spare_bytes > most
            && let Some(block) = self.spare.pop()
        {
            self.spare_bytes -= block.capacity();
        }
    }
}

#[cfg(test)]
mod tests;

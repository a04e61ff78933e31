//! Send buffer: data that the application wrote and the peer has not acknowledged.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;

use bytes::Buf;

use crate::connection::{Reclaim, Reclaimable};

mod frames;
mod piece;

pub(crate) use piece::Layout;
use piece::{Cells, Data, Piece};

/// Sizes of the first and the largest block for copied data. Each block is twice as large as the one before, so that an
/// idle connection uses little memory and a fast one allocates rarely. A block is freed as a whole, so that larger
/// blocks would keep acknowledged data for longer and leave the processor's caches before they are reused.
const BLOCK_MIN: usize = 512;
const BLOCK_MAX: usize = 64 << 10;
/// [`SendBuffer::write_chunk`] keeps data of at least this length by reference and copies shorter data, for which a
/// copy costs no more than the bookkeeping for a separate piece.
const KEEP_FROM: usize = 4 << 10;
/// Maximum size of the empty blocks kept for later writes, or the peak amount of data since [`rest`](Reclaim::rest) if
/// that is larger. A sender whose window empties and fills again in every round trip need not allocate and fault in
/// pages each time.
const SPARE_MIN: usize = 16 << 10;

/// Data written by the application from SND.UNA on. It is kept until cumulatively acknowledged, as RFC 2018, section
/// 8, requires of SACKed data.
///
/// Offsets are 64-bit stream offsets: the SYN has offset 0, the first byte of data offset 1. The buffer holds
/// [`start`](Self::start)`..`[`end`](Self::end). Small writes are gathered in blocks, large ones are kept without
/// copying. A read that continues the previous one takes constant time, any other read takes time logarithmic in the
/// number of pieces.
///
/// The capacity limits the data, not the memory; see [`memory`](Self::memory).
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    pub(crate) capacity: usize,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Contiguous data in non-empty pieces; the first piece may begin before `start`.
    pieces: VecDeque<Piece>,
    /// Empty blocks.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// Maximum amount of data since the last call of `rest`.
    peak: usize,
    piece_bytes: usize,
    /// Minimum size of the next block.
    block: usize,
    /// Number of pieces removed from the front so far, which is the serial number of the first piece.
    dropped: u64,
    /// Serial number of the piece where the last read ended.
    cursor: Cell<u64>,
}

/// Keeps the capacity, and the offset of the next byte.
impl Reclaim for SendBuffer {
    type Kept = (usize, u64);

    fn from_kept((capacity, start): &Self::Kept) -> Self {
        Self { capacity: *capacity, start: *start, end: *start, block: BLOCK_MIN, ..Self::default() }
    }
}

impl Reclaimable<SendBuffer> {
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.made().map_or(self.kept.1, |buffer| buffer.end)
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "batches have their file")]
impl SendBuffer {
    /// Frees memory that recent load did not need. Returns whether the buffer is empty, and stores the values to keep
    /// in that case.
    pub(crate) fn rest(&mut self, kept: &mut (usize, u64)) -> bool {
        *kept = (self.capacity, self.start);
        self.peak = self.len();
        self.trim_spare();
        self.spare.shrink_to_fit();
        self.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the number of bytes that may be written.
    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.len())
    }

    /// Returns the memory used by the buffer in bytes, including unused parts of blocks and spare blocks. Data kept by
    /// reference counts with its length, because only the application knows whether it pins a larger allocation.
    pub(crate) fn memory(&self) -> usize {
        self.piece_bytes
            + self.spare_bytes
            + self.pieces.capacity() * size_of::<Piece>()
            + self.spare.capacity() * size_of::<Vec<u8>>()
    }

    /// Copies as much of `data` as fits and returns the number of bytes. The next segment to be sent begins at
    /// `next`; `layout` gives the expected segment size.
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

    /// Takes the first chunk of `data`, or as much of it as fits into the buffer and into `room` bytes, and returns its
    /// length and whether it was copied. Chunks of at least 4 KiB are not copied if they are [`Bytes`](bytes::Bytes).
    pub(crate) fn write_chunk(&mut self, data: &mut impl Buf, room: usize, layout: Layout, next: u64) -> (usize, bool) {
        let chunk = data.chunk();
        let (at, room) = (chunk.as_ptr(), room.min(self.free()));
        let part = chunk.get(..room).unwrap_or(chunk);
        if part.len() < KEEP_FROM {
            let len = self.write(part, layout, next);
            data.advance(len);
            return (len, true);
        }
        let len = part.len();
        let mut kept = data.copy_to_bytes(len);
        // The application's `Buf` may return a wrong length.
        kept.truncate(len);
        let (len, is_copy) = (kept.len(), kept.as_ptr() != at);
        self.push(len, Data::Kept(kept));
        self.end += len as u64;
        (len, is_copy)
    }

    /// Drops all data before `una`. Offsets before the start have no effect; offsets past the end, such as that of an
    /// acknowledged FIN, are treated as the end.
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
            if let Data::Copied(mut block) | Data::Laid(Cells { mut block, .. }) = piece.data {
                block.clear();
                self.spare_bytes += block.capacity();
                self.spare.push(block);
            }
        }
        self.trim_spare();
    }

    /// Calls `each` with the slices, in order, that make up `range` (usually a single one), and returns their total
    /// length. The part of the range outside the buffer is left out.
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

    /// Appends the slices that make up `range` to `out`; otherwise like [`slices`](Self::slices).
    pub(crate) fn gather<'a>(&'a self, range: Range<u64>, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.slices(range, |slice| out.extend([slice]))
    }

    /// Returns the index of the piece with offset `at`, which must be in the buffer.
    fn find(&self, at: u64) -> usize {
        // If the piece of the last read was removed, the guess is index 0.
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

    /// Returns the piece for the next byte, with room for at least one; `wanted` bytes are about to follow.
    fn tail(&mut self, wanted: usize, layout: Layout, next: u64) -> &mut Piece {
        // Gaps for headers are worthwhile for two or more segments.
        let lays = wanted >= 2 * usize::from(layout.payload) && layout.stride() <= BLOCK_MAX / 2;
        let goes_on = self.pieces.back().is_some_and(|piece| {
            let room = piece.room();
            // A block that is mostly empty is filled even if another layout would suit better.
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

    fn push(&mut self, len: usize, data: Data) {
        if self.pieces.back().is_some_and(|piece| piece.room() > 0) {
            // The rest of the block remains unused. Small blocks limit the waste if this happens at every small write.
            self.block = BLOCK_MIN;
        }
        let piece = Piece { start: self.end, len, data };
        self.piece_bytes += piece.cost();
        self.pieces.push_back(piece);
    }

    fn new_cells(&mut self, wanted: usize, layout: Layout, next: u64) -> Data {
        let payload = u64::from(layout.payload);
        // Number of bytes that complete the last segment of the data before the block.
        let lead = (self.end.saturating_sub(next).next_multiple_of(payload)).saturating_sub(self.end - next) as u16;
        let block = self.new_block(wanted, usize::from(lead) + layout.stride());
        Data::Laid(Cells { block, layout, lead })
    }

    /// Returns an empty block of at least `least` bytes; `wanted` bytes are about to follow.
    fn new_block(&mut self, wanted: usize, least: usize) -> Vec<u8> {
        let size = wanted.next_power_of_two().clamp(self.block, BLOCK_MAX).max(least);
        self.block = (2 * size).min(BLOCK_MAX);
        if let Some(block) = self.spare.pop_if(|block| block.capacity() >= least) {
            self.spare_bytes -= block.capacity();
            return block;
        }
        Vec::with_capacity(size)
    }

    /// Frees spare blocks beyond the limit for the current load.
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

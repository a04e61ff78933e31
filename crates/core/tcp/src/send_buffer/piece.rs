//! Pieces of the send buffer: contiguous data in one block of memory.

use std::ops::Range;

use bytes::Bytes;

/// Expected lengths of segments and of their headers.
///
/// Large writes are laid out for the expected segments, with a gap for a header before the payload of each segment, so
/// that a batch of segments is sent as one slice. If a header of 24 bytes were gathered for each segment instead, the
/// system call would take up to a third longer, depending on the processor. Segments of unexpected lengths are
/// gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) header: u16,
    /// Payload length in bytes; at least 1.
    pub(crate) payload: u16,
}

impl Layout {
    /// Returns the length of a cell: header and payload.
    pub(super) fn stride(self) -> usize {
        usize::from(self.header) + usize::from(self.payload)
    }
}

#[derive(Debug)]
pub(super) struct Piece {
    /// Stream offset of the first byte.
    pub(super) start: u64,
    pub(super) len: usize,
    pub(super) data: Data,
}

#[derive(Debug)]
pub(super) enum Data {
    /// Block owned by the buffer; data is appended while it has room.
    Copied(Vec<u8>),
    /// Block owned by the buffer, with gaps for headers.
    Laid(Cells),
    /// Data shared with the application.
    Kept(Bytes),
}

/// Block with header gaps: `lead` bytes of data, which complete a segment that began before, and then cells. A cell
/// is a gap for a header and the payload of one segment. Only the last cell may be incomplete.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) block: Vec<u8>,
    pub(super) layout: Layout,
    pub(super) lead: u16,
}

impl Cells {
    /// Returns the amount of data that a block of this capacity holds.
    fn capacity(&self) -> usize {
        let cells = self.block.capacity().saturating_sub(self.lead.into()) / self.layout.stride();
        usize::from(self.lead) + cells * usize::from(self.layout.payload)
    }

    /// Returns the position in the block of data byte `at`, and the number of data bytes from there to the end of its
    /// cell.
    fn place(&self, at: usize) -> (usize, usize) {
        let (lead, payload) = (usize::from(self.lead), usize::from(self.layout.payload));
        match at.checked_sub(lead) {
            None => (at, lead - at),
            Some(at) => {
                let (cell, within) = (at / payload, at % payload);
                let start = lead + cell * self.layout.stride() + usize::from(self.layout.header);
                (start + within, payload - within)
            }
        }
    }

    /// Returns whether a segment that begins at data byte `at` begins a cell.
    fn begins(&self, at: usize) -> bool {
        at.checked_sub(self.lead.into()).is_some_and(|at| at.is_multiple_of(self.layout.payload.into()))
    }

    /// Appends `data`, which must fit, to the `len` bytes of data in the block.
    fn append(&mut self, len: usize, mut data: &[u8]) {
        let (mut at, mut rest) = self.place(len);
        while !data.is_empty() {
            let (now, later) = data.split_at(rest.min(data.len()));
            self.block.resize(at, 0);
            self.block.extend_from_slice(now);
            data = later;
            at = self.block.len() + usize::from(self.layout.header);
            rest = self.layout.payload.into();
        }
    }
}

impl Piece {
    pub(super) fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    pub(super) fn cost(&self) -> usize {
        match &self.data {
            Data::Copied(block) => block.capacity(),
            Data::Laid(cells) => cells.block.capacity(),
            Data::Kept(bytes) => bytes.len(),
        }
    }

    pub(super) fn room(&self) -> usize {
        match &self.data {
            Data::Copied(block) => block.capacity() - block.len(),
            Data::Laid(cells) => cells.capacity() - self.len,
            Data::Kept(_) => 0,
        }
    }

    /// Appends as much of `data` as fits; returns the number of bytes.
    pub(super) fn append(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.room());
        let data = &data[..taken];
        match &mut self.data {
            Data::Copied(block) => block.extend_from_slice(data),
            Data::Laid(cells) => cells.append(self.len, data),
            Data::Kept(_) => {}
        }
        self.len += taken;
        taken
    }

    /// Returns whether segments of `layout`, one of which begins at `next`, are aligned with the cells of this piece.
    pub(super) fn is_in_phase(&self, layout: Layout, next: u64) -> bool {
        match &self.data {
            Data::Laid(cells) if cells.layout == layout => {
                let at = next.checked_sub(self.start).map_or(cells.lead.into(), |at| at as usize);
                at <= usize::from(cells.lead) || cells.begins(at)
            }
            _ => false,
        }
    }

    /// Calls `each` with the slices that make up `range`, which must be within the piece.
    pub(super) fn slices<'a>(&'a self, range: Range<u64>, each: &mut impl FnMut(&'a [u8])) {
        let (mut at, to) = ((range.start - self.start) as usize, (range.end - self.start) as usize);
        match &self.data {
            Data::Copied(block) => each(&block[at..to]),
            Data::Kept(bytes) => each(&bytes[at..to]),
            Data::Laid(cells) => {
                while at < to {
                    let (place, rest) = cells.place(at);
                    let now = rest.min(to - at);
                    each(&cells.block[place..place + now]);
                    at += now;
                }
            }
        }
    }

    /// Returns the range in the block, including the header, of the cell for a segment of `header` and `payload` bytes
    /// whose payload has offset `start`, and the layout; `None` if there is no such cell.
    pub(super) fn cell(&self, start: u64, header: usize, payload: usize) -> Option<(Layout, Range<usize>)> {
        let Data::Laid(cells) = &self.data else { return None };
        let at = start.checked_sub(self.start)? as usize;
        let fits = header == usize::from(cells.layout.header)
            && payload <= usize::from(cells.layout.payload)
            && at + payload <= self.len
            && cells.begins(at);
        fits.then(|| {
            let (place, _) = cells.place(at);
            (cells.layout, place - header..place + payload)
        })
    }

    /// Returns whether the data has gaps for headers.
    pub(super) fn is_laid(&self) -> bool {
        matches!(self.data, Data::Laid(_))
    }

    /// Returns the data from the offset `start` on, or nothing if it has gaps for headers.
    pub(super) fn contiguous(&self, start: u64) -> &[u8] {
        let data: &[u8] = match &self.data {
            Data::Copied(block) => block,
            Data::Kept(bytes) => bytes,
            Data::Laid(_) => &[],
        };
        start.checked_sub(self.start).and_then(|at| data.get(at as usize..)).unwrap_or_default()
    }

    /// Returns the memory of a block with header gaps.
    pub(super) fn cells(&self) -> &[u8] {
        match &self.data {
            Data::Laid(cells) => &cells.block,
            Data::Copied(_) | Data::Kept(_) => &[],
        }
    }

    /// Mutable version of [`cells`](Self::cells), for headers to be written.
    pub(super) fn cells_mut(&mut self) -> &mut [u8] {
        match &mut self.data {
            Data::Laid(cells) => &mut cells.block,
            Data::Copied(_) | Data::Kept(_) => &mut [],
        }
    }
}

//! A piece of the send buffer: consecutive data in one block of memory.

use std::ops::Range;

use bytes::Bytes;

/// How long segments and their headers are expected to be.
///
/// Large writes are laid out for it: room for a header before the payload of each segment, so that a batch of segments
/// leaves as one slice. Gathering a header of 24 bytes for each segment instead makes the system call a third dearer.
/// Data that leaves in other segments than expected is gathered all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of header.
    pub(crate) header: u16,
    /// Bytes of payload; at least 1.
    pub(crate) payload: u16,
}

impl Layout {
    /// Header and payload.
    pub(super) fn stride(self) -> usize {
        usize::from(self.header) + usize::from(self.payload)
    }

    /// Writes of this length and longer are worth a block of their own that is laid out.
    pub(super) fn worth(self) -> usize {
        2 * usize::from(self.payload)
    }
}

#[derive(Debug)]
pub(super) struct Piece {
    /// The stream offset of the first byte.
    pub(super) start: u64,
    /// Bytes of data.
    pub(super) len: usize,
    pub(super) data: Data,
}

#[derive(Debug)]
pub(super) enum Data {
    /// A block of our own, appended to while it has room.
    Copied(Vec<u8>),
    /// The same with room for headers.
    Laid(Cells),
    /// The application's.
    Kept(Bytes),
}

/// A block of `lead` bytes of data, which complete a segment that began before, and then cells: room for a header, and
/// the payload of one segment. Only the last cell may be incomplete.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) block: Vec<u8>,
    pub(super) layout: Layout,
    pub(super) lead: u16,
}

impl Cells {
    /// Bytes of data that a block of this capacity holds.
    fn capacity(&self) -> usize {
        let cells = self.block.capacity().saturating_sub(self.lead.into()) / self.layout.stride();
        usize::from(self.lead) + cells * usize::from(self.layout.payload)
    }

    /// Where the byte at `at`, counted in data, is; and how many bytes of data lie from there to the end of its cell.
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

    /// Whether a segment that begins at `at` begins a cell.
    fn begins(&self, at: usize) -> bool {
        at.checked_sub(self.lead.into()).is_some_and(|at| at.is_multiple_of(self.layout.payload.into()))
    }

    /// Appends `data`, of which there is room for all, to the `len` bytes that were there before.
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

    /// Bytes of memory.
    pub(super) fn cost(&self) -> usize {
        match &self.data {
            Data::Copied(block) => block.capacity(),
            Data::Laid(cells) => cells.block.capacity(),
            Data::Kept(bytes) => bytes.len(),
        }
    }

    /// How many bytes may be appended.
    pub(super) fn room(&self) -> usize {
        match &self.data {
            Data::Copied(block) => block.capacity() - block.len(),
            Data::Laid(cells) => cells.capacity() - self.len,
            Data::Kept(_) => 0,
        }
    }

    /// Appends as much of `data` as there is room for; gives how much that was.
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

    /// Whether segments of `layout`, of which one begins at `next`, meet this piece's cells.
    pub(super) fn is_in_phase(&self, layout: Layout, next: u64) -> bool {
        match &self.data {
            Data::Laid(cells) if cells.layout == layout => {
                let at = next.checked_sub(self.start).map_or(cells.lead.into(), |at| at as usize);
                at <= usize::from(cells.lead) || cells.begins(at)
            }
            _ => false,
        }
    }

    /// Calls `each` with the slices that make up `range`, which lies in the piece.
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

    /// Where the cell is that a segment of `header` and `payload` bytes with its payload at offset `start` fits into,
    /// from the header on, and the layout; `None` if there is no such cell.
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

    /// The memory of a piece that is laid out.
    pub(super) fn cells(&self) -> &[u8] {
        match &self.data {
            Data::Laid(cells) => &cells.block,
            Data::Copied(_) | Data::Kept(_) => &[],
        }
    }

    /// As [`cells`](Self::cells), to write headers to.
    pub(super) fn cells_mut(&mut self) -> &mut [u8] {
        match &mut self.data {
            Data::Laid(cells) => &mut cells.block,
            Data::Copied(_) | Data::Kept(_) => &mut [],
        }
    }
}

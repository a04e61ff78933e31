//! Segments as they leave: headers and payload in as few slices as the layout of the data allows.

use std::ops::Range;

use super::SendBuffer;
use crate::connection::SegmentRef;

/// Consecutive memory that leaves as one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    /// The piece, or `None` for the headers of the batch.
    piece: Option<usize>,
    range: Range<usize>,
}

impl SendBuffer {
    /// Writes headers into the room that was left for them, as far as there is room. `headers` are those of all
    /// `segments`, one after the other.
    pub(crate) fn lay_headers(&mut self, mut headers: &[u8], segments: &[SegmentRef]) {
        for segment in segments {
            let Some((header, rest)) = headers.split_at_checked(segment.header_len.into()) else { return };
            headers = rest;
            if let Some((index, cell)) = self.cell(segment)
                && let Some(piece) = self.pieces.get_mut(index)
            {
                piece.cells_mut()[cell][..header.len()].copy_from_slice(header);
            }
        }
    }

    /// Adds the slices that make up `segments`, whose headers were [laid](Self::lay_headers), to `out`. Gives how many
    /// bytes they have: what was acknowledged since is left out.
    pub(crate) fn frames<'a>(
        &'a self,
        headers: &'a [u8],
        segments: &[SegmentRef],
        out: &mut impl Extend<&'a [u8]>,
    ) -> usize {
        let mut total = 0;
        let mut run: Option<Run> = None;
        let mut at = 0;
        for segment in segments {
            let header = at..at + usize::from(segment.header_len);
            at = header.end;
            let next = match self.cell(segment) {
                Some((index, cell)) => Run { piece: Some(index), range: cell },
                None => Run { piece: None, range: header },
            };
            let whole = next.piece.is_some();
            total += next.range.len();
            run = Some(match run {
                Some(run) if run.piece == next.piece && run.range.end == next.range.start => {
                    Run { range: run.range.start..next.range.end, ..run }
                }
                held => {
                    self.emit(headers, held, out);
                    next
                }
            });
            if !whole && segment.payload_len > 0 {
                self.emit(headers, run.take(), out);
                total += self.gather(segment.payload(), out);
            }
        }
        self.emit(headers, run, out);
        total
    }

    fn emit<'a>(&'a self, headers: &'a [u8], run: Option<Run>, out: &mut impl Extend<&'a [u8]>) {
        let Some(Run { piece, range }) = run else { return };
        let memory = match piece {
            Some(index) => self.pieces.get(index).map_or(&[][..], |piece| piece.cells()),
            None => headers,
        };
        out.extend(memory.get(range));
    }

    /// The cell that a segment fits into, header and all, and its piece.
    fn cell(&self, segment: &SegmentRef) -> Option<(usize, Range<usize>)> {
        let payload = segment.payload();
        if payload.is_empty() || payload.start < self.start || payload.end > self.end {
            return None;
        }
        let index = self.find(payload.start);
        let cell = self.pieces.get(index)?.cell(
            segment.payload_start,
            segment.header_len.into(),
            segment.payload_len.into(),
        )?;
        self.cursor.set(self.dropped + index as u64);
        Some((index, cell))
    }
}

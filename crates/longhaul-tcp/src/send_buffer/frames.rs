//! Serialisation of segments: headers and payload in as few slices as the layout of the data permits.

use std::ops::Range;

use super::SendBuffer;
use crate::batch::SegmentRef;

/// Consecutive segments in consecutive cells of one piece, which are sent as one slice.
struct Run {
    /// Number of segments.
    segments: usize,
    piece: usize,
    /// Position in the block, from the first header on.
    range: Range<usize>,
    /// Distance between two headers.
    stride: usize,
}

impl SendBuffer {
    /// Writes headers into the gaps reserved for them, as far as there are any. `headers` contains the headers of all
    /// `segments`, one after the other.
    pub(crate) fn lay_headers(&mut self, mut headers: &[u8], mut segments: &[SegmentRef]) {
        while let Some(first) = segments.first() {
            let len = usize::from(first.header_len);
            let run = self.run(segments);
            let (count, piece) = run.as_ref().map_or((1, None), |run| (run.segments, self.pieces.get_mut(run.piece)));
            let Some((laid, later)) = headers.split_at_checked(count * len) else { return };
            if let (Some(run), Some(piece)) = (run, piece) {
                let cells = piece.cells_mut()[run.range].chunks_mut(run.stride);
                for (cell, header) in cells.zip(laid.chunks_exact(len)) {
                    cell[..len].copy_from_slice(header);
                }
            }
            headers = later;
            segments = &segments[count..];
        }
    }

    /// Appends the slices of `segments` to `out`; their headers must have been [laid out](Self::lay_headers). Returns
    /// the total length, without data that was acknowledged in the meantime.
    pub(crate) fn frames<'a>(
        &'a self,
        mut headers: &'a [u8],
        mut segments: &[SegmentRef],
        out: &mut impl Extend<&'a [u8]>,
    ) -> usize {
        let mut total = 0;
        while let Some(first) = segments.first() {
            let len = usize::from(first.header_len);
            let run = self.run(segments);
            let count = run.as_ref().map_or(1, |run| run.segments);
            let Some((header, later)) = headers.split_at_checked(count * len) else { break };
            match run.and_then(|run| self.pieces.get(run.piece)?.cells().get(run.range)) {
                Some(cells) => {
                    out.extend([cells]);
                    total += cells.len();
                }
                None => {
                    out.extend([header]);
                    total += len + self.gather(first.payload(), out);
                }
            }
            headers = later;
            segments = &segments[count..];
        }
        total
    }

    /// Returns the longest run of `segments`, from the first on, that lie in consecutive cells; `None` if the first
    /// is in no cell.
    fn run(&self, segments: &[SegmentRef]) -> Option<Run> {
        let (first, rest) = segments.split_first()?;
        let start = first.payload_start;
        if first.payload_len == 0 || start < self.start || first.payload().end > self.end {
            return None;
        }
        let index = self.find(start);
        let piece = self.pieces.get(index)?;
        let (layout, mut range) = piece.cell(start, first.header_len.into(), first.payload_len.into())?;
        self.cursor.set(self.dropped + index as u64);
        let (mut segments, mut last) = (1, first);
        for next in rest {
            let follows = last.payload_len == layout.payload
                && next.header_len == first.header_len
                && next.payload_start == last.payload().end
                && (1..=layout.payload).contains(&next.payload_len)
                && next.payload().end <= piece.end();
            if !follows {
                break;
            }
            range.end += usize::from(next.header_len) + usize::from(next.payload_len);
            segments += 1;
            last = next;
        }
        Some(Run { segments, piece: index, range, stride: layout.stride() })
    }
}

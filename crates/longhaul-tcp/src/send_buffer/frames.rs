//! Serialisation of segments: headers and payload in as few slices as the layout of the data permits.

use std::ops::Range;

use super::SendBuffer;
use crate::batch::SegmentRef;

/// Consecutive segments whose data lies in one piece.
struct Run {
    /// Number of segments.
    segments: usize,
    piece: usize,
    cells: Option<CellRun>,
}

/// Consecutive cells, which are sent as one slice.
struct CellRun {
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
            let count = run.as_ref().map_or(1, |run| run.segments);
            let Some((laid, later)) = headers.split_at_checked(count * len) else { return };
            if let Some(Run { piece, cells: Some(cells), .. }) = run
                && let Some(piece) = self.pieces.get_mut(piece)
            {
                let cells = piece.cells_mut()[cells.range].chunks_mut(cells.stride);
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
            let Some((own, later)) = headers.split_at_checked(count * len) else { break };
            total += match run {
                Some(run) => self.frames_of(&run, own, &segments[..count], out),
                None => {
                    out.extend([own]);
                    len + self.gather(first.payload(), out)
                }
            };
            headers = later;
            segments = &segments[count..];
        }
        total
    }

    /// Does the same for the segments of a run.
    fn frames_of<'a>(
        &'a self,
        run: &Run,
        headers: &'a [u8],
        segments: &[SegmentRef],
        out: &mut impl Extend<&'a [u8]>,
    ) -> usize {
        let (Some(piece), Some(first)) = (self.pieces.get(run.piece), segments.first()) else { return 0 };
        if let Some(cells) = run.cells.as_ref().and_then(|cells| piece.cells().get(cells.range.clone())) {
            out.extend([cells]);
            return cells.len();
        }
        let (mut data, mut total) = (piece.contiguous(first.payload_start), 0);
        for (segment, header) in segments.iter().zip(headers.chunks_exact(first.header_len.into())) {
            let Some((payload, later)) = data.split_at_checked(segment.payload_len.into()) else { break };
            out.extend([header, payload]);
            total += header.len() + payload.len();
            data = later;
        }
        total
    }

    /// Returns the longest run of `segments`, from the first on, that lie in consecutive cells, or in one piece without
    /// cells. `None` if the first one does not.
    fn run(&self, segments: &[SegmentRef]) -> Option<Run> {
        let (first, rest) = segments.split_first()?;
        let start = first.payload_start;
        if first.payload_len == 0 || start < self.start || first.payload().end > self.end {
            return None;
        }
        let index = self.find(start);
        let piece = self.pieces.get(index)?;
        let cell = piece.cell(start, first.header_len.into(), first.payload_len.into());
        if cell.is_none() && (piece.is_laid() || first.payload().end > piece.end()) {
            return None;
        }
        self.cursor.set(self.dropped + index as u64);
        let (mut segments, mut last, mut len) = (1, first, 0);
        for next in rest {
            let fits = cell.as_ref().is_none_or(|(layout, _)| {
                last.payload_len == layout.payload && (1..=layout.payload).contains(&next.payload_len)
            });
            let follows = fits
                && next.header_len == first.header_len
                && next.payload_start == last.payload().end
                && next.payload().end <= piece.end();
            if !follows {
                break;
            }
            len += usize::from(next.header_len) + usize::from(next.payload_len);
            segments += 1;
            last = next;
        }
        let cells =
            cell.map(|(layout, range)| CellRun { range: range.start..range.end + len, stride: layout.stride() });
        Some(Run { segments, piece: index, cells })
    }
}

//! Segments as they leave: headers and payload in as few slices as the layout of the data allows.

use std::ops::Range;

use super::SendBuffer;
use crate::connection::SegmentRef;

/// Consecutive segments that lie in consecutive cells of one piece: they leave as one slice.
struct Run {
    /// How many segments.
    segments: usize,
    piece: usize,
    /// From the first header on.
    range: Range<usize>,
    /// From one header to the next.
    stride: usize,
}

impl SendBuffer {
    /// Writes headers into the room that was left for them, as far as there is room. `headers` are those of all
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

    /// Adds the slices that make up `segments`, whose headers were [laid](Self::lay_headers), to `out`. Gives how many
    /// bytes they have: what was acknowledged since is left out.
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

    /// How many of `segments`, from the first on, lie in cells one after the other; `None` if the first does not.
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

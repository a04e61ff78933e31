//! Serialisation of segments: headers and payload in as few slices as the layout of the data permits.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::SendBuffer;
use crate::SegmentRef;
use crate::batch::MAX_BATCH_SEGMENTS;

/// Consecutive segments whose data lies in one piece, or a single segment whose data does not.
struct Stretch<'a, 'b> {
    headers: &'a [u8],
    segments: &'b [SegmentRef],
    location: Option<Location>,
}

struct Location {
    piece: usize,
    cells: Option<CellRun>,
}

/// Consecutive cells, which are sent as one slice.
struct CellRun {
    /// Range in the block, starting at the first header.
    range: Range<usize>,
    /// Distance between two headers.
    stride: usize,
}

impl SendBuffer {
    /// Appends the slices of a batch's `segments` to `out`, after their headers have been written into the gaps
    /// reserved for them, as far as they exist. `headers` contains all headers in order. Returns the total length,
    /// without data that was acknowledged in the meantime.
    pub(crate) fn frames<'a>(
        &'a mut self,
        headers: &'a [u8],
        segments: &[SegmentRef],
        out: &mut impl Extend<&'a [u8]>,
    ) -> usize {
        let mut stretches = ArrayVec::<Stretch<'_, '_>, MAX_BATCH_SEGMENTS>::new();
        let (mut headers, mut segments) = (headers, segments);
        while let Some(stretch) = self.stretch(headers, segments) {
            headers = headers.get(stretch.headers.len()..).unwrap_or_default();
            segments = segments.get(stretch.segments.len()..).unwrap_or_default();
            self.lay_headers(&stretch);
            if stretches.try_push(stretch).is_err() {
                break;
            }
        }
        stretches.iter().map(|stretch| self.frames_of(stretch, out)).sum()
    }

    /// Writes the headers of a stretch into its gaps.
    fn lay_headers(&mut self, stretch: &Stretch<'_, '_>) {
        if let Some(Location { piece, cells: Some(cells) }) = &stretch.location
            && let (Some(piece), Some(first)) = (self.pieces.get_mut(*piece), stretch.segments.first())
        {
            let len = usize::from(first.header_len);
            let cells = piece.cells_mut()[cells.range.clone()].chunks_mut(cells.stride);
            for (cell, header) in cells.zip(stretch.headers.chunks_exact(len)) {
                cell[..len].copy_from_slice(header);
            }
        }
    }

    /// Appends the slices of the segments of a stretch, and returns their length.
    fn frames_of<'a>(&'a self, stretch: &Stretch<'a, '_>, out: &mut impl Extend<&'a [u8]>) -> usize {
        let Stretch { headers, segments, location } = stretch;
        let Some(first) = segments.first() else { return 0 };
        let Some(location) = location else {
            out.extend([*headers]);
            return headers.len() + self.gather(first.payload(), out);
        };
        let Some(piece) = self.pieces.get(location.piece) else { return 0 };
        if let Some(cells) = location.cells.as_ref().and_then(|cells| piece.cells().get(cells.range.clone())) {
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

    /// Returns the longest stretch of `segments`, from the first on, that lie in consecutive cells, or in one piece
    /// without cells, or else the first one alone.
    fn stretch<'a, 'b>(&self, headers: &'a [u8], segments: &'b [SegmentRef]) -> Option<Stretch<'a, 'b>> {
        let (first, rest) = segments.split_first()?;
        let (count, location) = self.locate(first, rest).map_or((1, None), |(count, location)| (count, Some(location)));
        let headers = headers.get(..count * usize::from(first.header_len))?;
        Some(Stretch { headers, segments: segments.get(..count)?, location })
    }

    /// Returns the number of segments, and the position of their data.
    fn locate(&self, first: &SegmentRef, rest: &[SegmentRef]) -> Option<(usize, Location)> {
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
        Some((segments, Location { piece: index, cells }))
    }
}

//! Serialisation of segments: headers and payload in as few slices as the layout of the data permits.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::SendBuffer;
use crate::SegmentRef;
use crate::batch::MAX_BATCH_SEGMENTS;

/// Consecutive segments whose data lies in one piece, or a single segment whose data does not.
struct Stretch {
    /// Number of segments.
    segments: usize,
    location: Option<Location>,
}

struct Location {
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
    /// Appends the slices of a batch's `segments` to `out`, after their headers have been written into the gaps reserved for
    /// them, as far as there are any. `headers` contains all headers, one after the other. Returns the total length, without
    /// data that was acknowledged in the meantime.
    pub(crate) fn frames<'a>(
        &'a mut self,
        headers: &'a [u8],
        segments: &[SegmentRef],
        out: &mut impl Extend<&'a [u8]>,
    ) -> usize {
        let mut stretches = ArrayVec::<Stretch, MAX_BATCH_SEGMENTS>::new();
        let mut rest = (headers, segments);
        while let Some(stretch) = self.stretch(rest.1) {
            rest = self.lay_headers(&stretch, rest);
            if stretches.try_push(stretch).is_err() {
                break;
            }
        }
        let (mut rest, mut total) = ((headers, segments), 0);
        for stretch in &stretches {
            let Some((own, all, later)) = split(stretch, rest) else { break };
            total += match &stretch.location {
                Some(location) => self.frames_of(location, own, all, out),
                None => {
                    out.extend([own]);
                    own.len() + all.first().map_or(0, |segment| self.gather(segment.payload(), out))
                }
            };
            rest = later;
        }
        total
    }

    /// Writes the headers of a stretch into its gaps. Returns the headers and segments after it.
    fn lay_headers<'a, 'b>(&mut self, stretch: &Stretch, rest: Parts<'a, 'b>) -> Parts<'a, 'b> {
        let Some((own, all, later)) = split(stretch, rest) else { return (&[], &[]) };
        if let Some(Location { piece, cells: Some(cells) }) = &stretch.location
            && let (Some(piece), Some(first)) = (self.pieces.get_mut(*piece), all.first())
        {
            let len = usize::from(first.header_len);
            let cells = piece.cells_mut()[cells.range.clone()].chunks_mut(cells.stride);
            for (cell, header) in cells.zip(own.chunks_exact(len)) {
                cell[..len].copy_from_slice(header);
            }
        }
        later
    }

    /// Appends the slices of the segments of a stretch, and returns their length.
    fn frames_of<'a>(
        &'a self,
        location: &Location,
        headers: &'a [u8],
        segments: &[SegmentRef],
        out: &mut impl Extend<&'a [u8]>,
    ) -> usize {
        let (Some(piece), Some(first)) = (self.pieces.get(location.piece), segments.first()) else { return 0 };
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

    /// Returns the longest stretch of `segments`, from the first on, that lie in consecutive cells, or in one piece without
    /// cells; or the first one alone.
    fn stretch(&self, segments: &[SegmentRef]) -> Option<Stretch> {
        let (first, rest) = segments.split_first()?;
        Some(self.stretch_from(first, rest).unwrap_or(Stretch { segments: 1, location: None }))
    }

    fn stretch_from(&self, first: &SegmentRef, rest: &[SegmentRef]) -> Option<Stretch> {
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
        Some(Stretch { segments, location: Some(Location { piece: index, cells }) })
    }
}

/// Headers and segments.
type Parts<'a, 'b> = (&'a [u8], &'b [SegmentRef]);

/// Splits off the headers and segments of a stretch.
fn split<'a, 'b>(
    stretch: &Stretch,
    (headers, segments): Parts<'a, 'b>,
) -> Option<(&'a [u8], &'b [SegmentRef], Parts<'a, 'b>)> {
    let len = usize::from(segments.first()?.header_len);
    let (own, headers) = headers.split_at_checked(stretch.segments * len)?;
    let (all, segments) = segments.split_at_checked(stretch.segments)?;
    Some((own, all, (headers, segments)))
}

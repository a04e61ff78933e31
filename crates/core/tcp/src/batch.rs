//! Batches of equally sized segments for one `sendmsg` with GSO.

use std::ops::Range;

use longhaul_units::Bytes;
use longhaul_wire::{CheshireCodec, Codec, Ecn, Header};

/// UDP payload in bytes that one `sendmsg` may carry with segmentation offload.
const MAX_BATCH_BYTES: usize = 65_507;
/// Number of segments per `sendmsg` (Linux: UDP_MAX_SEGMENTS, which is 64 on older kernels).
pub(crate) const MAX_BATCH_SEGMENTS: usize = 64;

/// Segments sent together: same destination, ECN codepoint and DSCP, and one size except for a shorter last segment.
///
/// Headers are in [`headers`](Self::headers). The payload stays in the connection's send buffer and is read through
/// [`Status::payload`](crate::Status::payload). A batch that is reused does not allocate once it has grown.
#[derive(Clone, Default)]
pub struct Batch {
    /// The headers of all segments, concatenated.
    pub headers: Vec<u8>,
    /// The segments, in order.
    pub segments: Vec<SegmentRef>,
    /// UDP payload in bytes of every segment but the last, which may be shorter.
    pub segment_size: usize,
    /// The ECN codepoint of all segments.
    pub ecn: Ecn,
    /// The DiffServ codepoint (DSCP) of all segments.
    pub dscp: u8,
    /// Total UDP payload of all segments in bytes.
    pub len: usize,
}

/// One segment of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// Bytes of header in [`Batch::headers`].
    pub header_len: u8,
    /// Payload bytes.
    pub payload_len: u16,
    /// Stream offset of the first payload byte.
    pub payload_start: u64,
}

impl SegmentRef {
    /// Returns the stream offsets of the payload.
    #[must_use]
    pub fn payload(&self) -> Range<u64> {
        self.payload_start..self.payload_start + u64::from(self.payload_len)
    }
}

impl Batch {
    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.segments.clear();
        (self.segment_size, self.len, self.dscp) = (0, 0, 0);
        self.ecn = Ecn::NotEct;
    }

    /// Returns whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn payload_len(&self) -> Bytes {
        Bytes(self.len.saturating_sub(self.headers.len()) as u64)
    }

    /// Iterates over the segments with their encoded headers.
    pub fn parts(&self) -> impl Iterator<Item = (&SegmentRef, &[u8])> {
        let mut headers = self.headers.as_slice();
        self.segments.iter().map(move |segment| {
            let (header, rest) = headers.split_at(usize::from(segment.header_len).min(headers.len()));
            headers = rest;
            (segment, header)
        })
    }

    /// Returns whether a segment of `size` bytes of UDP payload may be added.
    pub(crate) fn admits(&self, size: usize, max_segments: usize) -> bool {
        let Some(last) = self.segments.last() else { return true };
        let last = usize::from(last.header_len) + usize::from(last.payload_len);
        last == self.segment_size
            && size <= self.segment_size
            && self.segments.len() < max_segments.min(MAX_BATCH_SEGMENTS)
            && self.len + size <= MAX_BATCH_BYTES
    }

    /// Returns how many more segments of `size` bytes of UDP payload may be added after one of this size.
    pub(crate) fn room_for(&self, size: usize, max_segments: usize) -> u64 {
        if size != self.segment_size {
            return 0;
        }
        let segments = max_segments.min(MAX_BATCH_SEGMENTS).saturating_sub(self.segments.len());
        segments.min((MAX_BATCH_BYTES.saturating_sub(self.len)) / size.max(1)) as u64
    }

    pub(crate) fn push(&mut self, header: &Header, payload_start: u64, payload_len: u16) {
        let at = self.headers.len();
        self.headers.resize(at + 60, 0);
        let room = self.headers.get_mut(at..).unwrap_or_default();
        // 60 bytes hold any header: 12 bytes of fixed fields and up to 40 bytes of options.
        let len = CheshireCodec::emit(header, room).unwrap_or(0);
        self.headers.truncate(at + len);
        let size = len + usize::from(payload_len);
        if self.segments.is_empty() {
            self.segment_size = size;
        }
        self.len += size;
        self.segments.push(SegmentRef { header_len: len as u8, payload_len, payload_start });
    }

    /// Adds `count` segments of `payload` bytes each, whose headers differ from the last one only in the sequence numbers,
    /// which begin with `sequence`.
    pub(crate) fn push_like_last(&mut self, sequence: u32, start: u64, payload: u16, count: usize) {
        let Some(last) = self.segments.last().filter(|_| count > 0) else { return };
        let (header_len, len) = (last.header_len, usize::from(last.header_len));
        let at = self.headers.len();
        let (from, end) = (at - len, at + count * len);
        while self.headers.len() < end {
            let copied = (self.headers.len() - from).min(end - self.headers.len());
            self.headers.extend_from_within(from..from + copied);
        }
        let mut next = sequence;
        for header in self.headers.get_mut(at..).unwrap_or_default().chunks_exact_mut(len.max(1)) {
            if let Some(field) = header.get_mut(4..8) {
                field.copy_from_slice(&next.to_be_bytes());
            }
            next = next.wrapping_add(payload.into());
        }
        let starts = (0..count as u64).map(|number| start + number * u64::from(payload));
        self.segments.extend(starts.map(|payload_start| SegmentRef {
            header_len,
            payload_len: payload,
            payload_start,
        }));
        self.len += count * (len + usize::from(payload));
    }
}

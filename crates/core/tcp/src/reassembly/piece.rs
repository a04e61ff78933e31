//! Pieces of in-order data.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use bytes::{Buf, Bytes};

/// A contiguous part of the stream: the payload of a segment, or of several segments in place in a receive buffer, with
/// the headers of all but the first between them.
#[derive(Clone, Debug)]
pub(super) struct StreamPart {
    bytes: Bytes,
    /// Remaining bytes of the first payload; `u32::MAX` for a single payload, which ends with `bytes`.
    first: u32,
    /// Bytes of each further payload, and of the header before it. Zero if there is none.
    payload: u16,
    header: u16,
}

impl StreamPart {
    /// Creates a train: `bytes` begins with the first payload. Each payload has `payload` bytes, and each one after the
    /// first follows a header of `header` bytes.
    pub(super) fn train(bytes: Bytes, payload: u16, header: u16) -> Self {
        Self { bytes, first: payload.into(), payload, header }
    }

    /// Returns the next bytes, up to the end of a payload.
    pub(super) fn front(&self) -> &[u8] {
        self.bytes.get(..self.first as usize).unwrap_or(&self.bytes)
    }

    pub(super) fn share_front(&self) -> Bytes {
        self.bytes.slice(..self.front().len())
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (front, rest) = self.bytes.split_at(self.front().len());
        let (header, payload) = (usize::from(self.header), usize::from(self.payload));
        let others = rest.chunks(header.saturating_add(payload).max(1));
        std::iter::once(front).chain(others.map(move |other| other.get(header..).unwrap_or_default()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn advance(&mut self, max: usize) -> usize {
        let count = max.min(self.front().len());
        let header = self.skipped(count);
        self.bytes.advance(self.bytes.len().min(count.saturating_add(header)));
        count
    }

    pub(super) fn take(&mut self, max: usize) -> Bytes {
        let count = max.min(self.front().len());
        if count == self.bytes.len() {
            return std::mem::take(&mut self.bytes);
        }
        let taken = self.bytes.split_to(count);
        let header = self.skipped(count);
        self.bytes.advance(header.min(self.bytes.len()));
        taken
    }

    pub(super) fn len(&self) -> usize {
        let first = self.front().len();
        let (header, payload) = (usize::from(self.header), usize::from(self.payload));
        let rest = self.bytes.len().saturating_sub(first);
        let segment = header.saturating_add(payload).max(1);
        let (whole, part) = (rest.checked_div(segment).unwrap_or(0), rest.checked_rem(segment).unwrap_or(0));
        whole.saturating_mul(payload).saturating_add(part.saturating_sub(header)).saturating_add(first)
    }

    /// Takes the first `count` bytes, which may span several payloads. The piece must contain more than that.
    pub(super) fn split_to(&mut self, count: usize) -> Self {
        let first = self.front().len();
        let Some(more) = count.checked_sub(first).filter(|more| *more > 0) else {
            return self.take(count).into();
        };
        // The cut lies in one of the payloads after the first, or at its end.
        let (header, payload) = (usize::from(self.header), usize::from(self.payload).max(1));
        let headers = more.div_ceil(payload).saturating_mul(header);
        let taken = Self { bytes: self.bytes.split_to(count.saturating_add(headers)), ..*self };
        self.first = self.payload.into();
        match more.checked_rem(payload).unwrap_or(0) {
            0 => self.bytes.advance(header),
            part => self.first = self.first.saturating_sub(part as u32),
        }
        taken
    }

    /// Records that `count` bytes of the first payload have been read. If this is the whole payload, returns the length
    /// of the header before the next one.
    fn skipped(&mut self, count: usize) -> usize {
        self.first = self.first.saturating_sub(count as u32);
        if self.first > 0 {
            return 0;
        }
        self.first = self.payload.into();
        self.header.into()
    }
}

impl From<Bytes> for StreamPart {
    fn from(bytes: Bytes) -> Self {
        Self { first: u32::MAX, bytes, payload: 0, header: 0 }
    }
}

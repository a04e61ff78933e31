//! Pieces of in-order data.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

use bytes::{Buf, Bytes};

/// A contiguous part of the stream: the payload of a segment, or of several segments as they lie in a receive buffer, with
/// the headers of all but the first between them.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    /// Bytes left of the first payload; `u32::MAX` for a single payload, which ends with `bytes`.
    first: u32,
    /// Bytes of each further payload, and of the header before it. Zero if there is none.
    payload: u16,
    header: u16,
}

impl Piece {
    /// A train: `bytes` begins with the first payload. Each payload has `payload` bytes, and each other one comes after a
    /// header of `header` bytes.
    pub(super) fn train(bytes: Bytes, payload: u16, header: u16) -> Self {
        Self { bytes, first: payload.into(), payload, header }
    }

    /// Returns the next bytes, up to the end of a payload.
    pub(super) fn front(&self) -> &[u8] {
        self.bytes.get(..self.first as usize).unwrap_or(&self.bytes)
    }

    /// Returns the next bytes, up to the end of a payload, without a copy.
    pub(super) fn share_front(&self) -> Bytes {
        self.bytes.slice(..self.front().len())
    }

    /// Returns all payloads.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (front, rest) = self.bytes.split_at(self.front().len());
        let (header, payload) = (usize::from(self.header), usize::from(self.payload));
        let others = rest.chunks(header.saturating_add(payload).max(1));
        std::iter::once(front).chain(others.map(move |other| other.get(header..).unwrap_or_default()))
    }

    /// Returns whether all bytes have been read.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Skips `count` bytes of the [`front`](Self::front).
    pub(super) fn advance(&mut self, count: usize) {
        let count = count.min(self.front().len());
        self.bytes.advance(count);
        self.skipped(count);
    }

    /// Takes at most `max` bytes of the [`front`](Self::front).
    pub(super) fn take(&mut self, max: usize) -> Bytes {
        let count = max.min(self.front().len());
        if count == self.bytes.len() {
            return std::mem::take(&mut self.bytes);
        }
        let taken = self.bytes.split_to(count);
        self.skipped(count);
        taken
    }

    /// Takes payloads from the front on, one for each place in `out`. Returns how many, and their length in bytes.
    pub(super) fn take_payloads(&mut self, out: &mut [Bytes]) -> (usize, usize) {
        let (mut at, mut end, mut len) = (0_usize, self.first as usize, 0_usize);
        for (taken, place) in out.iter_mut().enumerate() {
            if end >= self.bytes.len() {
                *place = std::mem::take(&mut self.bytes);
                place.advance(at.min(place.len()));
                return (taken.saturating_add(1), len.saturating_add(place.len()));
            }
            *place = self.bytes.slice(at..end);
            len = len.saturating_add(place.len());
            at = end.saturating_add(self.header.into());
            end = at.saturating_add(self.payload.into());
        }
        self.bytes.advance(at.min(self.bytes.len()));
        self.first = end.saturating_sub(at) as u32;
        (out.len(), len)
    }

    /// Goes to the next payload if the first one has been read.
    fn skipped(&mut self, count: usize) {
        self.first = self.first.saturating_sub(count as u32);
        if self.first == 0 {
            self.bytes.advance(self.bytes.len().min(usize::from(self.header)));
            self.first = self.payload.into();
        }
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Self { first: u32::MAX, bytes, payload: 0, header: 0 }
    }
}

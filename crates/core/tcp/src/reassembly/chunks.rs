//! Data that the application has read without a copy.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::piece::StreamPart;

/// Data that the application has read without a copy, in order, as it lies in the receive buffers.
///
/// The chunks of this [`Buf`] are the payloads of segments, or parts of them; payloads shorter than 512 bytes are
/// joined. [`copy_to_bytes`](Buf::copy_to_bytes) takes data without a copy if it lies within the first chunk.
///
/// The data has left the connection: the receive window opens again, and no memory limit applies. As long as any data
/// of a receive buffer is held, its 64 KiB cannot be reused.
#[derive(Clone, Default)]
pub struct Chunks {
    pieces: VecDeque<StreamPart>,
    remaining: usize,
}

impl Chunks {
    /// Drops the data.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.remaining = 0;
    }

    pub(super) fn push(&mut self, piece: StreamPart, len: usize) {
        self.pieces.push_back(piece);
        self.remaining = self.remaining.saturating_add(len);
    }

    fn drop_empty(&mut self) {
        if self.pieces.front().is_some_and(StreamPart::is_empty) {
            self.pieces.pop_front();
        }
    }
}

impl Buf for Chunks {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], StreamPart::front)
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let parts = self.pieces.iter().flat_map(StreamPart::parts);
        out.iter_mut().zip(parts).map(|(place, part)| *place = IoSlice::new(part)).count()
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "advance beyond the end: {count} of {} bytes", self.remaining);
        self.remaining = self.remaining.saturating_sub(count);
        while count > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            count = count.saturating_sub(piece.advance(count));
            self.drop_empty();
        }
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        assert!(len <= self.remaining, "read beyond the end: {len} of {} bytes", self.remaining);
        match self.pieces.front_mut() {
            Some(piece) if len <= piece.front().len() => {
                let taken = piece.take(len);
                self.remaining = self.remaining.saturating_sub(len);
                self.drop_empty();
                taken
            }
            _ => {
                let mut copy = BytesMut::with_capacity(len);
                copy.put(self.take(len));
                copy.freeze()
            }
        }
    }
}

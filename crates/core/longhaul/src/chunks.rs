//! Data that the application has read without a copy.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Data that [`TcpStream::read_chunks`](crate::TcpStream::read_chunks) has read without a copy, in order, as it lies in
/// the receive buffers.
///
/// The chunks of this [`Buf`] are the payloads of segments, or parts of them; payloads shorter than 512 bytes are gathered.
/// [`copy_to_bytes`](Buf::copy_to_bytes) takes data without a copy if it lies within the first chunk.
///
/// The data has left the connection: the receive window opens again, and no limit of memory applies. As long as any data of a
/// receive buffer is held, its 64 KiB cannot be reused.
#[derive(Clone, Debug, Default)]
pub struct Chunks(pub(crate) longhaul_tcp::Chunks);

impl Chunks {
    /// Drops the data.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Buf for Chunks {
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.0.chunk()
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        self.0.chunks_vectored(out)
    }

    fn advance(&mut self, count: usize) {
        self.0.advance(count);
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        self.0.copy_to_bytes(len)
    }
}

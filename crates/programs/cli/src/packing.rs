//! Compression of single chunks (Zstandard, RFC 8878).

use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// Compression level: the fastest of zstd's regular ones, which keeps up with fast links.
const LEVEL: i32 = 1;
/// Maximum number of chunks that are sent uncompressed before compression is tried again.
const MAX_PAUSE: u32 = 64;

/// Compresses chunks if that saves at least a tenth of their length. After an incompressible chunk, compression pauses
/// for 1, 2, 4 chunks and so on, up to [`MAX_PAUSE`]. Chunks of zeros are always compressed.
pub(crate) struct Packer {
    compressor: Compressor<'static>,
    packed: Vec<u8>,
    /// Length of the latest pause, and its remaining length, in chunks.
    pause: u32,
    left: u32,
}

impl Packer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { compressor: Compressor::new(LEVEL)?, packed: Vec::new(), pause: 0, left: 0 })
    }

    /// Returns the compressed chunk if that saves a tenth of its length.
    pub(crate) fn pack(&mut self, chunk: &[u8]) -> Option<&[u8]> {
        if self.left > 0 && !is_zero(chunk) {
            self.left -= 1;
            return None;
        }
        self.packed.clear();
        // A result that does not fit causes an error.
        self.packed.reserve(chunk.len() - chunk.len() / 10);
        if self.compressor.compress_to_buffer(chunk, &mut self.packed).is_ok()
            && self.packed.len() <= chunk.len() - chunk.len() / 10
        {
            self.pause = 0;
            return Some(&self.packed);
        }
        self.pause = (self.pause * 2).clamp(1, MAX_PAUSE);
        self.left = self.pause;
        None
    }
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

pub(crate) struct Unpacker(Decompressor<'static>);

impl Unpacker {
    pub(crate) fn new() -> io::Result<Self> {
        Decompressor::new().map(Self)
    }

    /// Decompresses a chunk and appends it to `contents`. Memory is bounded: the chunk is written there directly, and more
    /// than `room` bytes are an error.
    pub(crate) fn unpack(&mut self, packed: &[u8], contents: &mut Vec<u8>, room: usize) -> io::Result<()> {
        let start = contents.len();
        contents.resize(start + room, 0);
        let unpacked = self.0.decompress_to_buffer(packed, contents.get_mut(start..).unwrap_or_default());
        contents.truncate(start + unpacked.as_ref().copied().unwrap_or(0));
        unpacked.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::MAX_CHUNK;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn chunks_come_back() {
        let (mut packer, mut unpacker) = (Packer::new().unwrap(), Unpacker::new().unwrap());
        for chunk in [vec![7; MAX_CHUNK], b"abc".repeat(1000), vec![0; 64]] {
            let packed = packer.pack(&chunk).unwrap();
            assert!(packed.len() < chunk.len() / 2);
            let mut back = vec![1; 10];
            unpacker.unpack(packed, &mut back, chunk.len()).unwrap();
            assert!(back[10..] == chunk);
        }
        assert_eq!(packer.pack(b""), None);
    }

    #[test]
    fn what_does_not_get_smaller_is_tried_rarely() {
        let mut packer = Packer::new().unwrap();
        let noise = noise(MAX_CHUNK);
        let mut tried = 0;
        for _ in 0..1000 {
            tried += u32::from(packer.left == 0);
            assert_eq!(packer.pack(&noise), None);
        }
        assert!((10..30).contains(&tried), "{tried}");
        // The end of the incompressible chunks is noticed.
        assert!((0..=MAX_PAUSE).any(|_| packer.pack(&[0; 1000]).is_some()));
        assert!(packer.pack(&[0; 1000]).is_some());
    }

    #[test]
    fn bombs_and_garbage_are_refused() {
        let mut unpacker = Unpacker::new().unwrap();
        let mut chunk = Vec::new();
        for len in [MAX_CHUNK + 1, 100 << 20] {
            let bomb = zstd::bulk::compress(&vec![0; len], 19).unwrap();
            assert!(bomb.len() < 20_000 && unpacker.unpack(&bomb, &mut chunk, MAX_CHUNK).is_err());
        }
        let good = zstd::bulk::compress(&vec![5; MAX_CHUNK], 1).unwrap();
        for at in 0..good.len() {
            chunk.clear();
            let _ = unpacker.unpack(&good[..at], &mut chunk, MAX_CHUNK);
            chunk.clear();
            let mut wrong = good.clone();
            wrong[at] ^= 0x55;
            let _ = unpacker.unpack(&wrong, &mut chunk, MAX_CHUNK);
        }
        assert!(unpacker.unpack(&noise(1000), &mut chunk, MAX_CHUNK).is_err());
        assert!(chunk.capacity() <= 2 * MAX_CHUNK);
        chunk.clear();
        unpacker.unpack(&good, &mut chunk, MAX_CHUNK).unwrap();
        assert_eq!(chunk.len(), MAX_CHUNK);
    }
}

//! Verifiable stream contents: bytes that depend on their position.

/// An endless stream of pseudorandom bytes, selected by a key. A byte at a wrong position or from another stream is
/// detected with probability 255/256, and a run of them almost certainly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(u64);

impl Pattern {
    /// Returns the stream of `key`.
    pub const fn new(key: u64) -> Self {
        Self(key)
    }

    /// Returns eight bytes of the stream, computed by the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
    fn word(self, index: u64) -> [u8; 8] {
        let mut z = (self.0.wrapping_mul(0xd134_2543_de82_ef95) ^ index).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    }

    /// Returns the byte at `offset`.
    pub fn byte(self, offset: u64) -> u8 {
        self.word(offset / 8)[(offset % 8) as usize]
    }

    /// Returns how many of the `len` bytes from `offset` on precede the next word boundary.
    fn lead(offset: u64, len: usize) -> usize {
        ((8 - offset % 8) % 8).min(len as u64) as usize
    }

    /// Fills `buffer` with the bytes from `offset` on.
    pub fn fill(self, offset: u64, buffer: &mut [u8]) {
        let lead = Self::lead(offset, buffer.len());
        let (head, body) = buffer.split_at_mut(lead);
        for (at, byte) in (offset..).zip(head) {
            *byte = self.byte(at);
        }
        let words = (offset + lead as u64) / 8;
        for (index, part) in (words..).zip(body.chunks_mut(8)) {
            part.copy_from_slice(&self.word(index)[..part.len()]);
        }
    }

    /// Returns whether `bytes` are the stream's bytes from `offset` on.
    pub fn matches(self, offset: u64, bytes: &[u8]) -> bool {
        let (head, body) = bytes.split_at(Self::lead(offset, bytes.len()));
        let words = (offset + head.len() as u64) / 8;
        (offset..).zip(head).all(|(at, byte)| *byte == self.byte(at))
            && (words..).zip(body.chunks(8)).all(|(index, part)| *part == self.word(index)[..part.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_shift_and_any_other_key_show() {
        let mut bytes = [0; 64];
        Pattern::new(1).fill(100, &mut bytes);
        assert!(Pattern::new(1).matches(100, &bytes));
        assert!((0..200).filter(|at| *at != 100).all(|at| !Pattern::new(1).matches(at, &bytes)));
        assert!((2..100).all(|key| !Pattern::new(key).matches(100, &bytes)));
    }

    #[test]
    fn a_fill_is_its_bytes_wherever_it_begins_and_ends() {
        for (offset, len) in (0..20).flat_map(|offset| (0..30).map(move |len| (offset, len))) {
            let mut bytes = vec![0; len];
            Pattern::new(3).fill(offset, &mut bytes);
            assert!((offset..).zip(&bytes).all(|(at, byte)| *byte == Pattern::new(3).byte(at)));
            assert!(Pattern::new(3).matches(offset, &bytes));
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
                assert!(!Pattern::new(3).matches(offset, &bytes));
            }
        }
    }
}

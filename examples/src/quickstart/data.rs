//! The data that is sent: each byte follows from its position, so that the receiver can check it.

/// Fills `block` with the data from position `at` on.
pub(super) fn fill(at: u64, block: &mut [u8]) {
    for (position, byte) in (at..).zip(block) {
        *byte = byte_at(position);
    }
}

/// Returns whether `block` is the data from position `at` on.
pub(super) fn is_right(at: u64, block: &[u8]) -> bool {
    (at..).zip(block).all(|(position, byte)| *byte == byte_at(position))
}

/// A multiplicative hash, so that a block in the wrong place differs from the right one.
fn byte_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displaced_block_and_a_changed_byte_are_found() {
        let mut block = [0; 1000];
        fill(77, &mut block);
        assert!(is_right(77, &block));
        assert!((0..77).chain(78..100_000).all(|at| !is_right(at, &block)));
        block[999] ^= 1;
        assert!(!is_right(77, &block));
    }
}

//! Data of the transfers: each byte is a function of its position, so that the receiver can check it.

pub(super) fn fill(at: u64, block: &mut [u8]) {
    for (position, byte) in (at..).zip(block) {
        *byte = byte_at(position);
    }
}

pub(super) fn is_right(at: u64, block: &[u8]) -> bool {
    (at..).zip(block).all(|(position, byte)| *byte == byte_at(position))
}

/// Returns the byte at `position`, a multiplicative hash, so that a block at a wrong position differs from the right
/// one.
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

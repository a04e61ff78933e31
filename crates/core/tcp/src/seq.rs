//! Conversion between 32-bit sequence numbers and 64-bit stream offsets.
//!
//! The SYN has offset 0, the first byte of data offset 1, and the FIN the offset after the last byte. Only this
//! module handles the wrap-around of sequence numbers (RFC 9293, section 3.4).
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) const fn to_wire(isn: u32, offset: u64) -> u32 {
    // Truncation is intended: sequence numbers are offsets modulo 2^32.
    isn.wrapping_add(offset as u32)
}

/// Returns the offset nearest to `near` that has the sequence number `seq`; it is negative if it lies before the
/// SYN.
pub(crate) const fn to_offset(isn: u32, seq: u32, near: u64) -> i64 {
    let distance = seq.wrapping_sub(to_wire(isn, near)).cast_signed();
    (near.cast_signed()).wrapping_add(distance as i64)
}

/// Returns whether `a` is later than `b` in 32-bit serial number arithmetic (for timestamps: RFC 7323, section
/// 5.2).
pub(crate) const fn later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wraps_at_the_top_of_the_space() {
        assert_eq!(to_wire(u32::MAX, 2), 1);
        assert_eq!(to_offset(u32::MAX, 1, 0), 2);
        assert_eq!(to_offset(0, u32::MAX, 0), -1);
        assert!(later(5, u32::MAX) && !later(u32::MAX, 5) && !later(7, 7));
    }

    proptest! {
        #[test]
        fn round_trips_within_half_the_space(isn: u32, near in 0u64..1 << 50, d in -(1i64 << 31)..(1 << 31)) {
            let offset = near as i64 + d;
            prop_assume!(offset >= 0);
            prop_assert_eq!(to_offset(isn, to_wire(isn, offset as u64), near), offset);
        }
    }
}

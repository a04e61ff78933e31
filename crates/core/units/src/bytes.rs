//! Byte counts.

use core::fmt;
use core::iter::Sum;
use core::ops::Add;

use crate::operators::{display_as_debug, saturating_operators};

/// Number of bytes: a window, data in flight or a length.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// The largest count, which stands for "unlimited".
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the count as a floating-point number, for algorithms with fractional windows.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// Rounds `value` down to a count. Negative values and NaN give zero; values out of range give the maximum.
    #[must_use]
    pub fn from_f64(value: f64) -> Self {
        Self(value as u64)
    }

    /// Returns the count multiplied by `factor`, rounded down.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self::from_f64(self.as_f64() * factor)
    }

    /// Returns the (fractional) number of segments of `mss` bytes. An `mss` of zero counts as one byte.
    #[must_use]
    pub fn segments(self, mss: Self) -> f64 {
        self.as_f64() / mss.0.max(1) as f64
    }
}

saturating_operators!(Bytes, Bytes, |bytes: Bytes| bytes.0);
display_as_debug!(Bytes);

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl From<usize> for Bytes {
    fn from(value: usize) -> Self {
        Self(value as u64)
    }
}

impl From<u32> for Bytes {
    fn from(value: u32) -> Self {
        Self(u64::from(value))
    }
}

impl From<u16> for Bytes {
    fn from(value: u16) -> Self {
        Self(u64::from(value))
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Bytes(1) - Bytes(2), Bytes::ZERO);
        assert_eq!(Bytes::MAX + Bytes(1), Bytes::MAX);
        assert_eq!(Bytes(1) / 0, Bytes::MAX);
        assert_eq!(Bytes::from_f64(-3.5), Bytes::ZERO);
        assert_eq!(Bytes(14_480).segments(Bytes(1448)), 10.0);
    }
}

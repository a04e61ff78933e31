//! Byte counts.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A number of bytes: a window, data in flight, a length.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// More than any window: "unlimited".
    pub const MAX: Self = Self(u64::MAX);

    /// The count as a float, for algorithms whose windows have fractions.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The nearest count to `value` from below; negative values and NaN give zero, overflow the maximum.
    #[must_use]
    pub fn from_f64(value: f64) -> Self {
        Self(value as u64)
    }

    /// The count times `factor`, rounded down.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self::from_f64(self.as_f64() * factor)
    }

    /// How many segments of `mss` bytes this is, as a fraction; zero `mss` counts as one byte.
    #[must_use]
    pub fn segments(self, mss: Self) -> f64 {
        self.as_f64() / mss.0.max(1) as f64
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, rhs: Self) {
        *self = *self - rhs;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

/// Division by zero gives [`Bytes::MAX`].
impl Div<u64> for Bytes {
    type Output = Self;
    fn div(self, rhs: u64) -> Self {
        self.0.checked_div(rhs).map_or(Self::MAX, Self)
    }
}

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

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
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

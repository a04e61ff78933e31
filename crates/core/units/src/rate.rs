//! Transmission rates.

use core::fmt;

use crate::operators::display_as_debug;
use crate::{Bytes, Span};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Transmission rate in bytes per second.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Zero bytes per second.
    pub const ZERO: Self = Self(0);
    /// The largest rate, which stands for "unlimited".
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a rate of `bytes` bytes per second.
    #[must_use]
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Creates a rate of `bits` bits per second, rounded down to whole bytes per second.
    #[must_use]
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// Returns the rate in bytes per second.
    #[must_use]
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0
    }

    /// Returns the rate in bits per second, for display.
    #[must_use]
    pub const fn as_bits_per_sec(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// Returns the rate that transfers `bytes` in `span`. A zero span gives [`Rate::MAX`].
    #[must_use]
    pub fn from_bytes_over(bytes: Bytes, span: Span) -> Self {
        if span.is_zero() {
            return Self::MAX;
        }
        let rate = u128::from(bytes.0) * NANOS_PER_SEC / u128::from(span.as_nanos());
        Self(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Returns the number of bytes transferred in `span` at this rate, rounded down.
    #[must_use]
    pub fn bytes_in(self, span: Span) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.as_nanos()) / NANOS_PER_SEC;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Returns the time to transfer `bytes` at this rate, rounded up to the nanosecond. A rate of zero gives
    /// [`Span::MAX`].
    #[must_use]
    pub fn time_for(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        // 64-bit division is faster, and suffices up to 18 GB, which is more than any burst.
        let nanos = match bytes.0.checked_mul(1_000_000_000) {
            Some(scaled) => scaled.div_ceil(self.0),
            None => {
                let wide = (u128::from(bytes.0) * NANOS_PER_SEC).div_ceil(u128::from(self.0));
                u64::try_from(wide).unwrap_or(u64::MAX)
            }
        };
        Span::from_nanos(nanos)
    }

    /// Returns the rate multiplied by `factor`. Negative factors and NaN give zero; overflow gives the maximum.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }
}

display_as_debug!(Rate);

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.0 as f64 * 8.0 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_of_one_packet_is_exact_to_the_nanosecond() {
        let fast = Rate::from_bits_per_sec(1_000_000_000);
        assert_eq!(fast.time_for(Bytes(1500)), Span::from_micros(12));
        let modem = Rate::from_bits_per_sec(56_000);
        assert_eq!(modem.time_for(Bytes(1)), Span::from_nanos(142_858));
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(Rate::ZERO.time_for(Bytes(1)), Span::MAX);
        assert_eq!(Rate::MAX.bytes_in(Span::MAX), Bytes::MAX);
        assert_eq!(Rate::from_bytes_over(Bytes::MAX, Span::from_nanos(1)), Rate::MAX);
        assert_eq!(Rate::from_bytes_over(Bytes(1), Span::ZERO), Rate::MAX);
        assert_eq!(Rate::from_bytes_per_sec(1).time_for(Bytes::MAX), Span::MAX);
    }
}

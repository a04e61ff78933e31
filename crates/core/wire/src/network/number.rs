//! 32-bit floating-point encodings of 64-bit rates and changes of rates.

use core::fmt;

use longhaul_units::Rate;

const EXPONENT_BITS: u32 = 6;
const EXPONENT_MASK: u32 = (1 << EXPONENT_BITS) - 1;

/// Rate in bytes per second, encoded as 6 bits of exponent and 26 bits of mantissa (`mantissa x 2^exponent`).
///
/// It is exact up to 67 MB/s, and above that its relative error is at most 2^-26. A value of all ones means unlimited.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct WireRate(pub u32);

impl WireRate {
    /// Unlimited, the rate requested by an RCP sender.
    pub const UNLIMITED: Self = Self(u32::MAX);

    const MANTISSA_BITS: u32 = u32::BITS - EXPONENT_BITS;

    /// Rounds `rate` to the nearest encodable value. [`Rate::MAX`] gives [`WireRate::UNLIMITED`].
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        if rate == Rate::MAX { Self::UNLIMITED } else { Self(pack(rate.as_bytes_per_sec(), Self::MANTISSA_BITS)) }
    }

    /// Returns the decoded rate, saturating at [`Rate::MAX`].
    #[must_use]
    pub fn rate(self) -> Rate {
        Rate::from_bytes_per_sec(unpack(self.0, Self::MANTISSA_BITS))
    }
}

/// Change of a rate in bytes per second, encoded as a sign, 6 bits of exponent and 25 bits of mantissa.
///
/// It is exact up to a magnitude of 33 MB/s, and above that its relative error is at most 2^-25.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct WireDelta(pub u32);

impl WireDelta {
    const SIGN: u32 = 1 << 31;
    const MANTISSA_BITS: u32 = u32::BITS - 1 - EXPONENT_BITS;

    /// Rounds `bytes_per_sec` to the nearest encodable value.
    #[must_use]
    pub fn new(bytes_per_sec: i64) -> Self {
        let sign = if bytes_per_sec < 0 { Self::SIGN } else { 0 };
        Self(sign | pack(bytes_per_sec.unsigned_abs(), Self::MANTISSA_BITS))
    }

    /// Returns the decoded change, saturating at a magnitude of [`i64::MAX`].
    #[must_use]
    pub fn bytes_per_sec(self) -> i64 {
        let magnitude = i64::try_from(unpack(self.0 & !Self::SIGN, Self::MANTISSA_BITS)).unwrap_or(i64::MAX);
        if self.0 & Self::SIGN == 0 { magnitude } else { magnitude.wrapping_neg() }
    }
}

/// Encodes `value` as the nearest `mantissa x 2^exponent`.
pub(crate) fn pack(value: u64, mantissa_bits: u32) -> u32 {
    let significant = u64::BITS.saturating_sub(value.leading_zeros());
    let mut exponent = significant.saturating_sub(mantissa_bits);
    let half = (1_u64 << exponent) >> 1;
    let mut mantissa = value.saturating_add(half) >> exponent;
    if mantissa >> mantissa_bits != 0 {
        mantissa >>= 1;
        exponent = exponent.saturating_add(1);
    }
    // With at least 11 bits of mantissa the exponent is at most 64 - 11 = 53, and has 6 bits. No mantissa has more than 26.
    exponent << mantissa_bits | u32::try_from(mantissa).unwrap_or(u32::MAX)
}

pub(crate) fn unpack(bits: u32, mantissa_bits: u32) -> u64 {
    let exponent = bits >> mantissa_bits & EXPONENT_MASK;
    let mantissa = u64::from(bits & !(EXPONENT_MASK << mantissa_bits));
    if mantissa.leading_zeros() >= exponent { mantissa.checked_shl(exponent).unwrap_or(0) } else { u64::MAX }
}

impl fmt::Debug for WireRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNLIMITED {
            f.write_str("unlimited")
        } else {
            write!(f, "{} B/s", self.rate().as_bytes_per_sec())
        }
    }
}

impl fmt::Debug for WireDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+} B/s", self.bytes_per_sec())
    }
}

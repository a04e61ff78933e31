//! Quick-Start rate and nonce (RFC 4782).

use longhaul_units::Rate;

/// Quick-Start rate: code N stands for 40 kb/s x 2^N, and code 0 for a rate of zero (RFC 4782, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuickStartRate(u8);

impl QuickStartRate {
    /// A rate of zero, which is a denial.
    pub const ZERO: Self = Self(0);
    /// The highest rate, 1.31072 Gb/s.
    pub const MAX: Self = Self(15);

    /// 40 kb/s in bytes per second (RFC 4782, section 3.1).
    const UNIT: u64 = 5_000;

    /// Creates a rate from the code in the low 4 bits of `code`.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code & 0xf)
    }

    /// Returns the code, 0 to 15.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Rounds `rate` down, as a router does when it approves a rate.
    #[must_use]
    pub fn at_most(rate: Rate) -> Self {
        // code = floor(log2(rate / unit)), and 0 below 2 units, because code 1 is the lowest nonzero rate.
        let units = rate.as_bytes_per_sec() / Self::UNIT;
        let code = units.checked_ilog2().unwrap_or(0);
        Self(u8::try_from(code).unwrap_or(u8::MAX).min(Self::MAX.0))
    }

    /// Rounds `rate` up, but not above [`QuickStartRate::MAX`], as a sender does when it requests a rate.
    #[must_use]
    pub fn at_least(rate: Rate) -> Self {
        let below = Self::at_most(rate);
        Self(if below.rate() < rate { below.0.saturating_add(1).min(Self::MAX.0) } else { below.0 })
    }

    /// Returns the rate.
    #[must_use]
    pub fn rate(self) -> Rate {
        Rate::from_bytes_per_sec(if self.0 == 0 { 0 } else { Self::UNIT << self.0.min(15) })
    }
}

/// Quick-Start nonce of 15 pairs of bits, one for each step by which a rate code can be lowered (RFC 4782,
/// section 3.4).
///
/// A router that lowers the code from N to N - 1 replaces pair N - 1, counted from the right, by random bits. A
/// receiver that claims a higher rate than the approved one has to guess the replaced pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QuickStartNonce(u32);

impl QuickStartNonce {
    const MASK: u32 = 0x3fff_ffff;

    /// Creates a nonce from the low 30 bits of `bits`, which should be random.
    #[must_use]
    pub const fn new(bits: u32) -> Self {
        Self(bits & Self::MASK)
    }

    /// Returns the 30 bits of the nonce.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the nonce after a router lowers the rate from `from` to `to`. `random` provides the new bits.
    #[must_use]
    pub const fn lowered(self, from: QuickStartRate, to: QuickStartRate, random: u32) -> Self {
        let replaced = Self::pairs_below(from) & !Self::pairs_below(to);
        Self(self.0 & !replaced | random & replaced)
    }

    /// Returns whether `answer`, the nonce that was returned with `rate`, proves that no router lowered the rate below
    /// `rate`: the rightmost 2 x code bits must be unchanged (RFC 4782, section 4.4).
    #[must_use]
    pub const fn approves(self, rate: QuickStartRate, answer: Self) -> bool {
        (self.0 ^ answer.0) & Self::pairs_below(rate) == 0
    }

    /// Returns the mask of the pairs that are unchanged if a higher rate is lowered to `rate`.
    const fn pairs_below(rate: QuickStartRate) -> u32 {
        // A code is at most 15, so the shift is at most 30.
        (1_u32 << ((rate.0 & 0xf) << 1)).wrapping_sub(1)
    }

    /// Parses the nonce field: 30 bits of nonce and 2 reserved bits.
    pub(super) const fn from_field(field: u32) -> Self {
        Self(field >> 2)
    }

    pub(super) const fn field(self) -> u32 {
        self.0 << 2
    }
}

//! Quick-Start's rate code and nonce.

use longhaul_units::Rate;

/// A rate as Quick-Start writes it: code N stands for 40 kb/s x 2^N, code 0 for nothing (RFC 4782, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuickStartRate(u8);

impl QuickStartRate {
    /// No rate: a denial.
    pub const ZERO: Self = Self(0);
    /// The highest rate, 1.31072 Gb/s.
    pub const MAX: Self = Self(15);

    /// 40 kb/s in bytes a second (RFC 4782, section 3.1).
    const UNIT: u64 = 5_000;

    /// The code in the low four bits.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code & 0xf)
    }

    /// The code, 0 to 15.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The highest code not above `rate`: how a router rounds what it approves.
    #[must_use]
    pub fn at_most(rate: Rate) -> Self {
        // The unit's doubling from code 1 on: code = floor(log2(rate / unit)), 0 below 2 units.
        let units = rate.as_bytes_per_sec() / Self::UNIT;
        let code = units.checked_ilog2().unwrap_or(0);
        Self(u8::try_from(code).unwrap_or(u8::MAX).min(Self::MAX.0))
    }

    /// The lowest code not below `rate`, or the highest there is: how a sender rounds what it asks for.
    #[must_use]
    pub fn at_least(rate: Rate) -> Self {
        let below = Self::at_most(rate);
        Self(if below.rate() < rate { below.0.saturating_add(1).min(Self::MAX.0) } else { below.0 })
    }

    /// The rate.
    #[must_use]
    pub fn rate(self) -> Rate {
        Rate::from_bytes_per_sec(if self.0 == 0 { 0 } else { Self::UNIT << self.0.min(15) })
    }
}

/// Quick-Start's nonce: 15 pairs of bits, one for each step a rate code can be lowered by (RFC 4782, section 3.4).
///
/// Lowering the rate from N to N - 1 replaces pair N - 1, counted from the right, with random bits. A receiver that
/// claims more than was approved has to guess the pairs in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QuickStartNonce(u32);

impl QuickStartNonce {
    const MASK: u32 = 0x3fff_ffff;

    /// A nonce of the low 30 bits, which should be random.
    #[must_use]
    pub const fn new(bits: u32) -> Self {
        Self(bits & Self::MASK)
    }

    /// The 30 bits.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The nonce after a router lowered the rate code from `from` to `to`; `random` should be random.
    #[must_use]
    pub const fn lowered(self, from: QuickStartRate, to: QuickStartRate, random: u32) -> Self {
        let replaced = Self::pairs_below(from) & !Self::pairs_below(to);
        Self(self.0 & !replaced | random & replaced)
    }

    /// Whether `answer`, which came back with `rate`, is this nonce lowered no further than to `rate`: its rightmost
    /// 2 x code bits are unchanged (RFC 4782, section 4.4).
    #[must_use]
    pub const fn approves(self, rate: QuickStartRate, answer: Self) -> bool {
        (self.0 ^ answer.0) & Self::pairs_below(rate) == 0
    }

    /// The pairs that lowering a higher rate to `rate` leaves alone.
    const fn pairs_below(rate: QuickStartRate) -> u32 {
        // A code is at most 15, so the shift is at most 30.
        (1_u32 << ((rate.0 & 0xf) << 1)).wrapping_sub(1)
    }

    /// From the wire's word: 30 bits of nonce, 2 reserved.
    pub(super) const fn from_field(field: u32) -> Self {
        Self(field >> 2)
    }

    pub(super) const fn field(self) -> u32 {
        self.0 << 2
    }
}

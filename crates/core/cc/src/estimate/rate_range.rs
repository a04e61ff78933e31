//! Rate with its uncertainty.

use longhaul_units::Rate;

/// Estimated rate, and the range in which its estimator expects it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "three numbers, which every measurement returns")]
pub struct RateRange {
    /// Lower bound.
    pub low: Rate,
    /// Best single value.
    pub value: Rate,
    /// Upper bound.
    pub high: Rate,
}

//! Rate with its uncertainty.

use longhaul_units::Rate;

/// Estimated rate, and the range in which its estimator expects it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRange {
    /// Lower bound.
    pub low: Rate,
    /// Best single value.
    pub value: Rate,
    /// Upper bound.
    pub high: Rate,
}

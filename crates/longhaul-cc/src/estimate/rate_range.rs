//! A rate with its uncertainty.

use longhaul_units::Rate;

/// An estimated rate and the range that its estimator believes it to be in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRange {
    /// The lower end.
    pub low: Rate,
    /// The best single value.
    pub value: Rate,
    /// The upper end.
    pub high: Rate,
}

//! Loss classifiers, which judge whether a loss was caused by congestion.

pub(crate) mod bbe;
pub(crate) mod none;
pub(crate) mod veno;

pub(crate) use none::AllCongestion;

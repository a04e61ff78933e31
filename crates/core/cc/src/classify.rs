//! Loss classifiers, which judge whether a loss was caused by congestion.

pub(crate) mod bbe;
pub(crate) mod none;

pub(crate) use none::AllCongestion;

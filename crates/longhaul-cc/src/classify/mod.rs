//! Loss classifiers, which judge whether a loss was caused by congestion.

pub mod bbe;
pub mod none;
pub mod veno;

pub use bbe::BbeLoss;
pub use none::AllCongestion;
pub use veno::VenoLoss;

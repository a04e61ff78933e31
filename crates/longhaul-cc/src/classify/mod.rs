//! Loss classifiers: what a loss meant.

pub mod bbe;
pub mod none;
pub mod veno;

pub use bbe::BbeLoss;
pub use none::AllCongestion;
pub use veno::VenoLoss;

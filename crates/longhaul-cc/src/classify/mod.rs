//! Loss classifiers: what a loss meant.

pub mod none;
pub mod veno;

pub use none::AllCongestion;
pub use veno::VenoLoss;

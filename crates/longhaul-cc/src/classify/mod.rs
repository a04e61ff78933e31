//! Loss classifiers: what a loss meant.

pub mod none;

pub use none::AllCongestion;

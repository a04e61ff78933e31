//! Loss classifiers.

pub(crate) mod veno;

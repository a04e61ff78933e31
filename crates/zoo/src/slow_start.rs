//! Slow-start variants: algorithms that raise the window until the capacity of the path is found.

pub(crate) mod astart;
pub(crate) mod fast_start;
pub(crate) mod hybla_start;
pub(crate) mod hystart;
pub(crate) mod rapid_start;
pub(crate) mod search;
pub(crate) mod suss;
pub(crate) mod vegas_start;

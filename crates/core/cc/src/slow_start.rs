//! Slow-start variants: algorithms that raise the window until the capacity of the path is found.

mod ack_limit;
pub(crate) mod astart;
pub(crate) mod fast_start;
pub(crate) mod hybla_start;
pub(crate) mod hystart;
pub(crate) mod hystart_pp;
pub(crate) mod limited_slow_start;
pub(crate) mod rapid_start;
pub(crate) mod search;
pub(crate) mod standard;
pub(crate) mod suss;
pub(crate) mod vegas_start;

pub(crate) use ack_limit::AckLimit;
pub(crate) use ack_limit::L_OPTION;
pub(crate) use hystart_pp::HyStartPp;
pub(crate) use limited_slow_start::divisor;
pub use standard::StandardSlowStart;

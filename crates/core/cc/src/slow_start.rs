//! Slow-start variants: algorithms that raise the window until the capacity of the path is found.

mod ack_limit;
pub(crate) mod hystart_pp;
pub(crate) mod limited_slow_start;
pub(crate) mod standard;

pub use ack_limit::{AckLimit, L_OPTION};
pub(crate) use hystart_pp::HyStartPp;
pub use limited_slow_start::divisor;
pub use standard::{IW_OPTION, StandardSlowStart, raise};

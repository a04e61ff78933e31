//! Slow-start variants: algorithms that raise the window until the capacity of the path is found.

mod ack_limit;
pub mod astart;
pub mod fast_start;
pub mod hybla_start;
pub mod hystart;
pub mod hystart_pp;
pub mod limited_slow_start;
pub mod rapid_start;
pub mod search;
pub mod slow_start;
pub mod suss;
pub mod vegas_start;

pub use ack_limit::AckLimit;
pub(crate) use ack_limit::L_OPTION;
pub use astart::Astart;
pub use fast_start::FastStart;
pub use hybla_start::HyblaStart;
pub use hystart::HyStart;
pub use hystart_pp::HyStartPp;
pub use limited_slow_start::LimitedSlowStart;
pub(crate) use limited_slow_start::divisor;
pub use rapid_start::RapidStart;
pub use search::Search;
pub use slow_start::SlowStart;
pub use suss::Suss;
pub use vegas_start::VegasStart;

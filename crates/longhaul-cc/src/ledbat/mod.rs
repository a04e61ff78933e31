//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-06, based on RFC 6817), for transfers that yield to all other traffic.
//!
//! [`LedbatStart`] is its slow-start variant, and [`LedbatPlusPlus`] its congestion-avoidance algorithm. Each keeps
//! its own [`Delays`], and [`OneWay`] delays if configured.

mod delays;
mod gauge;
mod law;
mod one_way;
mod start;

pub use delays::Delays;
pub use gauge::DelaySource;
pub use law::LedbatPlusPlus;
pub use one_way::OneWay;
pub use start::LedbatStart;

pub(crate) use law::ENTRY;
pub(crate) use start::ENTRY as START;

use crate::describe::{OptionSpec, Rule};

/// Target of the queueing delay in milliseconds (draft, section 4; RFC 6817 has at most 100 ms).
const TARGET_MS: u64 = 60;

const TARGET: OptionSpec =
    OptionSpec::int("target", 1, 100, TARGET_MS, "queueing delay aimed at, ms").ruled(&[Rule::Shared]);

#[cfg(test)]
mod tests;

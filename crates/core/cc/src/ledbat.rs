//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-06, based on RFC 6817), for transfers that yield to all other traffic.
//!
//! [`LedbatStart`] is its slow-start variant, and [`LedbatPlusPlus`] its congestion-avoidance algorithm. Each keeps
//! its own [`Delays`], and [`OneWay`] delays if configured.

mod delays;
mod gauge;
mod one_way;
mod plus_plus;
mod start;

pub(crate) use delays::Delays;
pub(crate) use gauge::DelaySource;
pub(crate) use one_way::OneWay;

pub(crate) use plus_plus::ENTRY;
pub(crate) use start::ENTRY as START;

use crate::describe::{OptionSpec, Rule};

/// Target of the queueing delay in milliseconds (draft, section 4; RFC 6817 has at most 100 ms).
const TARGET_MS: u64 = 60;

const TARGET: OptionSpec =
    OptionSpec::int("target", 1, 100, TARGET_MS, "target queueing delay, ms").ruled(&[Rule::Shared]);

#[cfg(test)]
mod tests;

//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-06 over RFC 6817): for transfers that shall yield to all others.
//!
//! [`LedbatStart`] is its growth, [`LedbatPlusPlus`] its law. Each keeps its own [`Delays`], and [`OneWay`] delays
//! if asked.

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

/// The queueing delay aimed at (draft, section 4; RFC 6817 has 100 ms at most).
const TARGET_MS: u64 = 60;

const TARGET: OptionSpec =
    OptionSpec::int("target", 1, 100, TARGET_MS, "queueing delay aimed at, ms").ruled(&[Rule::Shared]);

#[cfg(test)]
mod tests;

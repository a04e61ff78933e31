//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-06 over RFC 6817): for transfers that shall yield to all others.
//!
//! [`LedbatStart`] is its growth, [`LedbatPlusPlus`] its law. Each keeps its own [`Delays`].

mod delays;
mod law;
mod start;

pub use delays::Delays;
pub use law::LedbatPlusPlus;
pub use start::LedbatStart;

pub(crate) use law::ENTRY;
pub(crate) use start::ENTRY as START;

use longhaul_units::Span;

use crate::registry::{OptionSpec, Values};

/// The queueing delay aimed at (draft, section 4; RFC 6817 has 100 ms at most).
const TARGET_MS: u64 = 60;

const TARGET: OptionSpec = OptionSpec::int("target", 1, 100, TARGET_MS, "queueing delay aimed at, ms");

fn target(values: &Values<'_>) -> Span {
    Span::from_millis(values.int("target"))
}

#[cfg(test)]
mod tests;

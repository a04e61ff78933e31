//! The description of an algorithm: its [`Entry`] and its options, which [`options!`](crate::options) declares.
//!
//! Algorithms depend on this module only; the [`registry`](crate::registry) depends on the algorithms.

mod declare;
mod entry;
mod option;

pub use declare::FromValue;
pub use entry::{Entry, Make, Profile, Safety, Slot};
pub use option::{OptionKind, OptionSpec, Rule, Value, Values};

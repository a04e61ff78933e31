//! The description of an algorithm: its [`Entry`] and its options, which [`options!`](crate::options) declares.
//!
//! Algorithms depend on this module only; the [`registry`](crate::registry) depends on the algorithms.

mod declare;
mod entry;
mod option;

pub use declare::FromValue;
pub(crate) use entry::Make;
pub use entry::{Entry, Profile, Safety, Slot};
pub use option::{OptionKind, OptionSpec, Rule, Value, Values};

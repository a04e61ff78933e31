//! Algorithms by name.
//!
//! A congestion controller is named by text in one of three forms, all of which may have options in parentheses:
//!
//! * A profile: `cubic`, `new-reno`, `copa`.
//! * The short form, names joined by `+`: `slow-start(iw=4)+new-reno`. Each name fills its own slot. The name of a
//!   profile fills all slots that no other name fills. Its options apply to its stages of the same name; an option
//!   applies to every such stage that has it. The remaining slots have [the default](Spec::default).
//! * The long form, `slot=name` joined by commas: `slow-start=slow-start,avoidance=new-reno,recovery=rfc6675`, with the
//!   slots `startup`, `slow-start`, `avoidance`, `loss` and `recovery`. The remaining slots have the default as well.
//!
//! An option that has no effect, or contradicts another option or stage, is an error ([`Rule`]).
//!
//! [`Spec`] is the parsed form, which is printed in the shortest of the three forms. [`list`] prints all algorithms.
//!
//! An algorithm of another crate has a static [`Entry`]. [`Registry::with`] returns the known algorithms and this one, and
//! [`register`] makes it known to the whole process, as programs do, so that every [`parse`](str::parse) may name it. Further published algorithms are in the crate `longhaul-zoo`. An algorithm without a name implements [`ControllerFactory`](crate::ControllerFactory) or is
//! [composed](crate::compose::Composed) of its own stages.

mod error;
mod parse;
mod print;
mod register;
mod rule;
mod spec;
mod table;

pub use crate::describe::{Entry, OptionSpec, Profile, Rule, Safety, Slot, Value, Values};
pub use error::SpecError;
pub use register::{RegisterError, known, register};
pub use spec::Spec;
pub use table::Registry;

/// The algorithms of this crate.
#[must_use]
pub const fn built_in() -> Registry {
    table::BUILT_IN
}

/// Returns a list of the profiles, then of the stages of each slot with their options, references and safety, in one
/// or two lines each. The format is for people and may change.
#[must_use]
pub fn list() -> String {
    known().to_string()
}

#[cfg(test)]
mod tests;

//! Algorithms by name.
//!
//! A congestion controller is named by text, in one of three forms that may all carry options in parentheses:
//!
//! * a profile: `cubic`, `new-reno`, `reno-classic`;
//! * the short form, names joined by `+`: `slow-start(iw=4)+new-reno`. Each name fills its own slot; a profile's name
//!   fills all slots that no other name fills, and its options go to the stages of the same name inside, each to all
//!   that have it. The rest is [the default](Spec::default);
//! * the long form, `slot=name` joined by commas: `growth=slow-start,steady=new-reno,recovery=rfc6675`, with the slots
//!   `launch`, `growth`, `steady`, `loss` and `recovery`. The rest is the default, too.
//!
//! What has no effect, or contradicts another option or part, is refused ([`Rule`]).
//!
//! [`Spec`] is the parsed form; it prints itself in the shortest of the three. [`list`] prints what exists.
//!
//! To add an algorithm, write its file with a static [`Entry`] and add one line to the table in `registry/table.rs`. An
//! algorithm of another crate also has a static [`Entry`] and is added by [`register`], after which every text in the
//! process may name it. An algorithm without a name implements [`ControllerFactory`](crate::ControllerFactory) or is
//! [composed](crate::Composed) of its own stages.

mod error;
mod parse;
mod print;
mod register;
mod rule;
mod spec;
mod table;

pub use crate::describe::{Entry, Make, OptionKind, OptionSpec, Profile, Rule, Safety, Slot, Value, Values};
pub use error::SpecError;
pub use register::{RegisterError, known, register};
pub use spec::{Part, Spec};
pub use table::Registry;

/// The algorithms of this crate.
#[must_use]
pub fn built_in() -> &'static Registry {
    &table::BUILT_IN
}

/// What exists: profiles, then the stages of each slot with their options, references and safety, one or two lines
/// each. For people; the text may change.
#[must_use]
pub fn list() -> String {
    known().to_string()
}

#[cfg(test)]
mod tests;

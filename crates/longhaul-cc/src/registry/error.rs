//! What is wrong with a text that names no controller.

use super::Slot;

/// Why a text names no congestion controller. The message says what exists instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Nothing there.
    #[error("empty name of a congestion controller; there are {known}")]
    Empty {
        /// All profiles.
        known: String,
    },
    /// Not of the grammar.
    #[error("`{text}` is not of the form name, name(option=value,...), name+name or slot=name,slot=name")]
    Syntax {
        /// The part that was not understood.
        text: String,
    },
    /// A name that the short form does not know.
    #[error("unknown congestion control `{name}`; there are {known}")]
    UnknownName {
        /// The name.
        name: String,
        /// All profiles and stages.
        known: String,
    },
    /// A slot that the long form does not know.
    #[error("unknown slot `{name}`; there are launch, growth, steady, loss, recovery, whole")]
    UnknownSlot {
        /// The name.
        name: String,
    },
    /// A name that its slot does not know.
    #[error("unknown {slot} `{name}`; there are {known}")]
    UnknownInSlot {
        /// The slot.
        slot: Slot,
        /// The name.
        name: String,
        /// All names of the slot.
        known: String,
    },
    /// A name of several stages, in the short form.
    #[error("`{name}` is ambiguous; write {choices}")]
    Ambiguous {
        /// The name.
        name: String,
        /// The long forms.
        choices: String,
    },
    /// Two names for one slot.
    #[error("two algorithms for {slot}: `{first}` and `{second}`")]
    Twice {
        /// The slot.
        slot: Slot,
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// A whole controller among stages.
    #[error("`{whole}` is a whole controller and has no place for `{other}`")]
    WholeComposed {
        /// The controller.
        whole: String,
        /// What was put beside it.
        other: String,
    },
    /// An option that the algorithm does not have.
    #[error("`{name}` has no option `{option}`; it has {known}")]
    UnknownOption {
        /// The algorithm.
        name: String,
        /// The option.
        option: String,
        /// All its options.
        known: String,
    },
    /// An option given twice.
    #[error("option `{option}` of `{name}` is given twice")]
    RepeatedOption {
        /// The algorithm.
        name: String,
        /// The option.
        option: String,
    },
    /// An option that contradicts another one or another part, or has no effect beside it.
    #[error("option `{option}` of `{name}` cannot be `{value}` beside {beside}: {fits}")]
    Misfit {
        /// The algorithm.
        name: String,
        /// The option.
        option: String,
        /// Its value.
        value: String,
        /// The other option or part.
        beside: String,
        /// What would fit.
        fits: String,
    },
    /// A value of the wrong type or out of range.
    #[error("option `{option}` of `{name}` cannot be `{value}`: {range}")]
    BadValue {
        /// The algorithm.
        name: String,
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// The values allowed.
        range: String,
    },
}

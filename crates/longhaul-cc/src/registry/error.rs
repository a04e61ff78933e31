//! What is wrong with a text that names no controller.

use crate::describe::Slot;

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
    #[error("unknown congestion control `{name}`{hint}; there are {known}", hint = hint(name, known))]
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
    #[error("unknown {slot} `{name}`{hint}; there are {known}", hint = hint(name, known))]
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
    #[error("`{name}` has no option `{option}`{hint}; it has {known}", hint = hint(option, known))]
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

/// What was probably meant by `name`: the nearest of the `known` names, separated by commas, if no more than a third of
/// its letters would have to change.
fn hint(name: &str, known: &str) -> String {
    let known = known.split(", ").map(|known| (strsim::damerau_levenshtein(name, known), known));
    let nearest = known.min_by_key(|(distance, _)| *distance);
    let nearest = nearest.filter(|(distance, known)| *distance <= known.len().div_ceil(3) && *distance < name.len());
    nearest.map(|(_, known)| format!(" (did you mean `{known}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::registry::built_in;

    #[test]
    fn a_misspelled_name_is_recognised_and_another_one_is_not() {
        let said = |text: &str| built_in().parse(text).unwrap_err().to_string();
        for (text, meant) in [
            ("cubik", "`cubik` (did you mean `cubic`?); there are"),
            ("newreno", "(did you mean `new-reno`?)"),
            ("swift-start-hardend+cubic", "(did you mean `swift-start-hardened`?)"),
            ("steady=westwod", "(did you mean `westwood`?)"),
            ("jump-start(max-jmup=1)", "(did you mean `max-jump`?)"),
        ] {
            assert!(said(text).contains(meant), "{}", said(text));
        }
        for text in ["nonsense", "warp", "x", "steady=warp"] {
            assert!(!said(text).contains("did you mean"), "{}", said(text));
        }
    }
}

//! Errors for text that names no controller.

use crate::describe::Slot;

/// Reason why text names no congestion controller. The message lists what exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text is empty.
    #[error("empty name of a congestion controller; there are {known}")]
    Empty {
        /// All profiles.
        known: String,
    },
    /// The text does not match the grammar.
    #[error("`{text}` is not of the form name, name(option=value,...), name+name or slot=name,slot=name")]
    Syntax {
        /// The part that does not match.
        text: String,
    },
    /// A name in the short form is unknown.
    #[error("unknown congestion control `{name}`{hint}; there are {known}", hint = hint(name, known))]
    UnknownName {
        /// The name.
        name: String,
        /// All profiles and stages.
        known: String,
    },
    /// A slot in the long form is unknown.
    #[error("unknown slot `{name}`; there are startup, slow-start, avoidance, loss, recovery, monolithic")]
    UnknownSlot {
        /// The name.
        name: String,
    },
    /// A name is unknown in its slot.
    #[error("unknown {slot} `{name}`{hint}; there are {known}", hint = hint(name, known))]
    UnknownInSlot {
        /// The slot.
        slot: Slot,
        /// The name.
        name: String,
        /// All names of the slot.
        known: String,
    },
    /// A name in the short form belongs to several stages.
    #[error("`{name}` is ambiguous; write {choices}")]
    Ambiguous {
        /// The name.
        name: String,
        /// The unambiguous long forms.
        choices: String,
    },
    /// A slot has two names.
    #[error("two algorithms for {slot}: `{first}` and `{second}`")]
    Twice {
        /// The slot.
        slot: Slot,
        /// The first name.
        first: String,
        /// The second name.
        second: String,
    },
    /// A monolithic controller is combined with stages.
    #[error("`{whole}` is a monolithic controller and has no place for `{other}`")]
    MonolithicComposed {
        /// The monolithic controller.
        whole: String,
        /// The name combined with it.
        other: String,
    },
    /// The algorithm does not have this option.
    #[error("`{name}` has no option `{option}`{hint}; it has {known}", hint = hint(option, known))]
    UnknownOption {
        /// The algorithm.
        name: String,
        /// The option.
        option: String,
        /// All its options.
        known: String,
    },
    /// An option is given twice.
    #[error("option `{option}` of `{name}` is given twice")]
    RepeatedOption {
        /// The algorithm.
        name: String,
        /// The option.
        option: String,
    },
    /// An option contradicts another option or stage, or has no effect with it.
    #[error("option `{option}` of `{name}` cannot be `{value}` with {other}: {fits}")]
    Misfit {
        /// The algorithm.
        name: String,
        /// The option.
        option: String,
        /// Its value.
        value: String,
        /// The other option or stage.
        other: String,
        /// The values that would be possible.
        fits: String,
    },
    /// A value has the wrong type or is out of range.
    #[error("option `{option}` of `{name}` cannot be `{value}`: {range}")]
    BadValue {
        /// The algorithm.
        name: String,
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// The allowed values.
        range: String,
    },
}

/// Returns the probable meaning of `name`: the nearest of the `known` names, which are separated by commas, if at
/// most a third of its letters would have to change.
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
            ("avoidance=cubik", "(did you mean `cubic`?)"),
            ("limited-slow-start(max-sstresh=9)", "(did you mean `max-ssthresh`?)"),
        ] {
            assert!(said(text).contains(meant), "{}", said(text));
        }
        for text in ["nonsense", "warp", "x", "avoidance=warp"] {
            assert!(!said(text).contains("did you mean"), "{}", said(text));
        }
    }
}

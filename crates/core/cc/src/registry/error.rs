//! Error for text that names no controller.

use core::fmt;

use crate::describe::Slot;

/// Reason why text names no congestion controller. The message lists what exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub(super) String);

impl SpecError {
    pub(super) fn syntax(text: &str) -> Self {
        let text = text.trim();
        Self(format!("`{text}` is not of the form name, name(option=value,...), name+name or slot=name,slot=name"))
    }

    /// The error for a `name` of some `kind` that is not among the `known` ones.
    pub(super) fn unknown(kind: impl fmt::Display, name: &str, known: &str) -> Self {
        Self(format!("unknown {kind} `{name}`{}; there are {known}", hint(name, known)))
    }

    pub(super) fn unknown_option(name: &str, option: &str, known: &str) -> Self {
        Self(format!("`{name}` has no option `{option}`{}; it has {known}", hint(option, known)))
    }

    pub(super) fn twice(slot: Slot, first: &str, second: &str) -> Self {
        Self(format!("two algorithms for {slot}: `{first}` and `{second}`"))
    }

    pub(super) fn monolithic(whole: &str, other: &str) -> Self {
        Self(format!("`{whole}` is a monolithic controller and has no place for `{other}`"))
    }
}

/// Returns the probable meaning of `name`: the nearest of the `known` names, which are separated by commas, if the two
/// differ in at most a third of the letters.
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

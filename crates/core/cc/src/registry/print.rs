//! Shortest text of a [`Spec`].

use core::fmt;

use super::spec::{Part, Spec};
use super::{Registry, Slot};

impl fmt::Display for Part {
    /// Prints the name, with the options that differ from their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&named(self.entry.name, self.written()))
    }
}

impl Part {
    /// Returns the options that differ from their defaults.
    fn written(&self) -> impl Iterator<Item = String> {
        (self.entry.options.iter().zip(&self.values))
            .filter(|(option, value)| option.default_value() != **value)
            .map(|(option, value)| format!("{}={value}", option.name))
    }
}

/// Returns a name with options, each of them once.
fn named(name: &str, options: impl Iterator<Item = String>) -> String {
    let mut once: Vec<String> = Vec::new();
    for option in options {
        if !once.contains(&option) {
            once.push(option);
        }
    }
    if once.is_empty() { name.to_owned() } else { format!("{name}({})", once.join(",")) }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.registry.print(self))
    }
}

impl Registry {
    /// Returns the shortest text that [`parse`](Self::parse) reads as `spec`. Of equally short texts, it is the first
    /// in this order: profiles in the order of the table, alone or with other names; names over the default; the long
    /// form. If `spec` has an algorithm that is not in this registry, it is the long form, which a registry with the
    /// algorithm can parse.
    #[must_use]
    pub fn print(&self, spec: &Spec) -> String {
        let long = long_form(spec, &self.default_spec());
        self.candidates(spec)
            .into_iter()
            .chain([long.clone()])
            .filter(|text| self.parse(text).as_ref() == Ok(spec))
            .reduce(|best, text| if text.len() < best.len() { text } else { best })
            .unwrap_or(long)
    }

    /// Returns short forms, some of which may mean `spec`.
    fn candidates(&self, spec: &Spec) -> Vec<String> {
        let mut texts = Vec::new();
        for profile in self.profiles {
            let Ok(base) = self.parse(profile.name) else {
                continue;
            };
            let differing: Vec<_> = differences(spec, &base).collect();
            // The name of a profile would mislead if the algorithm of the same name is replaced.
            let is_named_after = |part: &Part| part.entry.name == profile.name;
            let is_in = |parts: &[Part]| parts.iter().any(is_named_after);
            if is_in(&base.parts) && !is_in(&spec.parts) {
                continue;
            }
            let (own, other): (Vec<&Part>, _) = differing.into_iter().partition(|part| part.entry.name == profile.name);
            let head = named(profile.name, own.iter().flat_map(|part| part.written()));
            // Start-up scheme and slow-start variant come before the congestion-avoidance algorithm that the profile
            // stands for.
            let (before, after): (Vec<&Part>, Vec<&Part>) =
                other.into_iter().partition(|part| part.entry.slot() < Slot::Avoidance);
            let names = before.into_iter().map(ToString::to_string);
            texts.push(joined(names.chain([head]).chain(after.into_iter().map(ToString::to_string))));
        }
        texts.push(joined(differences(spec, &self.default_spec()).map(ToString::to_string)));
        texts
    }
}

fn joined(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join("+")
}

/// Returns the stages of `spec` that differ from those of `base`.
fn differences<'a>(spec: &'a Spec, base: &Spec) -> impl Iterator<Item = &'a Part> {
    spec.parts.iter().filter(|part| !base.parts.contains(part))
}

fn long_form(spec: &Spec, default: &Spec) -> String {
    let items: Vec<_> = differences(spec, default).map(|part| format!("{}={part}", part.entry.slot())).collect();
    items.join(",")
}

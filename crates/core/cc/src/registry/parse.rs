//! Parser from text to [`Spec`].

use super::spec::{Part, Spec};
use super::{Registry, SpecError};
use crate::describe::{Entry, OptionSpec, Profile, Slot};

impl Registry {
    /// Parses the name of a controller, in any of the three forms. Spaces around names and signs are ignored.
    ///
    /// # Errors
    /// Returns a [`SpecError`] that states the fault and what exists.
    pub fn parse(&self, text: &str) -> Result<Spec, SpecError> {
        if text.trim().is_empty() {
            let known = joined(self.profiles.iter().map(|profile| profile.name));
            return Err(SpecError(format!("empty name of a congestion controller; there are {known}")));
        }
        let items = split(text, ',')?;
        if items.iter().any(|item| slot_and_part(item).is_some()) {
            return self.parse_long(&items);
        }
        if items.len() > 1 {
            return Err(SpecError::syntax(text));
        }
        self.parse_short(text)
    }

    fn parse_long(&self, items: &[&str]) -> Result<Spec, SpecError> {
        let mut chosen = Chosen::default();
        for item in items {
            let (slot, part) = slot_and_part(item).ok_or_else(|| SpecError::syntax(item))?;
            let slot = Slot::of_name(slot).ok_or_else(|| {
                let known = "startup, slow-start, avoidance, loss, recovery, monolithic";
                SpecError(format!("unknown slot `{slot}`; there are {known}"))
            })?;
            let (name, options) = name_and_options(part)?;
            let entry = self.of_slot(slot).find(|entry| entry.name == name);
            let unknown = || SpecError::unknown(slot, name, &joined(self.of_slot(slot).map(|entry| entry.name)));
            let entry = entry.ok_or_else(unknown)?;
            chosen.add(with_options(entry, options)?)?;
        }
        chosen.over(self.default_spec())
    }

    fn parse_short(&self, text: &str) -> Result<Spec, SpecError> {
        let mut base = None;
        let mut chosen = Chosen::default();
        let items = split(text, '+')?;
        let names: Vec<_> = items.iter().filter_map(|item| name_and_options(item).ok()).map(|(name, _)| name).collect();
        for item in items {
            let (name, options) = name_and_options(item)?;
            let profile = self.profiles.iter().find(|profile| profile.name == name);
            let Some(profile) = profile.filter(|_| !self.is_startup_beside_profile(name, &names)) else {
                chosen.add(with_options(self.entry_of_short_name(name)?, options)?)?;
                continue;
            };
            let spec = self.parse_long(&split(profile.spec, ',')?)?;
            let spec = profile_with_options(spec, name, options)?;
            if let Some((first, _)) = base.replace((name, spec)) {
                return Err(SpecError::twice(Slot::Monolithic, first, name));
            }
        }
        let whole = chosen.0.iter().find(|part| part.entry.slot() == Slot::Monolithic);
        if let Some((whole, (other, _))) = whole.zip(base.as_ref()) {
            return Err(SpecError::monolithic(whole.entry.name, other));
        }
        chosen.over(base.map_or_else(|| self.default_spec(), |(_, spec)| spec))
    }

    /// Returns whether `name`, one of `names`, is a start-up scheme that has a profile of the same name and is combined
    /// with another profile. In this case, it denotes the scheme.
    fn is_startup_beside_profile(&self, name: &str, names: &[&str]) -> bool {
        let is_startup = self.of_slot(Slot::Startup).any(|entry| entry.name == name);
        let others = |profile: &Profile| profile.name != name && names.contains(&profile.name);
        is_startup && self.profiles.iter().any(others)
    }

    /// Returns the only algorithm with that name, in any slot.
    fn entry_of_short_name(&self, name: &str) -> Result<&'static Entry, SpecError> {
        let mut found = self.entries.iter().copied().filter(|entry| entry.name == name);
        match (found.next(), found.next()) {
            (Some(entry), None) => Ok(entry),
            (Some(first), Some(second)) => {
                let choices = [first, second].into_iter().chain(found);
                let choices: Vec<_> = choices.map(|entry| format!("{}={name}", entry.slot())).collect();
                Err(SpecError(format!("`{name}` is ambiguous; write {}", choices.join(" or "))))
            }
            (None, _) => Err(SpecError::unknown("congestion control", name, &self.all_names())),
        }
    }

    /// Returns every name that the short form accepts.
    fn all_names(&self) -> String {
        let mut known: Vec<_> = self.profiles.iter().map(|profile| profile.name).collect();
        for entry in self.entries {
            let unique = self.entries.iter().filter(|other| other.name == entry.name).count() == 1;
            if unique && !known.contains(&entry.name) {
                known.push(entry.name);
            }
        }
        known.join(", ")
    }
}

/// The stages named so far.
#[derive(Default)]
struct Chosen(Vec<Part>);

impl Chosen {
    fn add(&mut self, part: Part) -> Result<(), SpecError> {
        let name = |part: &Part| part.entry.name;
        for other in &self.0 {
            if other.entry.slot() == part.entry.slot() {
                return Err(SpecError::twice(part.entry.slot(), name(other), name(&part)));
            }
            for (whole, beside) in [(other, &part), (&part, other)] {
                if whole.entry.slot() == Slot::Monolithic {
                    return Err(SpecError::monolithic(name(whole), name(beside)));
                }
            }
        }
        self.0.push(part);
        Ok(())
    }

    /// Puts these stages in place of those of `base`, if the result is consistent.
    fn over(self, mut base: Spec) -> Result<Spec, SpecError> {
        for part in self.0 {
            if part.entry.slot() == Slot::Monolithic {
                return Ok(Spec { parts: vec![part], ..base });
            }
            match base.parts.iter_mut().find(|other| other.entry.slot() == part.entry.slot()) {
                Some(place) => *place = part,
                None => {
                    let whole = base.parts.first().map_or("", |whole| whole.entry.name);
                    return Err(SpecError::monolithic(whole, part.entry.name));
                }
            }
        }
        base.check()?;
        Ok(base)
    }
}

/// Applies the options after a profile's name to its stages of the same name: each option to every such stage that has
/// it.
fn profile_with_options(mut spec: Spec, name: &str, options: Option<&str>) -> Result<Spec, SpecError> {
    let Some(options) = options else { return Ok(spec) };
    let named = |part: &&mut Part| part.entry.name == name;
    let known: Vec<_> = spec.parts.iter_mut().filter(named).flat_map(|part| part.entry.options).collect();
    let is_known = |option: &str| known.iter().any(|known| known.name == option);
    let items = options.split(',').map(|item| (item.split('=').next().unwrap_or_default().trim(), item));
    if let Some((option, item)) = items.clone().find(|(option, _)| !is_known(option)) {
        let option = if known.is_empty() { item } else { option };
        return Err(unknown_option(name, option, known.into_iter()));
    }
    for part in spec.parts.iter_mut().filter(named) {
        let has = |option: &str| part.entry.options.iter().any(|known| known.name == option);
        let own: Vec<_> = items.clone().filter(|(option, _)| has(option)).map(|(_, item)| item).collect();
        if !own.is_empty() {
            *part = with_options(part.entry, Some(&own.join(",")))?;
        }
    }
    Ok(spec)
}

/// Returns the error for an option that is not among `known`; each option is listed once.
fn unknown_option(name: &str, option: &str, known: impl Iterator<Item = &'static OptionSpec>) -> SpecError {
    let mut names = Vec::new();
    for known in known.map(|known| known.name) {
        if !names.contains(&known) {
            names.push(known);
        }
    }
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    SpecError::unknown_option(name, option.trim(), &known)
}

fn with_options(entry: &'static Entry, options: Option<&str>) -> Result<Part, SpecError> {
    let mut part = Part::new(entry);
    let mut given = vec![false; entry.options.len()];
    for item in options.map(|options| options.split(',')).into_iter().flatten() {
        let (option, value) = item.split_once('=').ok_or_else(|| SpecError::syntax(item))?;
        let (name, option, value) = (entry.name, option.trim(), value.trim());
        let Some(index) = entry.options.iter().position(|known| known.name == option) else {
            return Err(unknown_option(name, option, entry.options.iter()));
        };
        let spec = &entry.options[index];
        let bad = || SpecError(format!("option `{option}` of `{name}` cannot be `{value}`: {}", spec.range()));
        part.values[index] = spec.parse(value).ok_or_else(bad)?;
        if core::mem::replace(&mut given[index], true) {
            return Err(SpecError(format!("option `{option}` of `{name}` is given twice")));
        }
    }
    part.check(&given)?;
    Ok(part)
}

fn joined(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none yet".to_owned() } else { names.join(", ") }
}

/// Splits at each `sign` outside of parentheses, which cannot be nested.
fn split(text: &str, sign: char) -> Result<Vec<&str>, SpecError> {
    let mut items = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, found) in text.char_indices() {
        match found {
            '(' if !inside => inside = true,
            ')' if inside => inside = false,
            '(' | ')' => return Err(SpecError::syntax(text)),
            _ if found == sign && !inside => {
                items.push(&text[start..at]);
                start = at + found.len_utf8();
            }
            _ => {}
        }
    }
    items.push(&text[start..]);
    if inside { Err(SpecError::syntax(text)) } else { Ok(items) }
}

/// Splits `slot=part` at the equals sign if it is outside of parentheses.
fn slot_and_part(item: &str) -> Option<(&str, &str)> {
    let (slot, part) = item.split_once('=')?;
    (!slot.contains('(')).then(|| (slot.trim(), part))
}

/// Splits `name` or `name(options)`.
fn name_and_options(item: &str) -> Result<(&str, Option<&str>), SpecError> {
    let item = item.trim();
    let (name, options) = match item.split_once('(') {
        None => (item, None),
        Some((name, rest)) => {
            let options = rest.strip_suffix(')').ok_or_else(|| SpecError::syntax(item))?;
            (name.trim_end(), Some(options))
        }
    };
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let well_formed = !name.is_empty() && name.chars().all(legal) && options != Some("");
    if well_formed { Ok((name, options)) } else { Err(SpecError::syntax(item)) }
}

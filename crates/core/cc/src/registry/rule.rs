//! Checks of the constraints between options, within one algorithm and across the stages of a composition.

use super::SpecError;
use super::spec::{Part, Spec};
use crate::describe::{OptionKind, OptionSpec, Rule, Slot, Value};

/// With what an option is in conflict, and what would fit.
struct Clash {
    other: String,
    fits: String,
}

impl Clash {
    fn of(self, part: &Part, option: &OptionSpec, value: Value) -> SpecError {
        let (name, option, Self { other, fits }) = (part.entry.name, option.name, self);
        SpecError(format!("option `{option}` of `{name}` cannot be `{value}` with {other}: {fits}"))
    }
}

impl Part {
    pub(super) fn options(&self) -> impl Iterator<Item = (&'static OptionSpec, Value)> {
        self.entry.options.iter().zip(self.values.iter().copied())
    }

    fn option(&self, name: &str) -> Option<(&'static OptionSpec, Value)> {
        self.options().find(|(option, _)| option.name == name)
    }

    /// Checks whether the options are consistent. `given` states which options the text contains; these must have an
    /// effect even if they equal their defaults.
    pub(super) fn check(&self, given: &[bool]) -> Result<(), SpecError> {
        for (index, (option, value)) in self.options().enumerate() {
            let written = given.get(index).is_some_and(|given| *given) || value != option.default_value();
            let idle = self.without_effect(option).filter(|_| written);
            if let Some(clash) = idle.or_else(|| self.above_bound(option, value)) {
                return Err(clash.of(self, option, value));
            }
        }
        Ok(())
    }

    /// Returns the conflict that makes `option` ineffective, if there is one.
    fn without_effect(&self, option: &OptionSpec) -> Option<Clash> {
        option.rules.iter().find_map(|rule| {
            let (Rule::With(name, said) | Rule::Without(name, said)) = *rule else { return None };
            let (other, value) = self.option(name)?;
            let wanted = matches!(rule, Rule::With(..));
            let fitting = if wanted { format!("{name}={said}") } else { others(other, said) };
            let clash =
                || Clash { other: format!("`{name}={value}`"), fits: format!("it has an effect only with {fitting}") };
            ((value == said) != wanted).then(clash)
        })
    }

    fn above_bound(&self, option: &OptionSpec, value: Value) -> Option<Clash> {
        if self.without_effect(option).is_some() {
            return None;
        }
        option.rules.iter().find_map(|rule| {
            let Rule::AtMost(name) = *rule else { return None };
            let (_, bound) = self.option(name).filter(|(other, _)| self.without_effect(other).is_none())?;
            let fits = format!("at most {bound}, or a greater `{name}`");
            (number(value) > number(bound)).then(|| Clash { other: format!("`{name}={bound}`"), fits })
        })
    }
}

/// Describes the values of `option` other than `value`.
fn others(option: &OptionSpec, value: Value) -> String {
    match option.kind {
        OptionKind::Choice { names } => {
            let others: Vec<_> = names.iter().copied().filter(|name| Value::Choice(name) != value).collect();
            format!("{}={}", option.name, others.join(" or "))
        }
        _ => format!("{} other than {value}", option.name),
    }
}

/// Returns a numeric value, or infinity (no limit) for a switch or a word.
fn number(value: Value) -> f64 {
    match value {
        Value::Int(value) => value as f64,
        Value::Float(value) => value,
        Value::Flag(_) | Value::Choice(_) => f64::INFINITY,
    }
}

impl Spec {
    pub(super) fn check(&self) -> Result<(), SpecError> {
        for part in &self.parts {
            for (option, value) in part.options() {
                // If one of two conflicting options has its default, the error names the other one.
                if value == option.default_value() {
                    continue;
                }
                let clash = option.rules.iter().find_map(|rule| match *rule {
                    Rule::OnlyWith(slot, name) => self.absent(slot, name),
                    Rule::Shared => self.differing(part, option, value),
                    _ => None,
                });
                if let Some(clash) = clash {
                    return Err(clash.of(part, option, value));
                }
            }
        }
        Ok(())
    }

    fn absent(&self, slot: Slot, name: &str) -> Option<Clash> {
        let there = self.part(slot).map_or("", |part| part.entry.name);
        let fits = format!("it has an effect only with {slot}={name}");
        (there != name).then(|| Clash { other: format!("`{slot}={there}`"), fits })
    }

    fn differing(&self, part: &Part, option: &OptionSpec, value: Value) -> Option<Clash> {
        let others = self.parts.iter().filter(|other| other.entry.slot() != part.entry.slot());
        others.filter_map(|other| Some((other, other.option(option.name)?.1))).find(|(_, theirs)| *theirs != value).map(
            |(other, theirs)| Clash {
                other: format!("`{}={}({}={theirs})`", other.entry.slot(), other.entry.name, option.name),
                fits: "both have to have the same".to_owned(),
            },
        )
    }
}

//! The options of an algorithm: their types, ranges, rules and values.

use core::{fmt, slice};

use super::Slot;

/// The type, range and default of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum OptionKind {
    /// Integer option.
    Int {
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
        /// Default value.
        default: u64,
    },
    /// Option with a finite floating-point value.
    Float {
        /// Smallest allowed value.
        min: f64,
        /// Largest allowed value.
        max: f64,
        /// Default value.
        default: f64,
    },
    /// `on` or `off`.
    Flag {
        /// Default value.
        default: bool,
    },
    /// One of these words, `[a-z0-9-]+`; the first is the default.
    Choice {
        /// The words, at least one.
        names: &'static [&'static str],
    },
}

/// An option of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct OptionSpec {
    /// Name of the option, `[a-z0-9-]+`.
    pub name: &'static str,
    pub(crate) kind: OptionKind,
    /// Help text with the unit of the option.
    pub what: &'static str,
    /// The constraints between it and other options and parts.
    pub rules: &'static [Rule],
}

impl OptionSpec {
    /// Declares a whole number from `min` to `max`.
    #[must_use]
    pub const fn int(name: &'static str, min: u64, max: u64, default: u64, what: &'static str) -> Self {
        Self { name, kind: OptionKind::Int { min, max, default }, what, rules: &[] }
    }

    /// Declares a number from `min` to `max`.
    #[must_use]
    pub const fn float(name: &'static str, min: f64, max: f64, default: f64, what: &'static str) -> Self {
        Self { name, kind: OptionKind::Float { min, max, default }, what, rules: &[] }
    }

    /// Declares a switch.
    #[must_use]
    pub const fn flag(name: &'static str, default: bool, what: &'static str) -> Self {
        Self { name, kind: OptionKind::Flag { default }, what, rules: &[] }
    }

    /// Declares a choice of `names`, of which the first is the default.
    #[must_use]
    pub const fn choice(name: &'static str, names: &'static [&'static str], what: &'static str) -> Self {
        Self { name, kind: OptionKind::Choice { names }, what, rules: &[] }
    }

    /// Returns the same option with these constraints.
    #[must_use]
    pub const fn ruled(self, rules: &'static [Rule]) -> Self {
        Self { rules, ..self }
    }

    /// Returns the default.
    #[must_use]
    pub const fn default_value(&self) -> Value {
        match self.kind {
            OptionKind::Int { default, .. } => Value::Int(default),
            OptionKind::Float { default, .. } => Value::Float(default),
            OptionKind::Flag { default } => Value::Flag(default),
            OptionKind::Choice { names: [first, ..] } => Value::Choice(first),
            OptionKind::Choice { names: [] } => Value::Choice(""),
        }
    }

    /// Parses `text`; `None` if it is not of the type or out of range.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<Value> {
        match self.kind {
            OptionKind::Int { min, max, .. } => {
                text.parse().ok().filter(|value| (min..=max).contains(value)).map(Value::Int)
            }
            OptionKind::Float { min, max, .. } => {
                text.parse().ok().filter(|value| (min..=max).contains(value)).map(Value::Float)
            }
            OptionKind::Flag { .. } => match text {
                "on" => Some(Value::Flag(true)),
                "off" => Some(Value::Flag(false)),
                _ => None,
            },
            OptionKind::Choice { names } => names.iter().find(|name| **name == text).copied().map(Value::Choice),
        }
    }

    /// Returns the allowed values in words.
    #[must_use]
    pub fn range(&self) -> String {
        match self.kind {
            OptionKind::Int { min, max, .. } => format!("{min} to {max}"),
            OptionKind::Float { min, max, .. } => format!("{min} to {max}"),
            OptionKind::Flag { .. } => "on or off".to_owned(),
            OptionKind::Choice { names } => names.join(", "),
        }
    }
}

/// An option's value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Value of an integer option.
    Int(u64),
    /// Value of a floating-point option.
    Float(f64),
    /// Value of a flag.
    Flag(bool),
    /// Chosen word.
    Choice(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Flag(value) => f.write_str(if *value { "on" } else { "off" }),
            Self::Choice(value) => f.write_str(value),
        }
    }
}

/// A constraint between an option and other options or parts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// The option is at most this option of the same algorithm, if that has an effect.
    AtMost(&'static str),
    /// The option has an effect only if this option of the same algorithm has this value.
    With(&'static str, Value),
    /// The option has an effect only if this option of the same algorithm has another value.
    Without(&'static str, Value),
    /// The option may differ from its default only if this slot holds this algorithm, because no other algorithm uses
    /// it.
    OnlyWith(Slot, &'static str),
    /// All algorithms of a composition that have the option must have the same value.
    Shared,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(other) => write!(f, "at most {other}"),
            Self::With(other, value) => write!(f, "only with {other}={value}"),
            Self::Without(other, value) => write!(f, "not with {other}={value}"),
            Self::OnlyWith(slot, name) => write!(f, "only with {slot}={name}"),
            Self::Shared => f.write_str("the same in all parts that have it"),
        }
    }
}

/// The values of the options of one algorithm, in order, for the struct that [`options!`](crate::options) declares.
#[derive(Clone, Debug, Default)]
pub struct Values<'a>(pub(crate) slice::Iter<'a, Value>);

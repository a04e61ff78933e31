//! What the registry knows of an algorithm.

use core::{fmt, slice};

use super::Rule;
use crate::compose::{Growth, Launch, LossClassifier, Recovery, Steady};
use crate::{BuildParams, Controller};

/// Where an algorithm fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Opens the window.
    Launch,
    /// Raises it quickly.
    Growth,
    /// Holds it.
    Steady,
    /// Classifies losses.
    Loss,
    /// Owns it during repair.
    Recovery,
    /// A whole controller, which leaves no slot to others.
    Whole,
}

impl Slot {
    /// The slots of a composed controller, in the order of the long form.
    pub const COMPOSED: [Self; 5] = [Self::Launch, Self::Growth, Self::Steady, Self::Loss, Self::Recovery];

    /// The slot's name in the long form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Growth => "growth",
            Self::Steady => "steady",
            Self::Loss => "loss",
            Self::Recovery => "recovery",
            Self::Whole => "whole",
        }
    }

    /// The slot of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::COMPOSED.into_iter().chain([Self::Whole]).find(|slot| slot.name() == name)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether flows under an algorithm may share a network with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Safety {
    /// It answers congestion as others do.
    Shared,
    /// Only for a network of one's own, or where the application vouches for it.
    Private,
}

/// The type, range and default of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// A whole number.
    Int {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
        /// Without the option.
        default: u64,
    },
    /// A finite number.
    Float {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// Without the option.
        default: f64,
    },
    /// `on` or `off`.
    Flag {
        /// Without the option.
        default: bool,
    },
    /// One of these words, `[a-z0-9-]+`; the first without the option.
    Choice {
        /// The words; at least one.
        names: &'static [&'static str],
    },
}

/// An option of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Its name, `[a-z0-9-]+`.
    pub name: &'static str,
    /// Its type, range and default.
    pub kind: OptionKind,
    /// What it is, with its unit.
    pub what: &'static str,
    /// What it demands of other options and parts.
    pub rules: &'static [Rule],
}

impl OptionSpec {
    /// A whole number from `min` to `max`.
    #[must_use]
    pub const fn int(name: &'static str, min: u64, max: u64, default: u64, what: &'static str) -> Self {
        Self { name, kind: OptionKind::Int { min, max, default }, what, rules: &[] }
    }

    /// A number from `min` to `max`.
    #[must_use]
    pub const fn float(name: &'static str, min: f64, max: f64, default: f64, what: &'static str) -> Self {
        Self { name, kind: OptionKind::Float { min, max, default }, what, rules: &[] }
    }

    /// A switch.
    #[must_use]
    pub const fn flag(name: &'static str, default: bool, what: &'static str) -> Self {
        Self { name, kind: OptionKind::Flag { default }, what, rules: &[] }
    }

    /// One of `names`, of which the first is the default.
    #[must_use]
    pub const fn choice(name: &'static str, names: &'static [&'static str], what: &'static str) -> Self {
        Self { name, kind: OptionKind::Choice { names }, what, rules: &[] }
    }

    /// The same under `rules`.
    #[must_use]
    pub const fn ruled(self, rules: &'static [Rule]) -> Self {
        Self { rules, ..self }
    }

    /// The value without the option.
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

    /// The value that `text` stands for, if it is of the type and in the range.
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

    /// The values allowed, in words.
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
pub enum Value {
    /// A whole number.
    Int(u64),
    /// A finite number.
    Float(f64),
    /// A switch.
    Flag(bool),
    /// A word.
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

/// The values of the options of one algorithm, in order, for the struct that [`options!`](crate::options) declares.
#[derive(Clone, Debug, Default)]
pub struct Values<'a>(pub(super) slice::Iter<'a, Value>);

/// How an algorithm is made from its options.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// A launch.
    Launch(fn(&mut Values<'_>) -> Box<dyn Launch>),
    /// A growth.
    Growth(fn(&mut Values<'_>) -> Box<dyn Growth>),
    /// A law.
    Steady(fn(&mut Values<'_>) -> Box<dyn Steady>),
    /// A loss classifier.
    Loss(fn(&mut Values<'_>) -> Box<dyn LossClassifier>),
    /// A recovery.
    Recovery(fn(&mut Values<'_>) -> Box<dyn Recovery>),
    /// A whole controller.
    Whole(fn(&mut Values<'_>, &BuildParams) -> Box<dyn Controller>),
}

/// An algorithm in the registry.
#[derive(Debug)]
pub struct Entry {
    /// Its name, `[a-z0-9-]+`, unique in its slot.
    pub name: &'static str,
    /// Where it fits; must agree with `make`.
    pub slot: Slot,
    /// What it does, in a clause.
    pub summary: &'static str,
    /// Where it is described.
    pub reference: &'static str,
    /// Its options, in the order in which they are printed.
    pub options: &'static [OptionSpec],
    /// Compositions with it that the conformance suite runs.
    pub tested: &'static [&'static str],
    /// Whether it may share a network.
    pub safety: Safety,
    /// Its constructor.
    pub make: Make,
}

/// A composition that has a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name, `[a-z0-9-]+`.
    pub name: &'static str,
    /// The composition in the long form; slots left out are the default's.
    pub spec: &'static str,
    /// What it is, in a clause.
    pub summary: &'static str,
    /// Where it is described.
    pub reference: &'static str,
}

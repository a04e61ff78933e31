//! An algorithm's entry in the registry.

use core::fmt;

use super::{OptionSpec, Values};
use crate::compose::{Growth, Launch, LossClassifier, Recovery, Steady};
use crate::{BuildParams, Controller};

/// The part of a controller that an algorithm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// A start-up scheme.
    Launch,
    /// A slow-start variant.
    Growth,
    /// A congestion-avoidance algorithm.
    Steady,
    /// A loss classifier.
    Loss,
    /// A loss-recovery scheme.
    Recovery,
    /// A monolithic controller, which has no place for other parts.
    Whole,
}

impl Slot {
    /// The slots of a composed controller in the order of the long form.
    pub const COMPOSED: [Self; 5] = [Self::Launch, Self::Growth, Self::Steady, Self::Loss, Self::Recovery];

    /// Returns the slot's name in the long form.
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

    /// Returns the slot with this name.
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

/// Where flows under an algorithm may be used (RFC 8085, RFC 9743).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Safety {
    /// Internet-safe: it responds to congestion as other flows do.
    Shared,
    /// Controlled environments only, unless the application accepts the responsibility.
    Private,
}

/// The constructor of an algorithm, which reads the values of its options.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// A start-up scheme.
    Launch(fn(&mut Values<'_>) -> Box<dyn Launch>),
    /// A slow-start variant.
    Growth(fn(&mut Values<'_>) -> Box<dyn Growth>),
    /// A congestion-avoidance algorithm.
    Steady(fn(&mut Values<'_>) -> Box<dyn Steady>),
    /// A loss classifier.
    Loss(fn(&mut Values<'_>) -> Box<dyn LossClassifier>),
    /// A loss-recovery scheme.
    Recovery(fn(&mut Values<'_>) -> Box<dyn Recovery>),
    /// A monolithic controller.
    Whole(fn(&mut Values<'_>, &BuildParams) -> Box<dyn Controller>),
}

/// An algorithm in the registry.
#[derive(Debug)]
pub struct Entry {
    /// Its name, `[a-z0-9-]+`, unique in its slot.
    pub name: &'static str,
    /// Its slot, which must agree with `make`.
    pub slot: Slot,
    /// What it does, as a clause.
    pub summary: &'static str,
    /// The source that describes it.
    pub reference: &'static str,
    /// Its options in the order of printing, normally the `OPTIONS` of its config struct.
    pub options: &'static [OptionSpec],
    /// The compositions with it that the conformance suite runs.
    pub tested: &'static [&'static str],
    /// Where it may be used.
    pub safety: Safety,
    /// Its constructor.
    pub make: Make,
}

/// A composition that has a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name, `[a-z0-9-]+`.
    pub name: &'static str,
    /// The composition in the long form; omitted slots have their defaults.
    pub spec: &'static str,
    /// What it is, as a clause.
    pub summary: &'static str,
    /// The source that describes it.
    pub reference: &'static str,
}

//! An algorithm's entry in the registry.

use core::fmt;

use longhaul_units::named;

use super::{OptionSpec, Values};
use crate::compose::{CongestionAvoidance, LossClassifier, Recovery, SlowStart, Startup};
use crate::{BuildParams, Controller};

named! {
    /// The part of a controller that an algorithm implements.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[expect(clippy::exhaustive_enums, reason = "every composition needs an implementation for each slot")]
    pub enum Slot {
        /// A start-up scheme.
        Startup = "startup",
        /// A slow-start variant.
        SlowStart = "slow-start",
        /// A congestion-avoidance algorithm.
        Avoidance = "avoidance",
        /// Loss classifier, which identifies the cause of losses.
        Loss = "loss",
        /// A loss-recovery scheme.
        Recovery = "recovery",
        /// A monolithic controller, which has no place for other parts.
        Monolithic = "monolithic",
    }
}

impl Slot {
    /// The slots of a composed controller in the order of the long form.
    pub const COMPOSED: [Self; 5] = [Self::Startup, Self::SlowStart, Self::Avoidance, Self::Loss, Self::Recovery];

    /// Returns the slot with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::COMPOSED.into_iter().chain([Self::Monolithic]).find(|slot| slot.name() == name)
    }
}

/// Networks in which an algorithm may be used (RFC 8085, RFC 9743).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Safety {
    /// Internet-safe: it responds to congestion as other flows do.
    Internet,
    /// Controlled environments only, unless the application accepts the responsibility.
    Controlled,
}

/// The constructor of an algorithm, which reads the values of its options.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Make {
    Startup(fn(&mut Values<'_>) -> Box<dyn Startup>),
    SlowStart(fn(&mut Values<'_>) -> Box<dyn SlowStart>),
    Avoidance(fn(&mut Values<'_>) -> Box<dyn CongestionAvoidance>),
    Loss(fn(&mut Values<'_>) -> Box<dyn LossClassifier>),
    Recovery(fn(&mut Values<'_>) -> Box<dyn Recovery>),
    /// A monolithic controller, which is given its name with its options.
    Monolithic(fn(String, &mut Values<'_>, &BuildParams) -> Box<dyn Controller>),
}

/// An algorithm in the registry. Unless declared otherwise, it has no options and is for controlled environments only.
#[non_exhaustive]
pub struct Entry {
    /// Name, `[a-z0-9-]+`, unique in the entry's slot.
    pub name: &'static str,
    /// Description of the algorithm, as a clause.
    pub summary: &'static str,
    /// The source that describes it.
    pub reference: &'static str,
    /// Options in the order of printing, normally the `OPTIONS` of the entry's config struct.
    pub options: &'static [OptionSpec],
    /// Compositions with the algorithm that the conformance suite runs.
    pub tested: &'static [&'static str],
    /// Networks in which it may be used.
    pub safety: Safety,
    /// Whether the algorithm may leave the window unchanged at a loss, or reduce it to an estimate.
    pub keeps_at_losses: bool,
    /// Whether the window may increase by more than the delivered bytes.
    pub grows_beyond_acks: bool,
    pub(crate) make: Make,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).field("make", &self.make).finish_non_exhaustive()
    }
}

impl Entry {
    /// A start-up scheme that `make` builds, without options.
    #[must_use]
    pub const fn startup(name: &'static str, make: fn(&mut Values<'_>) -> Box<dyn Startup>) -> Self {
        Self::new(name, Make::Startup(make))
    }

    /// A slow-start variant that `make` builds, without options.
    #[must_use]
    pub const fn slow_start(name: &'static str, make: fn(&mut Values<'_>) -> Box<dyn SlowStart>) -> Self {
        Self::new(name, Make::SlowStart(make))
    }

    /// A congestion-avoidance algorithm that `make` builds, without options.
    #[must_use]
    pub const fn avoidance(name: &'static str, make: fn(&mut Values<'_>) -> Box<dyn CongestionAvoidance>) -> Self {
        Self::new(name, Make::Avoidance(make))
    }

    /// A loss classifier that `make` builds, without options.
    #[must_use]
    pub const fn loss(name: &'static str, make: fn(&mut Values<'_>) -> Box<dyn LossClassifier>) -> Self {
        Self::new(name, Make::Loss(make))
    }

    /// A loss-recovery scheme that `make` builds, without options.
    #[must_use]
    pub const fn recovery(name: &'static str, make: fn(&mut Values<'_>) -> Box<dyn Recovery>) -> Self {
        Self::new(name, Make::Recovery(make))
    }

    /// A monolithic controller that `make` builds, without options. `make` receives the controller's name with its
    /// options.
    #[must_use]
    pub const fn monolithic(
        name: &'static str,
        make: fn(String, &mut Values<'_>, &BuildParams) -> Box<dyn Controller>,
    ) -> Self {
        Self::new(name, Make::Monolithic(make))
    }

    const fn new(name: &'static str, make: Make) -> Self {
        Self {
            name,
            summary: "",
            reference: "",
            options: &[],
            tested: &[],
            safety: Safety::Controlled,
            keeps_at_losses: false,
            grows_beyond_acks: false,
            make,
        }
    }

    /// Returns the same entry with a summary, a clause that describes the algorithm, and the source that describes it.
    #[must_use]
    pub const fn described(self, summary: &'static str, reference: &'static str) -> Self {
        Self { summary, reference, ..self }
    }

    /// Returns the same entry with these options.
    #[must_use]
    pub const fn with_options(self, options: &'static [OptionSpec]) -> Self {
        Self { options, ..self }
    }

    /// Returns the same entry with the compositions that are tested.
    #[must_use]
    pub const fn tested_in(self, tested: &'static [&'static str]) -> Self {
        Self { tested, ..self }
    }

    /// Returns the same entry as an internet-safe one ([`Safety::Internet`]).
    #[must_use]
    pub const fn internet_safe(self) -> Self {
        Self { safety: Safety::Internet, ..self }
    }

    /// Returns the same entry for an algorithm that may keep the window at a loss, or lower it to an estimate. The
    /// conformance suite does not expect a smaller threshold from it.
    #[must_use]
    pub const fn keeping_at_losses(self) -> Self {
        Self { keeps_at_losses: true, ..self }
    }

    /// Returns the same entry for an algorithm whose window may increase by more than the delivered bytes, which the
    /// conformance suite otherwise forbids. Start-up schemes and monolithic controllers need not declare it.
    #[must_use]
    pub const fn growing_beyond_acks(self) -> Self {
        Self { grows_beyond_acks: true, ..self }
    }

    /// Returns the slot of the algorithm.
    #[must_use]
    pub const fn slot(&self) -> Slot {
        match self.make {
            Make::Startup(_) => Slot::Startup,
            Make::SlowStart(_) => Slot::SlowStart,
            Make::Avoidance(_) => Slot::Avoidance,
            Make::Loss(_) => Slot::Loss,
            Make::Recovery(_) => Slot::Recovery,
            Make::Monolithic(_) => Slot::Monolithic,
        }
    }
}

/// A composition with its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// Name of the profile, `[a-z0-9-]+`.
    pub name: &'static str,
    /// The composition in the long form; omitted slots have their defaults.
    pub spec: &'static str,
    /// Description of the profile, as a clause.
    pub summary: &'static str,
    /// The source that describes it.
    pub reference: &'static str,
}

impl Profile {
    /// A composition in the long form with a name, a summary, which is a clause that describes it, and the source that
    /// describes it.
    #[must_use]
    pub const fn new(name: &'static str, spec: &'static str, summary: &'static str, reference: &'static str) -> Self {
        Self { name, spec, summary, reference }
    }
}

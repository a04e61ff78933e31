//! Parsed name of a controller, and its construction.

use core::str::FromStr;

use super::table::BUILT_IN;
use super::{Registry, SpecError, known};
use crate::avoidance::ECN_BETA;
use crate::compose::{Composed, Stages};
use crate::describe::{Entry, FromValue, Make, Safety, Slot, Value, Values};
use crate::{BuildParams, Controller, ControllerFactory};

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(super) entry: &'static Entry,
    /// One value for each of the entry's options.
    pub(super) values: Vec<Value>,
}

impl Part {
    /// Returns `entry` with its default options.
    pub(super) fn new(entry: &'static Entry) -> Self {
        Self { entry, values: entry.options.iter().map(super::OptionSpec::default_value).collect() }
    }

    fn values(&self) -> Values<'_> {
        Values(self.values.iter())
    }

    /// Returns the value of [`ECN_BETA`] if the composition handles ECN marks for the algorithm.
    fn mark_share(&self) -> Option<f64> {
        let (_, value) = self.options().find(|(option, _)| **option == ECN_BETA)?;
        Some(f64::from_value(value)).filter(|share| *share > 0.0)
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        (self.entry.slot(), self.entry.name, &self.values) == (other.entry.slot(), other.entry.name, &other.values)
    }
}

/// Parsed name of a congestion controller, which can be printed and built.
///
/// ```
/// use longhaul_cc::registry::Spec;
/// let spec: Spec = "slow-start=slow-start(iw=10),avoidance=new-reno,recovery=rfc6675".parse()?;
/// assert_eq!(spec.to_string(), "new-reno+rfc6675");
/// let controller = spec.build(&longhaul_cc::BuildParams::default());
/// assert_eq!(controller.name(), "new-reno+rfc6675");
/// # Ok::<(), longhaul_cc::registry::SpecError>(())
/// ```
#[derive(Clone)]
pub struct Spec {
    /// The five stages of [`Slot::COMPOSED`] in that order, or one monolithic controller.
    pub(super) parts: Vec<Part>,
    /// Registry whose names are used to print it.
    pub(super) registry: Registry,
}

longhaul_units::debug_in_part!(Spec; parts; registry);

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Spec {
    /// Returns the monolithic controller of `entry` with its default options.
    pub(crate) fn of(entry: &'static Entry) -> Self {
        Self { parts: vec![Part::new(entry)], registry: BUILT_IN }
    }

    /// Returns the algorithms: one for each of [`Slot::COMPOSED`], or one monolithic controller.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry> {
        self.parts.iter().map(|part| part.entry)
    }

    /// Returns the algorithm in `slot`, if there is one.
    #[must_use]
    pub fn entry(&self, slot: Slot) -> Option<&'static Entry> {
        self.part(slot).map(|part| part.entry)
    }

    pub(super) fn part(&self, slot: Slot) -> Option<&Part> {
        self.parts.iter().find(|part| part.entry.slot() == slot)
    }

    /// Returns the safety class: internet-safe if all algorithms are.
    #[must_use]
    pub fn safety(&self) -> Safety {
        self.parts.iter().map(|part| part.entry.safety).max().unwrap_or(Safety::Controlled)
    }

    /// Returns whether the conformance suite runs exactly this composition.
    #[must_use]
    pub fn is_tested(&self) -> bool {
        let is_self = |text: &str| self.registry.parse(text).is_ok_and(|spec| spec == *self);
        self.registry.profiles.iter().any(|profile| is_self(profile.name))
            || self.parts.iter().flat_map(|part| part.entry.tested).any(|text| is_self(text))
    }

    /// Builds a controller, in the state before its handshake.
    #[must_use]
    pub fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        self.build_named(self.to_string(), params)
    }

    /// Returns the stages of a composition, of which some may be replaced, or `None` for a monolithic controller.
    ///
    /// ```
    /// use longhaul_cc::compose::Composed;
    /// use longhaul_cc::{BuildParams, registry::Spec};
    /// let mut stages = "new-reno".parse::<Spec>()?.stages().expect("a composition");
    /// stages.recovery = "rfc6675".parse::<Spec>()?.stages().expect("a composition").recovery;
    /// let controller = Composed::new(stages, &BuildParams::default());
    /// # Ok::<(), longhaul_cc::registry::SpecError>(())
    /// ```
    #[must_use]
    pub fn stages(&self) -> Option<Stages> {
        self.stages_named(self.to_string())
    }

    fn stages_named(&self, name: String) -> Option<Stages> {
        let mut stages = Stages::new(name);
        for part in &self.parts {
            let values = &mut part.values();
            match part.entry.make {
                Make::Startup(make) => stages.startup = make(values),
                Make::SlowStart(make) => stages.slow_start = make(values),
                Make::Avoidance(make) => stages.avoidance = make(values),
                Make::Loss(make) => stages.classifier = make(values),
                Make::Recovery(make) => stages.recovery = make(values),
                Make::Monolithic(_) => return None,
            }
        }
        Some(stages)
    }

    /// Builds a controller with a name that is already known, because finding the shortest name takes longer than the
    /// rest of the construction.
    pub(crate) fn build_named(&self, name: String, params: &BuildParams) -> Box<dyn Controller> {
        if let [part] = &self.parts[..]
            && let Make::Monolithic(make) = part.entry.make
        {
            return make(name, &mut part.values(), params);
        }
        let stages = self.stages_named(name).unwrap_or_default();
        let mark_share = self.part(Slot::Avoidance).and_then(Part::mark_share);
        Box::new(Composed::new(stages, params).keeping_at_marks(mark_share))
    }
}

/// CUBIC with HyStart++ and PRR. The transport adds RACK.
impl Default for Spec {
    fn default() -> Self {
        known().default_spec()
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        known().parse(text)
    }
}

impl ControllerFactory for Spec {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Self::build(self, params)
    }

    fn name(&self) -> String {
        self.to_string()
    }

    fn safety(&self) -> Safety {
        Self::safety(self)
    }
}

//! Choice of a congestion controller.

use std::fmt;
use std::str::FromStr;

use longhaul_cc::registry::{self, Entry, Profile, Slot, Spec};

/// A choice of congestion controller; cheap to clone.
///
/// The controllers that suit most applications have a constructor: [`copa_cubic`](Self::copa_cubic), the default,
/// [`cubic`](Self::cubic), [`bbr`](Self::bbr) and [`new_reno`](Self::new_reno). All others, and all options, are chosen
/// by text, for instance from a command line or a configuration file: the name of a combination, or several names
/// joined by `+`, each of which may have options. [`algorithms`](Self::algorithms) returns the available names, and
/// [`list`](Self::list) prints them.
///
/// **The text is not covered by semantic versioning**: a later version may rename or remove an algorithm or an option,
/// or change the grammar. The constructors are covered. The [`name`](Self::name) of a choice made by a constructor can
/// be parsed.
///
/// ```
/// use longhaul::Congestion;
///
/// assert_eq!(Congestion::default().name(), Congestion::copa_cubic().name());
/// let chosen: Congestion = "slow-start(iw=4)+new-reno".parse()?;
/// assert!(chosen.is_internet_safe());
/// assert!("warp-drive".parse::<Congestion>().is_err());
/// # Ok::<(), longhaul::ParseCongestionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Congestion(pub(crate) longhaul_cc::Congestion);

impl Congestion {
    /// Copa while the flow is alone on the bottleneck, CUBIC while it shares it. The default.
    #[must_use]
    pub fn copa_cubic() -> Self {
        Self(longhaul_cc::Congestion::copa_cubic())
    }

    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406) and PRR (RFC 9937), the standard of the Internet.
    #[must_use]
    pub fn cubic() -> Self {
        Self::registered("cubic")
    }

    /// BBR version 3 (draft-ietf-ccwg-bbr).
    #[must_use]
    pub fn bbr() -> Self {
        Self::registered("bbr")
    }

    /// NewReno (RFC 5681) with PRR (RFC 9937), the baseline of the standards.
    #[must_use]
    pub fn new_reno() -> Self {
        Self::registered("new-reno")
    }

    /// Returns the choice with a name that is known to be in the registry; a test parses each of these names.
    fn registered(name: &str) -> Self {
        name.parse().unwrap_or_default()
    }

    /// Returns the text that names the controller.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Returns whether flows of this controller may share a network with others (RFC 8085, RFC 9743). Otherwise it is
    /// for controlled environments only, and
    /// [`Config::allow_unsafe_congestion`](crate::Config::allow_unsafe_congestion) must allow it.
    #[must_use]
    pub fn is_internet_safe(&self) -> bool {
        self.0.safety() == registry::Safety::Internet
    }

    /// Returns all that text can name: the combinations, then the algorithms of each kind.
    pub fn algorithms() -> impl Iterator<Item = CongestionAlgorithm> {
        let known = registry::known();
        let combinations = known.profiles.iter().filter_map(CongestionAlgorithm::combination);
        combinations.chain(known.entries.iter().map(|entry| CongestionAlgorithm::part(entry)))
    }

    /// Returns a text of several pages with all combinations and algorithms, their options, references and safety. The
    /// format is for people and may change.
    #[must_use]
    pub fn list() -> String {
        registry::list()
    }
}

/// [`copa_cubic`](Congestion::copa_cubic).
impl Default for Congestion {
    fn default() -> Self {
        Self::copa_cubic()
    }
}

impl FromStr for Congestion {
    type Err = ParseCongestionError;

    fn from_str(text: &str) -> Result<Self, ParseCongestionError> {
        text.parse().map(Self).map_err(ParseCongestionError)
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Uses a controller that the application implements, or any other that `longhaul-cc` builds.
#[cfg(feature = "unstable-controllers")]
impl From<longhaul_cc::Congestion> for Congestion {
    fn from(congestion: longhaul_cc::Congestion) -> Self {
        Self(congestion)
    }
}

/// Error for text that names no congestion controller. The message states the fault and the available names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct ParseCongestionError(registry::SpecError);

/// A combination or an algorithm that the text of a [`Congestion`] can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionAlgorithm {
    name: &'static str,
    kind: CongestionKind,
    summary: &'static str,
    reference: &'static str,
    is_internet_safe: bool,
}

/// The part of congestion control that an algorithm implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CongestionKind {
    /// A combination of algorithms with its own name.
    Combination,
    /// A start-up scheme, which determines the first round trips.
    Startup,
    /// A slow-start variant.
    SlowStart,
    /// A congestion-avoidance algorithm.
    CongestionAvoidance,
    /// A loss classifier, which distinguishes congestion losses from other losses.
    LossClassifier,
    /// A loss-recovery scheme.
    Recovery,
    /// A monolithic controller, which cannot be combined with other algorithms.
    Monolithic,
}

impl CongestionAlgorithm {
    fn combination(profile: &Profile) -> Option<Self> {
        // The profiles of the registry are valid.
        let spec: Spec = profile.spec.parse().ok()?;
        let &Profile { name, summary, reference, .. } = profile;
        let is_internet_safe = spec.safety() == registry::Safety::Internet;
        Some(Self { name, kind: CongestionKind::Combination, summary, reference, is_internet_safe })
    }

    fn part(entry: &Entry) -> Self {
        let &Entry { name, summary, reference, safety, .. } = entry;
        let kind = match entry.slot() {
            Slot::Startup => CongestionKind::Startup,
            Slot::SlowStart => CongestionKind::SlowStart,
            Slot::Avoidance => CongestionKind::CongestionAvoidance,
            Slot::Loss => CongestionKind::LossClassifier,
            Slot::Recovery => CongestionKind::Recovery,
            Slot::Monolithic => CongestionKind::Monolithic,
        };
        Self { name, kind, summary, reference, is_internet_safe: safety == registry::Safety::Internet }
    }

    /// Returns the name, which consists of lower-case letters, digits and hyphens. Names are unique per kind.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> CongestionKind {
        self.kind
    }

    /// Returns a short description for people.
    #[must_use]
    pub const fn summary(&self) -> &'static str {
        self.summary
    }

    /// Returns the RFCs, drafts or papers that specify the algorithm.
    #[must_use]
    pub const fn reference(&self) -> &'static str {
        self.reference
    }

    /// Returns whether flows of the algorithm may share a network with others; see [`Congestion::is_internet_safe`].
    #[must_use]
    pub const fn is_internet_safe(&self) -> bool {
        self.is_internet_safe
    }
}

/// Error for a congestion controller for controlled environments only that was not explicitly allowed.
///
/// This is the inner error of the [`std::io::Error`] that connecting or listening then returns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "congestion controller `{name}` is not safe on a network shared with others; \
     use Config::allow_unsafe_congestion to allow it in a controlled environment"
)]
pub struct UnsafeCongestion {
    pub(crate) name: String,
}

impl UnsafeCongestion {
    /// Returns the name of the congestion controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list for `--help` needs every name once, and the safety that a socket checks.
    #[test]
    fn each_combination_can_be_parsed_and_has_the_safety_of_its_controller() {
        let combinations: Vec<_> =
            Congestion::algorithms().filter(|known| known.kind() == CongestionKind::Combination).collect();
        assert_eq!(combinations.len(), registry::known().profiles.len());
        for known in combinations {
            let congestion: Congestion = known.name().parse().unwrap();
            assert_eq!(congestion.is_internet_safe(), known.is_internet_safe(), "{known:?}");
            assert_eq!(congestion.to_string(), congestion.name());
        }
        assert!(Congestion::algorithms().all(|known| Congestion::list().contains(known.name())));
    }

    #[test]
    fn each_constructor_chooses_the_controller_of_its_name() {
        for (choice, name) in [
            (Congestion::copa_cubic(), "copa-cubic"),
            (Congestion::cubic(), "cubic"),
            (Congestion::bbr(), "bbr"),
            (Congestion::new_reno(), "new-reno"),
        ] {
            assert_eq!(choice.name(), name);
            assert_eq!(name.parse::<Congestion>().unwrap().name(), name);
            assert!(choice.is_internet_safe(), "{name}");
        }
    }

    #[test]
    fn each_algorithm_has_the_kind_and_the_safety_of_its_entry() {
        use CongestionKind::{CongestionAvoidance, LossClassifier, Monolithic, Recovery, SlowStart, Startup};
        let kinds = [Startup, SlowStart, CongestionAvoidance, LossClassifier, Recovery, Monolithic];
        let slots: Vec<Slot> = Slot::COMPOSED.into_iter().chain([Slot::Monolithic]).collect();
        let kind = |slot| kinds[slots.iter().position(|known| *known == slot).unwrap()];
        let parts: Vec<_> = Congestion::algorithms()
            .filter(|known| known.kind() != CongestionKind::Combination)
            .map(|known| (known.name(), known.kind(), known.is_internet_safe()))
            .collect();
        let entries = registry::known().entries.iter();
        let expected: Vec<_> =
            entries.map(|entry| (entry.name, kind(entry.slot()), entry.safety == registry::Safety::Internet)).collect();
        assert_eq!(parts, expected);
    }
}

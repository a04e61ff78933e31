//! Registration of algorithms of other crates.

use std::sync::{PoisonError, RwLock};

use super::table::BUILT_IN;
use super::{Registry, SpecError};
use crate::describe::{Entry, Profile, Slot};

static KNOWN: RwLock<Registry> = RwLock::new(BUILT_IN);

/// Reason why an algorithm cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name does not consist of lower-case letters, digits and hyphens.
    #[error("`{name}` is not a name: it has to consist of lower-case letters, digits and hyphens")]
    BadName {
        /// The invalid name.
        name: &'static str,
    },
    /// The name is already in use.
    #[error("the name `{name}` is taken")]
    Taken {
        /// The name in use.
        name: &'static str,
    },
    /// The composition of a profile is not valid.
    #[error("the profile `{name}` means nothing: {error}")]
    Profile {
        /// Name of the profile.
        name: &'static str,
        /// Error in the composition of the profile.
        error: Box<SpecError>,
    },
}

/// Returns the algorithms that text can name in this process: those of this crate, then the [registered](register)
/// ones.
#[must_use]
pub fn known() -> Registry {
    *KNOWN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Registers algorithms and profiles of another crate for the whole process, until it ends. Call it at the beginning of
/// `main`, before the first name is parsed.
///
/// ```
/// use longhaul_cc::Congestion;
/// use longhaul_cc::compose::{CongestionEvent, Stage, CongestionAvoidance, AvoidanceStep, Target, Window};
/// use longhaul_cc::registry::{Entry, OptionSpec, register};
/// use longhaul_cc::compose::{ECN_BETA, additive};
/// use longhaul_cc::{Ack, Path, options};
/// use longhaul_units::Bytes;
///
/// options! {
///     struct Gentle {
///         alpha: f64 = OptionSpec::float("alpha", 0.1, 1.0, 0.5, "segments per round trip"),
///         _ = ECN_BETA,
///     }
/// }
///
/// impl Stage for Gentle {
/// }
///
/// impl CongestionAvoidance for Gentle {
///     fn on_ack(&mut self, _: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
///         additive(window, self.alpha, grow, path.mss);
///         AvoidanceStep::Stay
///     }
///     fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
///         Target::multiplicative(event, 0.7, path.mss)
///     }
/// }
///
/// static ENTRY: Entry = Entry::avoidance("gentle", |values| Box::new(Gentle::from_values(values)))
///     .described("increases by half a segment per RTT; decreases by three tenths", "an example")
///     .with_options(Gentle::OPTIONS)
///     .tested_in(&["slow-start+gentle"])
///     .internet_safe();
///
/// register(&[&ENTRY], &[])?;
/// let congestion: Congestion = "slow-start+gentle(alpha=0.3,ecn-beta=0.85)".parse()?;
/// assert_eq!(congestion.to_string(), "slow-start+gentle(alpha=0.3,ecn-beta=0.85)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails as [`Registry::with`] does. Nothing is registered in this case.
pub fn register(entries: &[&'static Entry], profiles: &[Profile]) -> Result<(), RegisterError> {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    *known = known.with(entries, profiles)?;
    Ok(())
}

impl Registry {
    /// Returns a registry with these algorithms and profiles in addition. Call it once per process: its tables are
    /// never freed.
    ///
    /// A new algorithm may have the name of a known one in another slot if there is also a profile of this name, as for
    /// `new-reno`.
    ///
    /// # Errors
    /// Returns an error if a name is invalid or in use, or if the composition of a profile is not valid.
    pub fn with(&self, entries: &[&'static Entry], profiles: &[Profile]) -> Result<Self, RegisterError> {
        let has_profile = |name: &str| self.profiles.iter().any(|profile| profile.name == name);
        // Names must be valid and new. An algorithm may have the name of one in another slot if the name alone means a
        // profile: all text that is valid without it then keeps its meaning.
        let names = entries.iter().map(|entry| (entry.name, Some(entry.slot())));
        for (name, slot) in names.chain(profiles.iter().map(|profile| (profile.name, None))) {
            if !is_name(name) {
                return Err(RegisterError::BadName { name });
            }
            let mut same = self.entries.iter().filter(|entry| entry.name == name);
            let is_taken = match slot {
                Some(slot) if has_profile(name) => same.any(|entry| [slot, Slot::Monolithic].contains(&entry.slot())),
                Some(_) => same.next().is_some(),
                None => has_profile(name) || same.next().is_some(),
            };
            if is_taken {
                return Err(RegisterError::Taken { name });
            }
        }
        // Entries must be unique in their slot.
        for (number, entry) in entries.iter().enumerate() {
            let (name, slot) = (entry.name, entry.slot());
            if entries.iter().take(number).any(|other| (other.name, other.slot()) == (name, slot)) {
                return Err(RegisterError::Taken { name });
            }
        }
        for (number, profile) in profiles.iter().enumerate() {
            if profiles.iter().take(number).any(|other| other.name == profile.name) {
                return Err(RegisterError::Taken { name: profile.name });
            }
        }
        let all = Self {
            entries: Vec::leak(self.entries.iter().copied().chain(entries.iter().copied()).collect()),
            profiles: Vec::leak(self.profiles.iter().copied().chain(profiles.iter().copied()).collect()),
        };
        // The compositions of profiles may use the new algorithms, so they are parsed with them.
        for Profile { name, spec, .. } in profiles {
            all.parse(spec).map_err(|error| RegisterError::Profile { name, error: Box::new(error) })?;
        }
        Ok(all)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

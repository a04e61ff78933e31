//! The table of algorithms.

use core::fmt;

use super::spec::{Part, Spec};
use crate::describe::{Entry, Profile, Safety, Slot};
use crate::{avoidance, bbr, classify, copa, copa_cubic, ledbat, recovery, slow_start, startup};

/// The algorithms of this crate, one line each.
pub(super) const BUILT_IN: Registry = Registry {
    entries: &[
        &startup::none::ENTRY,
        &startup::swift_start::ENTRY,
        &startup::swift_start::hardened::ENTRY,
        &startup::careful_resume::ENTRY,
        &startup::cached_start::ENTRY,
        &slow_start::hystart_pp::ENTRY,
        &slow_start::standard::ENTRY,
        &slow_start::limited_slow_start::ENTRY,
        &ledbat::START,
        &avoidance::cubic::ENTRY,
        &avoidance::new_reno::ENTRY,
        &ledbat::ENTRY,
        &classify::none::ENTRY,
        &classify::bbe::ENTRY,
        &recovery::prr::ENTRY,
        &recovery::rfc6675::ENTRY,
        &bbr::v3::ENTRY,
        &copa::ENTRY,
        &copa_cubic::ENTRY,
    ],
    profiles: &[
        Profile {
            name: "cubic",
            spec: "slow-start=hystart-pp,avoidance=cubic,recovery=prr",
            summary: "the Internet's most common controller",
            reference: "RFC 9438, RFC 9406, RFC 9937",
        },
        Profile {
            name: "new-reno",
            spec: "slow-start=slow-start,avoidance=new-reno,recovery=prr",
            summary: "the baseline of the standards, with current recovery",
            reference: "RFC 5681, RFC 9937",
        },
        Profile {
            name: "bbr",
            spec: "monolithic=bbr",
            summary: "model-based congestion control, bounded by the loss that it causes",
            reference: "draft-ietf-ccwg-bbr",
        },
        Profile {
            name: "ledbat-plus-plus",
            spec: "slow-start=ledbat-start,avoidance=ledbat-plus-plus,recovery=prr",
            summary: "for background transfers: yields to all other flows",
            reference: "draft-irtf-iccrg-ledbat-plus-plus-06, RFC 6817",
        },
        Profile {
            name: "copa",
            spec: "monolithic=copa",
            summary: "keeps the queue short, and its share beside buffer-filling flows",
            reference: "Arun, Balakrishnan, NSDI 2018",
        },
        Profile {
            name: "copa-cubic",
            spec: "monolithic=copa-cubic",
            summary: "the default: fast, with a short queue; ignores random losses; CUBIC where others fill the queue",
            reference: "Arun, Balakrishnan, NSDI 2018; RFC 9438",
        },
    ],
};

/// A set of algorithms and profiles, by which text names controllers. It is cheap to copy.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Registry {
    /// All algorithms. The first of each slot is that slot's default.
    pub entries: &'static [&'static Entry],
    /// All profiles.
    pub profiles: &'static [Profile],
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

impl Registry {
    /// A registry of these algorithms and profiles.
    #[must_use]
    pub const fn new(entries: &'static [&'static Entry], profiles: &'static [Profile]) -> Self {
        Self { entries, profiles }
    }

    /// Returns the algorithms of `slot`, its default first.
    pub fn of_slot(self, slot: Slot) -> impl Iterator<Item = &'static Entry> {
        self.entries.iter().copied().filter(move |entry| entry.slot() == slot)
    }

    /// Returns the composition of the first algorithm of every slot.
    pub(super) fn default_spec(&self) -> Spec {
        let first = |slot| self.of_slot(slot).next().map(Part::new);
        Spec { parts: Slot::COMPOSED.into_iter().filter_map(first).collect(), registry: *self }
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "profiles")?;
        for profile in self.profiles {
            writeln!(f, "  {:<14} {}  [{}]", profile.name, profile.summary, profile.reference)?;
            writeln!(f, "  {:<14} = {}", "", profile.spec)?;
        }
        for slot in Slot::COMPOSED.into_iter().chain([Slot::Monolithic]) {
            if self.of_slot(slot).next().is_some() {
                writeln!(f, "{slot}")?;
            }
            for entry in self.of_slot(slot) {
                write_entry(f, entry)?;
            }
        }
        Ok(())
    }
}

fn write_entry(f: &mut fmt::Formatter<'_>, entry: &Entry) -> fmt::Result {
    writeln!(f, "  {:<14} {}  [{}]", entry.name, entry.summary, entry.reference)?;
    for option in entry.options {
        let default = option.default_value();
        let rules: String = option.rules.iter().map(|rule| format!("; {rule}")).collect();
        writeln!(f, "  {:<14} ({}={default}: {}; {}{rules})", "", option.name, option.what, option.range())?;
    }
    if !entry.tested.is_empty() {
        writeln!(f, "  {:<14} tested: {}", "", entry.tested.join(", "))?;
    }
    if entry.safety == Safety::Controlled {
        writeln!(f, "  {:<14} not for shared networks", "")?;
    }
    Ok(())
}

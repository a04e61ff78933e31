//! The table of algorithms.

use core::fmt;

use super::entry::{Entry, Profile, Safety, Slot};
use super::spec::{Part, Spec};
use crate::{classify, growth, launch, recovery, steady};

/// The algorithms of this crate: one line each.
pub(super) static BUILT_IN: Registry = Registry {
    entries: &[
        &launch::none::ENTRY,
        &growth::hystart_pp::ENTRY,
        &growth::slow_start::ENTRY,
        &steady::cubic::ENTRY,
        &steady::new_reno::ENTRY,
        &classify::none::ENTRY,
        &recovery::prr::ENTRY,
        &recovery::rfc6675::ENTRY,
        &recovery::new_reno::ENTRY,
    ],
    profiles: &[
        Profile {
            name: "cubic",
            spec: "growth=hystart-pp,steady=cubic,recovery=prr",
            summary: "the default, and the Internet's",
            reference: "RFC 9438, RFC 9406, RFC 9937",
        },
        Profile {
            name: "new-reno",
            spec: "growth=slow-start,steady=new-reno,recovery=prr",
            summary: "the standard's baseline with today's recovery",
            reference: "RFC 5681, RFC 9937",
        },
        Profile {
            name: "reno-classic",
            spec: "growth=slow-start(iw=3,l=1),steady=new-reno,recovery=new-reno",
            summary: "TCP without SACK, as papers of the early 2000s compare with",
            reference: "RFC 5681, RFC 3390, RFC 6582",
        },
    ],
};

/// A set of algorithms and profiles.
#[derive(Debug)]
pub struct Registry {
    /// All algorithms. The first of each slot is that slot's default.
    pub entries: &'static [&'static Entry],
    /// All profiles.
    pub profiles: &'static [Profile],
}

impl Registry {
    /// The algorithms of `slot`, its default first.
    pub fn of_slot(&self, slot: Slot) -> impl Iterator<Item = &'static Entry> {
        self.entries.iter().copied().filter(move |entry| entry.slot == slot)
    }

    /// The first algorithm of every slot.
    pub(super) fn default_spec(&self) -> Spec {
        let first = |slot| self.of_slot(slot).next().map(Part::new);
        Spec { parts: Slot::COMPOSED.into_iter().filter_map(first).collect() }
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "profiles")?;
        for profile in self.profiles {
            writeln!(f, "  {:<14} {}  [{}]", profile.name, profile.summary, profile.reference)?;
            writeln!(f, "  {:<14} = {}", "", profile.spec)?;
        }
        for slot in Slot::COMPOSED.into_iter().chain([Slot::Whole]) {
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
        writeln!(f, "  {:<14} ({}={default}: {}; {})", "", option.name, option.what, option.range())?;
    }
    if entry.safety == Safety::Private {
        writeln!(f, "  {:<14} not for shared networks", "")?;
    }
    Ok(())
}

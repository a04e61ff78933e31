//! What there is to measure: each name of the registry, as a controller and as a page of the documentation.

use anyhow::{Result, bail};
use longhaul_cc::registry::{Entry, Slot, SpecError};
use longhaul_cc::{Congestion, registry};

/// Names with commas between them, to which a bench is confined.
const CONTROLLERS: &str = "LONGHAUL_BENCH_CONTROLLERS";

/// A composition, and the pages in `docs/algorithms` that it is measured for.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The shortest name of the composition.
    pub name: String,
    /// Pages, by their names without `.md`; the first is the one that is most about it.
    pub pages: Vec<&'static str>,
    /// The composition.
    pub congestion: Congestion,
}

impl Subject {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.pages.contains(&name)
    }
}

/// Every profile, then everything else in the registry in a composition that shows it: a stage beside `new-reno`'s other
/// stages, `hybla` with its own start. What comes to the same composition is one subject.
pub(crate) fn all() -> Result<Vec<Subject>, SpecError> {
    let profiles = registry::built_in().profiles.iter().map(|profile| (profile.name, profile.name.to_owned()));
    let others = registry::built_in().entries.iter().filter_map(|entry| Some((entry.name, composition(entry)?)));
    let mut subjects: Vec<Subject> = Vec::new();
    for (page, text) in profiles.chain(others) {
        let congestion: Congestion = text.parse()?;
        let name = congestion.name();
        match subjects.iter_mut().find(|subject| subject.name == name) {
            Some(subject) if !subject.pages.contains(&page) => subject.pages.push(page),
            Some(_) => {}
            None => subjects.push(Subject { name, pages: vec![page], congestion }),
        }
    }
    Ok(subjects)
}

/// Those that are laws or whole controllers with the stages that suit them: the profiles, and laws without one.
pub(crate) fn laws() -> Result<Vec<Subject>, SpecError> {
    let is_law = |page: &str| {
        let profile = registry::built_in().profiles.iter().any(|profile| profile.name == page);
        profile || registry::built_in().of_slot(Slot::Steady).any(|entry| entry.name == page)
    };
    Ok(all()?.into_iter().filter(|subject| subject.pages.iter().any(|page| is_law(page))).collect())
}

/// Those of `subjects` that the environment asks for, all if it says nothing; and whether it said something.
///
/// # Errors
/// A name that is none.
pub(crate) fn chosen(subjects: Vec<Subject>) -> Result<(Vec<Subject>, bool)> {
    let Ok(text) = std::env::var(CONTROLLERS) else { return Ok((subjects, false)) };
    let names: Vec<_> = text.split(',').map(str::trim).collect();
    if let Some(name) = names.iter().find(|name| !subjects.iter().any(|subject| subject.is_called(name))) {
        bail!("{CONTROLLERS}: there is no {name}");
    }
    let wanted = |subject: &Subject| names.iter().any(|name| subject.is_called(name));
    Ok((subjects.into_iter().filter(wanted).collect(), true))
}

/// A composition that shows `entry`; `None` if a profile of the same name does.
fn composition(entry: &Entry) -> Option<String> {
    let name = entry.name;
    if registry::built_in().profiles.iter().any(|profile| profile.name == name) {
        return None;
    }
    Some(match entry.slot {
        Slot::Whole => name.to_owned(),
        Slot::Steady => entry.tested.first().copied().unwrap_or(name).to_owned(),
        Slot::Growth => format!("growth={name},steady=new-reno"),
        slot => format!("growth=slow-start,steady=new-reno,{slot}={name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_registry_is_somebodys_page() {
        let subjects = all().unwrap();
        let names = registry::built_in().entries.iter().map(|entry| entry.name);
        for name in names.chain(registry::built_in().profiles.iter().map(|profile| profile.name)) {
            assert_eq!(subjects.iter().filter(|subject| subject.pages.contains(&name)).count(), 1, "{name}");
        }
        let new_reno = subjects.iter().find(|subject| subject.name == "new-reno").unwrap();
        assert_eq!(new_reno.pages, ["new-reno", "none", "slow-start", "prr"]);
    }

    #[test]
    fn laws_are_those_that_hold_a_window() {
        let laws = laws().unwrap();
        let has = |page| laws.iter().any(|subject| subject.pages.contains(&page));
        assert!(has("cubic") && has("scalable") && has("hybla") && has("udt"));
        assert!(!has("astart") && !has("bbe") && !has("rfc6675"));
    }
}

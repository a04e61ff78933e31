//! Compositions by chance.

use longhaul_cc::registry::{Slot, Spec, built_in};
use longhaul_cc::{BuildParams, Demands, NetworkHeaderKind};
use longhaul_link::Random;

/// Everything that the registry's entries call tested, and its profiles.
fn tested() -> Vec<&'static str> {
    let registry = built_in();
    let tested = registry.entries.iter().flat_map(|entry| entry.tested.iter().copied());
    registry.profiles.iter().map(|profile| profile.name).chain(tested).collect()
}

/// A tested composition, or one algorithm for each slot. Options that contradict each other are drawn again.
pub(crate) fn any(random: &mut Random) -> String {
    let pick = |random: &mut Random, from: &[&'static str]| from[random.below(from.len() as u64) as usize];
    if random.chance(0.4) {
        return pick(random, &tested()).to_owned();
    }
    loop {
        let part = |slot: Slot, random: &mut Random| {
            let names: Vec<&str> = built_in().of_slot(slot).map(|entry| entry.name).collect();
            format!("{slot}={}", pick(random, &names))
        };
        let text = Slot::COMPOSED.map(|slot| part(slot, random)).join(",");
        if text.parse::<Spec>().is_ok() {
            return text;
        }
    }
}

/// Every launch and every growth with every recovery, as far as the registry has them together.
pub(crate) fn starts_and_recoveries() -> Vec<String> {
    let of = |slot: Slot| built_in().of_slot(slot).map(move |entry| format!("{slot}={}", entry.name));
    let recoveries: Vec<String> = of(Slot::Recovery).collect();
    let starts = of(Slot::Launch).chain(of(Slot::Growth));
    let all = starts
        .flat_map(|start| recoveries.iter().map(move |recovery| format!("{start},{recovery}")).collect::<Vec<_>>());
    all.filter(|text| text.parse::<Spec>().is_ok()).collect()
}

fn needs(text: &str) -> longhaul_cc::Needs {
    text.parse::<Spec>().expect("a composition").build(&BuildParams::default()).needs()
}

/// Whether it may refuse a path or a peer that does not offer something.
pub(crate) fn is_demanding(text: &str) -> bool {
    needs(text).required != Demands::default()
}

/// The router feedback that it asks for.
pub(crate) fn header(text: &str) -> Option<NetworkHeaderKind> {
    let needs = needs(text);
    needs.required.network_header.or(needs.preferred.network_header)
}

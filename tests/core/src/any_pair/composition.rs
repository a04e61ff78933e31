//! Random compositions.

use longhaul_cc::registry::{Slot, Spec, known};
use longhaul_cc::{BuildParams, Demands, NetworkHeaderKind};
use longhaul_link::Random;

/// Returns the profiles of the registry and all compositions that its entries declare as tested.
fn tested() -> Vec<&'static str> {
    let registry = known();
    let tested = registry.entries.iter().flat_map(|entry| entry.tested.iter().copied());
    registry.profiles.iter().map(|profile| profile.name).chain(tested).collect()
}

/// Returns a tested composition, or a random algorithm in each slot. Invalid combinations of options are discarded and
/// chosen again.
pub(crate) fn any(random: &mut Random) -> String {
    let pick = |random: &mut Random, from: &[&'static str]| from[random.below(from.len() as u64) as usize];
    if random.chance(0.4) {
        return pick(random, &tested()).to_owned();
    }
    loop {
        let part = |slot: Slot, random: &mut Random| {
            let names: Vec<&str> = known().of_slot(slot).map(|entry| entry.name).collect();
            format!("{slot}={}", pick(random, &names))
        };
        let text = Slot::COMPOSED.map(|slot| part(slot, random)).join(",");
        if text.parse::<Spec>().is_ok() {
            return text;
        }
    }
}

/// Returns all combinations of a start-up scheme or slow-start variant with a recovery algorithm that the registry
/// allows.
#[must_use]
pub fn starts_and_recoveries() -> Vec<String> {
    let of = |slot: Slot| known().of_slot(slot).map(move |entry| format!("{slot}={}", entry.name));
    let recoveries: Vec<String> = of(Slot::Recovery).collect();
    let starts = of(Slot::Startup).chain(of(Slot::SlowStart));
    let all = starts
        .flat_map(|start| recoveries.iter().map(move |recovery| format!("{start},{recovery}")).collect::<Vec<_>>());
    all.filter(|text| text.parse::<Spec>().is_ok()).collect()
}

fn needs(text: &str) -> longhaul_cc::Needs {
    text.parse::<Spec>().expect("a composition").build(&BuildParams::default()).needs()
}

/// Returns whether a composition may refuse a path or peer that lacks some feature.
pub(crate) fn is_demanding(text: &str) -> bool {
    needs(text).required != Demands::default()
}

/// Returns the kind of router feedback that a composition requests.
pub(crate) fn header(text: &str) -> Option<NetworkHeaderKind> {
    let needs = needs(text);
    needs.required.network_header.or(needs.preferred.network_header)
}

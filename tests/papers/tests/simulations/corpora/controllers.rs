//! Arbitrary valid event sequences for every composition that the registry declares as tested. The fuzz target and
//! the replay of its corpus both call [`controllers`].

use longhaul_cc::registry::{Spec, known};
use longhaul_conformance::{Expect, decode, play};
use longhaul_units::Span;

/// Plays a script: the first two bytes select the composition, the others the scenario and the events. The rules of the
/// conformance suite must hold after each event, and the same events at another time of day must have the same results.
pub fn controllers(script: &[u8]) {
    let Some((&[high, low], rest)) = script.split_first_chunk() else { return };
    let all = specs();
    let spec = &all[usize::from(u16::from_be_bytes([high, low])) % all.len()];
    let (scenario, operations) = decode(rest);
    let expect = Expect::of(spec);
    let trace = play(spec, &scenario, &operations, expect);
    // The shift is a multiple of the ticks of all clocks: 1 ns, 1 ms, 15.6 ms.
    let mut later = scenario;
    later.start = scenario.start + Span::from_nanos(78_000_000 * 1_000_003);
    let shifted = play(spec, &later, &operations, expect);
    assert!(trace == shifted, "{spec}: the same events at another time have other answers");
}

fn specs() -> &'static [Spec] {
    static ALL: std::sync::OnceLock<Vec<Spec>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| {
        longhaul_zoo::register().expect("the names are free");
        let tested = known().entries.iter().flat_map(|entry| entry.tested.iter().copied());
        let names = known().profiles.iter().map(|profile| profile.name).chain(tested);
        names.map(|name| name.parse().expect("a composition of the registry")).collect()
    })
}

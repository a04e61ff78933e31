//! The conformance suite on every profile and every tested composition of this crate.

use longhaul_cc::registry::built_in;
use longhaul_conformance::{check_registry, fill_registry, kept_at_capacity};

use super::spec;

#[test]
fn every_profile_and_every_tested_composition_conforms() {
    check_registry(&built_in());
}

#[test]
fn every_profile_fills_a_path_of_ten_gigabytes() {
    fill_registry(&built_in());
}

#[test]
fn a_loss_among_millions_of_segments_keeps_the_share_of_avoidance() {
    for (name, kept) in [("new-reno", 0.5), ("cubic", 0.7)] {
        let share = kept_at_capacity(&spec(&format!("slow-start+{name}")));
        assert!((share / kept - 1.0).abs() < 0.01, "{name}: {share}, not {kept}");
    }
}

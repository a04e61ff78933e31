//! The conformance suite on every profile and every tested composition of this crate.

use longhaul_conformance::{check_registry, fill_registry, kept_at_capacity};
use longhaul_zoo::algorithms;

use super::spec;

#[test]
fn every_profile_and_every_tested_composition_conforms() {
    super::registry();
    check_registry(algorithms());
}

#[test]
fn every_profile_fills_a_path_of_ten_gigabytes() {
    super::registry();
    fill_registry(algorithms());
}

#[test]
fn a_loss_among_millions_of_segments_keeps_the_share_of_avoidance() {
    for (name, kept) in [("hstcp", 0.91), ("bic", 819.0 / 1024.0), ("scalable", 0.875)] {
        let share = kept_at_capacity(&spec(&format!("slow-start+{name}")));
        assert!((share / kept - 1.0).abs() < 0.01, "{name}: {share}, not {kept}");
    }
}

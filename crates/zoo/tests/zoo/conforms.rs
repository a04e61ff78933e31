//! The conformance suite on every profile and every tested composition of this crate.

use longhaul_cc::EcnMark;
use longhaul_conformance::{Expect, Operation, Scenario, check_registry, fill_registry, kept_at_capacity, play};
use longhaul_units::Bytes;
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

/// Controllers without a profile, and of `longhaul-cc`.
const OTHERS: [&str; 7] = ["tide", "copa-cubic", "copa", "bbr", "cubic", "new-reno", "ledbat-plus-plus"];

#[test]
fn smaller_segments_do_not_leave_a_window_above_the_limit() {
    let mut scenario = Scenario::default();
    (scenario.mss, scenario.cap) = (Bytes(1 << 26), Bytes(100_000));
    let ack = Operation::Ack { share: 255, rtt: 1, selective: false, marked: false };
    let lose = Operation::Lose { share: 0, timer: false };
    for leave in [&[ack, Operation::Fill, ack][..], &[lose, Operation::Fill, ack], &[Operation::Timeout, ack]] {
        for sixteenths in 0..16 {
            let operations =
                [&[Operation::Fill], leave, &[Operation::Mss { sixteenths }, Operation::Fill, ack]].concat();
            for name in algorithms().profiles.iter().map(|profile| profile.name).chain(OTHERS) {
                let spec = spec(name);
                play(&spec, &scenario, &operations, Expect::of(&spec));
            }
        }
    }
}

#[test]
fn a_mark_among_tolerated_losses_lowers_the_threshold() {
    let mut scenario = Scenario::default();
    scenario.granted.ecn = EcnMark::Ect0;
    let ack = |share, marked| Operation::Ack { share, rtt: 0, selective: false, marked };
    let lose = Operation::Lose { share: 0, timer: false };
    let begin = [Operation::Fill, ack(102, false), ack(85, true), lose, Operation::Bunch { acks: 2 }];
    let operations = [&begin[..], &[Operation::Fill, ack(0, false), ack(0, true)]].concat();
    let tide = spec("tide");
    let trace = play(&tide, &scenario, &operations, Expect::of(&tide));
    let [.., before, after] = &trace[..] else { panic!("{trace:?}") };
    assert!(after.control.ssthresh < before.control.ssthresh, "{before:?} {after:?}");
}

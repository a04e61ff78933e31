//! Reported outcomes of start-up schemes.

use longhaul_cc::StartupOutcome;
use longhaul_conformance::testing::Sender;

#[test]
fn a_start_without_a_scheme_has_nothing_to_tell() {
    assert_eq!(Sender::run("cubic", 100, 2).snapshot().startup, StartupOutcome::Absent);
    assert_eq!(Sender::new("bbr").snapshot().startup, StartupOutcome::Absent);
}

#[test]
fn it_is_told_why_a_scheme_was_not_used() {
    let unknown = Sender::run("careful-resume+cubic", 40, 1).snapshot().startup;
    assert!(matches!(unknown, StartupOutcome::GivenUp(why) if why.contains("no earlier connection")), "{unknown:?}");
}

#[test]
fn a_first_flight_that_is_too_short_for_an_estimate_is_told() {
    for spec in ["swift-start+cubic", "swift-start-hardened+cubic"] {
        let few = Sender::run(spec, 1, 1).snapshot().startup;
        assert!(matches!(few, StartupOutcome::Running | StartupOutcome::GivenUp(_)), "{spec}: {few:?}");
    }
}

//! Reported outcomes of start-up schemes.

use longhaul_units::Bytes;

use crate::testing::{Sender, segments};
use crate::{Granted, PathEvent, SegmentKind, StartupOutcome};

/// Sends all queued data that the window allows.
fn send(sender: &mut Sender) {
    while sender.in_flight < sender.cwnd() && sender.path.queued > Bytes::ZERO {
        sender.send(SegmentKind::Data);
        sender.path.queued -= segments(1);
        if let Some(at) = sender.controller.next_tick().filter(|at| *at <= sender.now) {
            sender.controller.on_tick(at, &sender.path);
        }
    }
}

/// Sends all queued data, limited by the window, and acknowledges it for `rounds` round trips.
fn run(spec: &str, queued: u64, rounds: u32) -> Sender {
    let mut sender = Sender::new(spec);
    (sender.path.handshake_rtt, sender.path.srtt) = (Some(sender.rtt), Some(sender.rtt));
    sender.event(&PathEvent::Established { now: sender.now, granted: Granted::basic() });
    sender.path.queued = segments(queued);
    for _ in 0..rounds {
        send(&mut sender);
        let count = sender.in_flight.0 / segments(1).0;
        if count > 0 {
            sender.ack(count);
        }
    }
    sender
}

#[test]
fn a_start_without_a_scheme_has_nothing_to_tell() {
    assert_eq!(run("cubic", 100, 2).controller.startup(), StartupOutcome::Absent);
    assert_eq!(Sender::new("bbr").controller.startup(), StartupOutcome::Absent);
}

#[test]
fn it_is_told_why_a_scheme_was_not_used() {
    let unknown = run("careful-resume+cubic", 40, 1).controller.startup();
    assert!(matches!(unknown, StartupOutcome::GivenUp(why) if why.contains("no earlier connection")), "{unknown:?}");
}

#[test]
fn a_first_flight_that_is_too_short_for_an_estimate_is_told() {
    for spec in ["swift-start+cubic", "swift-start-hardened+cubic"] {
        let few = run(spec, 1, 1).controller.startup();
        assert!(matches!(few, StartupOutcome::Running | StartupOutcome::GivenUp(_)), "{spec}: {few:?}");
    }
}

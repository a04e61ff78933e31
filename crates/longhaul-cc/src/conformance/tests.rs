use std::panic::{AssertUnwindSafe, catch_unwind};

use longhaul_units::{Bytes, Span, Time};

use super::toys::Toys;
use super::*;
use crate::compose::{Cause, Composed, Handoff, Stage, Stages, Steady, SteadyStep, Target, Window};
use crate::registry::{Slot, Spec, built_in};
use crate::{Ack, BuildParams, Controller, Granted, NetworkHeaderKind, Path};

fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What is expected of a composition. Westwood's laws lower their threshold to an estimate, which may be above the window,
/// and Adaptive Reno keeps it all where there is no queue; Hybla's raise the window by more than what is delivered.
/// Whole controllers have no answer to losses, or one of their own.
fn expected(text: &str) -> Expect {
    let spec = spec(text);
    let is = |slot, name: &str| spec.part(slot).is_some_and(|part| part.entry().name.contains(name));
    let earns_window = !is(Slot::Steady, "hybla") && !is(Slot::Growth, "hybla") && spec.part(Slot::Whole).is_none();
    let keeps = is(Slot::Steady, "westwood") || is(Slot::Steady, "adaptive-reno");
    let keeps = keeps || is(Slot::Steady, "abse") || is(Slot::Loss, "bbe");
    Expect { answers_loss: earns_window && !keeps, earns_window }
}

#[test]
fn every_profile_conforms() {
    for profile in built_in().profiles {
        check(&spec(profile.name), expected(profile.name), 256);
    }
}

#[test]
fn every_composition_that_an_entry_calls_tested_conforms() {
    for text in built_in().entries.iter().flat_map(|entry| entry.tested) {
        check(&spec(text), expected(text), 64);
    }
}

#[test]
fn a_controller_that_probes_and_paces_conforms() {
    check(&Toys(None), Expect::default(), 256);
}

#[test]
fn controllers_that_talk_to_routers_conform_or_refuse() {
    for kind in [NetworkHeaderKind::QuickStart, NetworkHeaderKind::Rcp, NetworkHeaderKind::Xcp] {
        let expect = Expect { answers_loss: false, earns_window: false };
        check(&Toys(Some(kind)), expect, 256);
    }
}

#[test]
fn a_missing_need_fails_the_connection_by_name() {
    let mut toy = Toys(Some(NetworkHeaderKind::Rcp)).build(&BuildParams::default());
    let error = toy.on_granted(&Granted::basic(), &Path::new(Bytes(1448))).unwrap_err();
    let text = "congestion controller toy-header needs router feedback, which this path or peer does not offer";
    assert_eq!(error.to_string(), text);
    let granted = Granted { network_header: Some(NetworkHeaderKind::Rcp), ..Granted::basic() };
    assert_eq!(toy.on_granted(&granted, &Path::new(Bytes(1448))), Ok(()));
}

/// What is wrong with a [`Faulty`] law.
#[derive(Clone, Copy, Debug)]
enum Fault {
    NeverLowers,
    ChangesInEpisodes,
    NotANumber,
    Dates,
}

/// A law with a fault, to see that the suite finds it.
#[derive(Clone, Debug)]
struct Faulty(Fault);

impl Stage for Faulty {
    fn phase(&self) -> &'static str {
        "faulty"
    }
}

impl Steady for Faulty {
    fn begin(&mut self, handoff: &Handoff, _path: &Path, window: &mut Window) {
        if matches!(self.0, Fault::Dates) {
            window.cwnd -= (handoff.now.as_nanos() % 1000) as f64;
        }
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, _path: &Path, window: &mut Window) -> SteadyStep {
        match self.0 {
            Fault::NotANumber => window.ssthresh = f64::NAN,
            Fault::ChangesInEpisodes | Fault::NeverLowers | Fault::Dates => window.cwnd += grow.as_f64(),
        }
        SteadyStep::Stay
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        let keep = if matches!(self.0, Fault::NeverLowers) { 1.0 } else { 0.5 };
        Target::multiplicative(cause, keep, path.mss)
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct FaultyFactory(Fault);

/// Changes the threshold whenever it is asked.
#[derive(Debug)]
struct Nervous(Composed, std::cell::Cell<u64>);

impl Controller for Nervous {
    fn name(&self) -> String {
        self.0.name()
    }
    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.0.on_ack(event, path);
    }
    fn on_timeout(&mut self, event: &crate::Timeout, path: &Path) {
        self.0.on_timeout(event, path);
    }
    fn on_event(&mut self, event: &crate::PathEvent, path: &Path) {
        self.0.on_event(event, path);
    }
    fn control(&self) -> crate::Control {
        self.0.control()
    }
    fn snapshot(&self) -> crate::Snapshot {
        self.1.set(self.1.get() + 1);
        let ssthresh = self.0.snapshot().ssthresh.map(|ssthresh| ssthresh + Bytes(self.1.get()));
        crate::Snapshot { ssthresh, ..self.0.snapshot() }
    }
}

impl ControllerFactory for FaultyFactory {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        let stages = Stages {
            name: self.name(),
            launch: Box::new(crate::launch::NoLaunch),
            growth: Box::new(crate::growth::SlowStart::new(10, 0)),
            steady: Box::new(Faulty(self.0)),
            classifier: Box::new(crate::classify::AllCongestion),
            recovery: Box::new(crate::recovery::Rfc6675::new()),
        };
        let composed = Composed::new(stages, params);
        match self.0 {
            Fault::ChangesInEpisodes => Box::new(Nervous(composed, std::cell::Cell::new(0))),
            _ => Box::new(composed),
        }
    }

    fn name(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[test]
fn the_suite_finds_faults() {
    for (fault, words) in
        [(Fault::NeverLowers, "threshold"), (Fault::ChangesInEpisodes, "threshold"), (Fault::Dates, "shifted in time")]
    {
        let found = catch_unwind(AssertUnwindSafe(|| check(&FaultyFactory(fault), Expect::default(), 2000)));
        let message = found.unwrap_err().downcast::<String>().expect("a message");
        assert!(message.contains(words), "{fault:?}: {message}");
    }
}

/// Composed controllers hold whatever a law returns within bounds.
#[test]
fn a_window_that_is_no_number_falls_back_to_the_floor() {
    check(&FaultyFactory(Fault::NotANumber), Expect { answers_loss: true, earns_window: true }, 64);
}

/// A path of ten gigabytes in flight: growth by doubling from ten segments takes 20 rounds.
#[test]
fn a_window_reaches_ten_gigabytes() {
    let basic = Granted::basic();
    let scenario = Scenario {
        start: Time::ZERO,
        mss: Bytes(1448),
        rtt: Span::from_millis(600),
        granted: basic,
        handshake_lossy: false,
        cap: Bytes(1 << 40),
    };
    let round = [Operation::Fill, Operation::Finish];
    let trace = play(&spec("slow-start+new-reno"), &scenario, &round.repeat(20), Expect::default());
    let last = trace.last().expect("answers");
    assert_eq!(last.control.cwnd, Bytes(14_480 << 20));
}

//! The suite finds faults, and lets controllers pass that use every field of the interface.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod toys;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longhaul_cc::compose::{
    AvoidanceStep, Composed, CongestionAvoidance, CongestionEvent, Handoff, Stage, Target, Window,
};
use longhaul_cc::registry::Spec;
use longhaul_cc::{
    Ack, BuildParams, Control, Controller, ControllerFactory, Demands, EcnMark, Episode, Granted, Needs,
    NetworkHeaderKind, Path, PathEvent, forward_controller, update,
};
use longhaul_conformance::{Expect, Operation, Pipe, Scenario, check, fill, play};
use longhaul_units::{Bytes, Rate, Span, Time};

use self::toys::Toys;

fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_controller_that_probes_and_paces_conforms() {
    check(&Toys(None), Expect::default(), 256);
}

#[test]
fn controllers_that_talk_to_routers_conform_or_refuse() {
    for kind in [NetworkHeaderKind::QuickStart, NetworkHeaderKind::Rcp, NetworkHeaderKind::Xcp] {
        let expect = update!(Expect { answers_loss: false, earns_window: false, ..Expect::default() });
        check(&Toys(Some(kind)), expect, 256);
    }
}

#[test]
fn a_missing_need_fails_the_connection_by_name() {
    let mut toy = Toys(Some(NetworkHeaderKind::Rcp)).build(&BuildParams::default());
    let error = toy.on_granted(&Granted::basic(), &Path::new(Bytes(1448))).unwrap_err();
    let text = "congestion controller toy-header needs router feedback, which this path or peer does not offer";
    assert_eq!(error.to_string(), text);
    let granted = update!(Granted { network_header: Some(NetworkHeaderKind::Rcp), ..Granted::basic() });
    assert_eq!(toy.on_granted(&granted, &Path::new(Bytes(1448))), Ok(()));
}

/// Fault of a [`Faulty`] algorithm.
#[derive(Clone, Copy, Debug)]
enum Fault {
    NeverLowers,
    ChangesInEpisodes,
    NotANumber,
    Dates,
    AnswersTwice,
}

/// A faulty congestion-avoidance algorithm, which the suite must detect.
#[derive(Clone, Debug)]
struct Faulty(Fault);

impl Stage for Faulty {
    fn phase(&self) -> &'static str {
        "faulty"
    }
}

impl CongestionAvoidance for Faulty {
    fn begin(&mut self, handoff: &Handoff, _path: &Path, window: &mut Window) {
        if matches!(self.0, Fault::Dates) {
            window.cwnd -= (handoff.now.as_nanos() % 1000) as f64;
        }
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, _path: &Path, window: &mut Window) -> AvoidanceStep {
        match self.0 {
            Fault::NotANumber => window.ssthresh = f64::NAN,
            Fault::ChangesInEpisodes | Fault::NeverLowers | Fault::Dates | Fault::AnswersTwice => {
                window.cwnd += grow.as_f64()
            }
        }
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let keep = if matches!(self.0, Fault::NeverLowers) { 1.0 } else { 0.5 };
        Target::multiplicative(event, keep, path.mss)
    }
}

#[derive(Debug)]
struct FaultyFactory(Fault);

/// Changes the threshold whenever it is read, or with every episode that begins.
#[derive(Clone, Debug)]
struct Nervous(Composed, Arc<AtomicU64>, Fault);

impl Controller for Nervous {
    forward_controller!(0: name, on_timeout, on_event, snapshot);

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.1.fetch_add(u64::from(event.episode == Episode::Enter), Ordering::Relaxed);
        self.0.on_ack(event, path);
    }
    fn control(&self) -> Control {
        self.1.fetch_add(u64::from(matches!(self.2, Fault::ChangesInEpisodes)), Ordering::Relaxed);
        let count = Bytes(self.1.load(Ordering::Relaxed));
        let change = |ssthresh| if matches!(self.2, Fault::AnswersTwice) { ssthresh - count } else { ssthresh + count };
        let ssthresh = self.0.control().ssthresh.map(change);
        update!(Control { ssthresh, ..self.0.control() })
    }
}

impl ControllerFactory for FaultyFactory {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        let mut stages = spec("slow-start+new-reno+rfc6675").stages().expect("a composition");
        (stages.name, stages.avoidance) = (self.name(), Box::new(Faulty(self.0)));
        let composed = Composed::new(stages, params);
        match self.0 {
            fault @ (Fault::ChangesInEpisodes | Fault::AnswersTwice) => {
                Box::new(Nervous(composed, Arc::default(), fault))
            }
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

/// Twenty segments are in flight; one is marked, and another one is lost.
#[test]
fn a_second_answer_to_the_same_round_trip_is_found() {
    let scenario = update!(Scenario {
        granted: update!(Granted { ecn: EcnMark::Ect0, ..Granted::basic() }),
        ..Scenario::default()
    });
    let marked = Operation::Ack { share: 13, rtt: 1, selective: false, marked: true };
    let history =
        [Operation::Fill, Operation::Finish, Operation::Fill, marked, Operation::Lose { share: 13, timer: false }];
    play(&spec("slow-start+new-reno"), &scenario, &history, Expect::default());
    let twice = FaultyFactory(Fault::AnswersTwice);
    let found = catch_unwind(AssertUnwindSafe(|| play(&twice, &scenario, &history, Expect::default())));
    let message = found.unwrap_err().downcast::<String>().expect("a message");
    assert!(message.contains("whose marks were answered"), "{message}");
}

/// Composed controllers limit any window that a congestion-avoidance algorithm returns.
#[test]
fn a_window_that_is_no_number_falls_back_to_the_floor() {
    check(&FaultyFactory(Fault::NotANumber), Expect::default(), 64);
}

/// A window of ten gigabytes: doubling from ten segments takes 20 round trips.
#[test]
fn a_window_reaches_ten_gigabytes() {
    let scenario = update!(Scenario { rtt: Span::from_millis(600), cap: Bytes(1 << 40), ..Scenario::default() });
    let round = [Operation::Fill, Operation::Finish];
    let trace = play(&spec("slow-start+new-reno"), &scenario, &round.repeat(20), Expect::default());
    let last = trace.last().expect("answers");
    assert_eq!(last.control.cwnd, Bytes(14_480 << 20));
}

/// 100 Gb/s over 800 ms.
fn huge(mss: Bytes) -> Pipe {
    Pipe::new(Rate::from_bits_per_sec(100_000_000_000), Span::from_millis(800), mss)
}

/// A controller with a fault: its window has 32 bits.
#[derive(Debug)]
struct Narrow;

#[derive(Clone, Debug)]
struct NarrowWindow(Box<dyn Controller>);

impl ControllerFactory for Narrow {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Box::new(NarrowWindow(spec("slow-start+new-reno").build(params)))
    }
    fn name(&self) -> String {
        "narrow".to_owned()
    }
}

impl Controller for NarrowWindow {
    forward_controller!(0: name, on_ack, on_timeout, on_event, snapshot);

    fn control(&self) -> Control {
        let control = self.0.control();
        update!(Control { cwnd: Bytes(u64::from(control.cwnd.0 as u32)), ..control })
    }
}

#[test]
fn a_window_that_wraps_does_not_fill_it() {
    let filled = fill(&Narrow, &huge(Bytes(1448)), Span::from_secs(60), Expect::default()).expect("granted");
    assert!(filled.most_in_flight < Bytes(1 << 32), "{}", filled.most_in_flight);
}

/// A controller with a fault: each tick follows the last one's due time, not the time at which it came.
#[derive(Clone, Debug)]
struct Metronome(Box<dyn Controller>, Option<Time>);

const BEAT: Span = Span::from_millis(1);

impl Controller for Metronome {
    forward_controller!(0: name, on_ack, on_timeout, control, snapshot);

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.0.on_event(event, path);
        if let PathEvent::Established { now, .. } = *event {
            self.1 = Some(now + BEAT);
        }
    }

    fn on_tick(&mut self, _now: Time, _path: &Path) {
        self.1 = self.1.map(|due| due + BEAT);
    }

    fn next_tick(&self) -> Option<Time> {
        self.1
    }
}

#[derive(Debug)]
struct Metronomes;

impl ControllerFactory for Metronomes {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Box::new(Metronome(spec("new-reno").build(params), None))
    }

    fn name(&self) -> String {
        "metronome".to_owned()
    }
}

#[test]
fn a_tick_that_ignores_when_it_came_is_found() {
    let history = [Operation::Wait { sixteenths: 16 }];
    let run = |tick_delay| {
        let scenario = update!(Scenario { tick_delay, ..Scenario::default() });
        catch_unwind(AssertUnwindSafe(|| play(&Metronomes, &scenario, &history, Expect::default())))
    };
    assert!(run(0).is_ok());
    let message = run(8).unwrap_err().downcast::<String>().expect("a message");
    assert!(message.contains("still due"), "{message}");
}

/// A controller with a fault: its clone is a new one.
#[derive(Debug)]
struct Forgetful(Box<dyn Controller>);

impl Clone for Forgetful {
    fn clone(&self) -> Self {
        Self(spec("new-reno").build(&BuildParams::default()))
    }
}

impl Controller for Forgetful {
    forward_controller!(0: name, on_ack, on_timeout, on_event, control, snapshot);
}

#[derive(Debug)]
struct Forgetfuls;

impl ControllerFactory for Forgetfuls {
    fn build(&self, _: &BuildParams) -> Box<dyn Controller> {
        Box::new(Forgetful(spec("new-reno").build(&BuildParams::default())))
    }

    fn name(&self) -> String {
        "forgetful".to_owned()
    }
}

#[test]
fn a_clone_without_the_state_is_found() {
    let found = catch_unwind(AssertUnwindSafe(|| check(&Forgetfuls, Expect::default(), 64)));
    let message = found.unwrap_err().downcast::<String>().expect("a message");
    assert!(message.starts_with("forgetful: "), "{message}");
}

/// A controller that learns of deliveries only from the list of segments, and may say so.
#[derive(Clone, Debug)]
struct Reader {
    inner: Box<dyn Controller>,
    says_so: bool,
}

impl Controller for Reader {
    forward_controller!(inner: name, on_timeout, on_event, control, snapshot);

    fn needs(&self) -> Needs {
        update!(Needs {
            required: update!(Demands { segments: self.says_so, ..Demands::default() }),
            ..Needs::default()
        })
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        if !event.acked.is_empty() || event.newly_lost > Bytes::ZERO {
            self.inner.on_ack(event, path);
        }
    }
}

#[derive(Debug)]
struct Readers {
    says_so: bool,
}

impl ControllerFactory for Readers {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Box::new(Reader { inner: spec("new-reno").build(params), says_so: self.says_so })
    }

    fn name(&self) -> String {
        "reader".to_owned()
    }
}

#[test]
fn a_controller_says_without_what_it_cannot_do() {
    let expect = update!(Expect { answers_loss: false, earns_window: false, ..Expect::default() });
    check(&Readers { says_so: true }, expect, 16);
    let found = catch_unwind(AssertUnwindSafe(|| check(&Readers { says_so: false }, expect, 16)));
    let message = found.unwrap_err().downcast::<String>().expect("a message");
    assert!(message.starts_with("reader: without Segments"), "{message}");
}

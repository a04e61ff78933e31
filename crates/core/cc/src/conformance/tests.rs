use std::panic::{AssertUnwindSafe, catch_unwind};

use longhaul_units::{Bytes, Rate, Span, Time};

use super::toys::Toys;
use super::*;
use crate::compose::{
    AvoidanceStep, Composed, CongestionAvoidance, CongestionEvent, Handoff, Stage, Stages, Target, Window,
};
use crate::registry::{Spec, built_in};
use crate::{Ack, BuildParams, Controller, Granted, NetworkHeaderKind, Path};

fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn expected(text: &str) -> Expect {
    Expect::of(&spec(text))
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
#[derive(Debug)]
struct Nervous(Composed, std::cell::Cell<u64>, Fault);

impl Controller for Nervous {
    crate::forward_controller!(0: name, on_timeout, on_event, snapshot);

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.1.set(self.1.get() + u64::from(event.episode == crate::Episode::Enter));
        self.0.on_ack(event, path);
    }
    fn control(&self) -> crate::Control {
        self.1.set(self.1.get() + u64::from(matches!(self.2, Fault::ChangesInEpisodes)));
        let count = Bytes(self.1.get());
        let change = |ssthresh| if matches!(self.2, Fault::AnswersTwice) { ssthresh - count } else { ssthresh + count };
        let ssthresh = self.0.control().ssthresh.map(change);
        crate::Control { ssthresh, ..self.0.control() }
    }
}

impl ControllerFactory for FaultyFactory {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        let stages = Stages {
            name: self.name(),
            startup: Box::new(crate::startup::NoStartup),
            slow_start: Box::new(crate::slow_start::StandardSlowStart::new(10, 0)),
            avoidance: Box::new(Faulty(self.0)),
            classifier: Box::new(crate::classify::AllCongestion),
            recovery: Box::new(crate::recovery::rfc6675::Rfc6675::new()),
        };
        let composed = Composed::new(stages, params);
        match self.0 {
            fault @ (Fault::ChangesInEpisodes | Fault::AnswersTwice) => {
                Box::new(Nervous(composed, std::cell::Cell::new(0), fault))
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
    let scenario = Scenario {
        start: Time::ZERO,
        resolution: Span::from_nanos(1),
        mss: Bytes(1448),
        rtt: Span::from_millis(100),
        granted: Granted { ecn: crate::EcnMark::Ect0, ..Granted::basic() },
        handshake_lossy: false,
        cap: Bytes::MAX,
    };
    let marked = Operation::Ack { share: 13, rtt: 1, selective: false, marked: true };
    let history =
        [Operation::Fill, Operation::Finish, Operation::Fill, marked, Operation::Lose { share: 13, timer: false }];
    play(&spec("slow-start+new-reno"), &scenario, &history, Expect::default());
    let twice = FaultyFactory(Fault::AnswersTwice);
    let found = catch_unwind(AssertUnwindSafe(|| play(&twice, &scenario, &history, Expect::default())));
    let message = found.unwrap_err().downcast::<String>().expect("a message");
    assert!(message.contains("whose marks were answered"), "{message}");
}

/// After a timeout there are a mark and a further timeout, and both timeouts are spurious. The decrease for the mark
/// stays valid, and covers a loss among the same data.
#[test]
fn a_further_timeout_forgets_no_mark() {
    let granted = Granted { ecn: crate::EcnMark::Ect0, ..Granted::basic() };
    let rtt = Span::from_millis(100);
    let (start, resolution, cap) = (Time::ZERO, Span::from_nanos(1), Bytes::MAX);
    let scenario = Scenario { start, resolution, mss: Bytes(1448), rtt, granted, handshake_lossy: false, cap };
    let mss = |sixteenths| Operation::Mss { sixteenths };
    let ack = |selective, marked| Operation::Ack { share: 0, rtt: 0, selective, marked };
    let lose = Operation::Lose { share: 0, timer: false };
    let (fill, timeout, spurious) = (Operation::Fill, Operation::Timeout, Operation::Spurious);
    let first = [mss(21), fill, ack(false, false), fill, timeout];
    let then = [mss(0), ack(true, true), timeout, spurious, lose];
    play(&spec("new-reno"), &scenario, &[first, then].concat(), Expect::default());
}

/// Composed controllers limit any window that a congestion-avoidance algorithm returns.
#[test]
fn a_window_that_is_no_number_falls_back_to_the_floor() {
    check(&FaultyFactory(Fault::NotANumber), Expect { answers_loss: true, earns_window: true }, 64);
}

/// A window of ten gigabytes: doubling from ten segments takes 20 round trips.
#[test]
fn a_window_reaches_ten_gigabytes() {
    let basic = Granted::basic();
    let scenario = Scenario {
        start: Time::ZERO,
        resolution: Span::from_nanos(1),
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

/// 100 Gb/s over 800 ms.
fn huge(mss: Bytes) -> Pipe {
    Pipe::new(Rate::from_bits_per_sec(100_000_000_000), Span::from_millis(800), mss)
}

/// A closed loop of ten gigabytes in 149 segments of 64 MiB, so that algorithms which increase by one segment per
/// round trip reach it, too.
#[test]
fn every_profile_fills_a_path_of_ten_gigabytes() {
    let path = huge(Bytes(1 << 26));
    for profile in built_in().profiles {
        let filled = fill(&spec(profile.name), &path, Span::from_secs(200), expected(profile.name));
        let Filled { delivered, most_in_flight, trace, .. } =
            filled.expect("profiles do with what every transport has");
        let part = delivered.as_f64() / path.rate.bytes_in(Span::from_secs(200)).as_f64();
        assert!((0.5..=1.0).contains(&part), "{}: {part} of the rate", profile.name);
        assert!(most_in_flight > Bytes(9_500_000_000), "{}: {most_in_flight}", profile.name);
        if let Some(bandwidth) = trace.last().and_then(|last| last.snapshot.bandwidth) {
            let part = bandwidth.as_bytes_per_sec() as f64 / path.rate.as_bytes_per_sec() as f64;
            assert!((part - 1.0).abs() < 0.01, "{}: {bandwidth:?}", profile.name);
        }
    }
}

/// Segments of 1448 bytes, of which twenty million are in flight: slow start reaches the 20 GB of path and queue in
/// 21 round trips, and a loss leaves the fraction that the congestion-avoidance algorithm keeps.
#[test]
fn a_loss_among_millions_of_segments_keeps_the_share_of_avoidance() {
    for (name, kept) in [("new-reno", 0.5), ("cubic", 0.7)] {
        let spec = spec(&format!("slow-start+{name}"));
        let trace = fill(&spec, &huge(Bytes(1448)), Span::from_secs(25), Expect::default()).expect("granted").trace;
        let threshold = |answer: &Answer| answer.control.ssthresh.expect("a threshold");
        let loss = trace.windows(2).find(|pair| threshold(&pair[1]) < threshold(&pair[0])).expect("a loss");
        let before = loss[0].control.cwnd;
        assert!(before > Bytes(20_000_000_000), "{name}: {before}");
        let share = threshold(&loss[1]).as_f64() / before.as_f64();
        assert!((share / kept - 1.0).abs() < 0.01, "{name}: {share}, not {kept}");
    }
}

/// A controller with a fault: its window has 32 bits.
#[derive(Debug)]
struct Narrow;

#[derive(Debug)]
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
    crate::forward_controller!(0: name, on_ack, on_timeout, on_event, snapshot);

    fn control(&self) -> crate::Control {
        let control = self.0.control();
        crate::Control { cwnd: Bytes(u64::from(control.cwnd.0 as u32)), ..control }
    }
}

#[test]
fn a_window_that_wraps_does_not_fill_it() {
    let filled = fill(&Narrow, &huge(Bytes(1448)), Span::from_secs(60), Expect::default()).expect("granted");
    assert!(filled.most_in_flight < Bytes(1 << 32), "{}", filled.most_in_flight);
}

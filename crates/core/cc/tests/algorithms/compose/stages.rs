//! Order in which the stages are called.

use std::sync::{Arc, Mutex};

use longhaul_units::{Bytes, Span, Time};

use longhaul_cc::compose::*;
use longhaul_cc::{
    Ack, BuildParams, Controller, Episode, Granted, NetworkHeader, Path, PathEvent, SegmentKind, Timeout, update,
};
use longhaul_conformance::testing::{Sender, segments};

type Log = Arc<Mutex<Vec<&'static str>>>;

/// Implements every stage and records the calls.
#[derive(Clone, Debug)]
struct Scribe {
    log: Log,
    /// Response of the start-up scheme to losses; `None` if there is no scheme.
    startup: Option<StartupResponse>,
    algorithm: AvoidanceStep,
    linger: u32,
}

impl Scribe {
    fn note(&self, what: &'static str) {
        self.log.lock().expect("one thread").push(what);
    }
}

impl Stage for Scribe {
    fn overlay(&self) -> Overlay {
        let header = NetworkHeader::QuickStart { rate: longhaul_units::Rate::MAX };
        update!(Overlay { header: Some(header), tag: 9, ..Overlay::default() })
    }

    fn phase(&self) -> &'static str {
        "scribe"
    }
}

impl Startup for Scribe {
    fn begin(&mut self, opening: Opening, _now: Time, _path: &Path, window: &mut Window) -> Step {
        self.note(match opening {
            Opening::Connection => "startup",
            Opening::Idle => "startup after idleness",
            _ => "startup after a timeout",
        });
        if self.startup.is_none() {
            return Step::Done;
        }
        window.cwnd = segments(100).as_f64();
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> Step {
        self.note("startup.ack");
        if ack.episode == Episode::Exit { Step::Done } else { Step::Stay }
    }

    fn on_loss(&mut self, _loss: &LossEvent<'_>, _path: &Path, _window: &mut Window) -> StartupResponse {
        self.note("startup.loss");
        self.startup.unwrap_or(StartupResponse::Delegate)
    }

    fn on_timeout(&mut self, timeout: &Timeout, _path: &Path, window: &mut Window) -> Option<f64> {
        self.note("startup.timeout");
        window.keep_outstanding(timeout.flight_size, segments(10));
        None
    }

    fn abort(&mut self) {
        self.note("startup.abort");
    }
}

impl LossClassifier for Scribe {
    fn classify(&mut self, _loss: &LossEvent<'_>, _path: &Path) -> LossCause {
        self.note("classify");
        LossCause::new(0.5)
    }
}

impl CongestionAvoidance for Scribe {
    fn begin(&mut self, handoff: &Handoff, _path: &Path, _window: &mut Window) {
        self.note(match handoff.reason {
            Reason::Loss => "avoidance after a loss",
            Reason::Asked => "avoidance as it asked",
            Reason::Idle => "avoidance after idleness",
            _ => "avoidance",
        });
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, _grow: Bytes, _path: &Path, window: &mut Window) -> AvoidanceStep {
        if self.algorithm == AvoidanceStep::Grow {
            window.ssthresh = 2.0 * window.cwnd;
        }
        self.algorithm
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        self.note("reduce");
        let severity = if event.signal == Signal::Loss { 0.5 } else { 1.0 };
        assert_eq!(event.cause, LossCause::new(severity));
        Target::multiplicative(event, 0.5, path.mss)
    }
}

impl Recovery for Scribe {
    fn enter(&mut self, target: f64, _ack: &Ack<'_>, _path: &Path, window: &mut Window) {
        self.note("recovery.enter");
        window.cwnd = target;
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> Step {
        self.note("recovery.ack");
        self.linger = self.linger.saturating_sub(1);
        if self.linger == 0 { Step::Done } else { Step::Stay }
    }

    fn exit(&mut self, _ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> Step {
        self.note("recovery.exit");
        if self.linger == 0 { Step::Done } else { Step::Stay }
    }

    fn abort(&mut self) {
        self.note("recovery.abort");
    }
}

fn scribe(startup: Option<StartupResponse>, algorithm: AvoidanceStep, linger: u32) -> (Sender, Log) {
    let log = Log::default();
    let scribe = Scribe { log: log.clone(), startup, algorithm, linger };
    let mut stages = crate::stages("slow-start+new-reno");
    (stages.startup, stages.avoidance) = (Box::new(scribe.clone()), Box::new(scribe.clone()));
    (stages.classifier, stages.recovery) = (Box::new(scribe.clone()), Box::new(scribe));
    let composed = Composed::new(stages, &BuildParams::default());
    assert!(composed.control().header.is_some(), "a startup's header rides on the SYN");
    (Sender::with(Box::new(composed), Granted::basic()), log)
}

fn taken(log: &Log) -> Vec<&'static str> {
    std::mem::take(&mut log.lock().expect("one thread"))
}

#[test]
fn the_order_of_a_loss_is_classify_veto_reduce_recover_begin() {
    let (mut sender, log) = scribe(Some(StartupResponse::Delegate), AvoidanceStep::Stay, 0);
    assert_eq!((sender.cwnd(), sender.control().tag), (segments(100), 9));
    sender.fill();
    sender.ack(1);
    sender.lose();
    // A severity of one half halves the decrease.
    assert_eq!(sender.ssthresh(), Bytes(99 * 1460 / 4 * 3));
    let mut more = sender.acked(1);
    more.episode = Episode::In;
    sender.tell(&more);
    sender.recover();
    let order = [
        "startup",
        "startup.ack",
        "classify",
        "startup.loss",
        "startup.abort",
        "reduce",
        "recovery.enter",
        "recovery.ack",
        "recovery.exit",
        "avoidance after a loss",
    ];
    assert_eq!(taken(&log), order);
}

#[test]
fn a_startup_may_answer_a_loss_itself() {
    let (mut sender, log) = scribe(Some(StartupResponse::Handled), AvoidanceStep::Stay, 0);
    sender.fill();
    sender.lose();
    assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(100), Bytes::MAX));
    sender.recover();
    assert_eq!(taken(&log), ["startup", "classify", "startup.loss", "startup.ack"]);
    assert_eq!(sender.snapshot().phase, "slow-start");
}

#[test]
fn a_recovery_may_keep_the_window_after_its_episode() {
    let (mut sender, log) = scribe(None, AvoidanceStep::Stay, 3);
    sender.fill();
    sender.lose();
    sender.recover();
    assert_eq!(taken(&log), ["startup", "classify", "reduce", "recovery.enter", "recovery.exit"]);
    for expected in [&["recovery.ack"][..], &["recovery.ack"], &["recovery.ack", "avoidance after a loss"], &[]] {
        sender.send(SegmentKind::Data);
        sender.ack(1);
        assert_eq!(taken(&log), expected);
    }
}

#[test]
fn avoidance_may_ask_for_slow_start() {
    let (mut sender, log) = scribe(None, AvoidanceStep::Grow, 0);
    sender.fill();
    sender.lose();
    sender.recover();
    sender.fill();
    taken(&log);
    sender.ack(1);
    assert_eq!(sender.snapshot().phase, "slow-start");
    let wanted = sender.ssthresh();
    sender.fill();
    sender.round();
    sender.round();
    assert!(sender.cwnd() >= wanted);
    assert_eq!(taken(&log).first(), Some(&"avoidance as it asked"));
}

#[test]
fn a_startup_may_follow_a_timeout_or_idleness() {
    let (mut sender, log) = scribe(Some(StartupResponse::Delegate), AvoidanceStep::Stay, 0);
    sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(1) });
    assert_eq!(taken(&log), ["startup", "startup.abort", "startup after idleness"]);
    assert_eq!(sender.cwnd(), segments(100));
}

/// The opened but unused part of the window is removed before congestion avoidance calculates the decrease.
#[test]
fn the_order_of_a_timeout_is_startup_abort_reduce_startup() {
    let (mut sender, log) = scribe(Some(StartupResponse::Delegate), AvoidanceStep::Stay, 0);
    (0..30).for_each(|_| sender.send(SegmentKind::Data));
    sender.time_out(1);
    assert_eq!(taken(&log), ["startup", "startup.timeout", "startup.abort", "reduce", "startup after a timeout"]);
    assert_eq!(sender.ssthresh(), segments(15));
}

#[test]
fn avoidance_hears_of_idleness() {
    let (mut sender, log) = scribe(None, AvoidanceStep::Stay, 0);
    sender.fill();
    for _ in 0..3 {
        sender.round();
    }
    sender.lose();
    sender.recover();
    assert!(sender.cwnd() > segments(10));
    sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(1) });
    taken(&log);
    sender.fill();
    for _ in 0..3 {
        sender.round();
    }
    assert_eq!(taken(&log), ["avoidance after idleness"]);
}

/// A spurious timeout inside an episode: congestion avoidance, which had not started yet, starts.
#[test]
fn undo_of_a_timeout_inside_an_episode_begins_avoidance() {
    let (mut sender, log) = scribe(None, AvoidanceStep::Stay, 0);
    sender.fill();
    sender.lose();
    let target = sender.ssthresh();
    let order = ["startup", "classify", "reduce", "recovery.enter"];
    assert_eq!(taken(&log), order);
    sender.send(SegmentKind::Data);
    let in_flight = sender.in_flight;
    sender.controller.on_timeout(&Timeout::new(sender.now, 1, in_flight), &sender.path);
    assert_eq!(sender.cwnd(), segments(1));
    taken(&log);
    sender.event(&PathEvent::Spurious { now: sender.now, timeout: true, in_flight });
    assert_eq!((sender.cwnd(), sender.ssthresh()), (target, target));
    assert_eq!(taken(&log), ["avoidance after a loss"]);
}

/// Counts the ACKs that it observes, up to a limit.
#[derive(Clone, Debug)]
struct Counter {
    seen: Arc<Mutex<u32>>,
    limit: u32,
}

impl Stage for Counter {
    fn observe(&mut self, _ack: &Ack<'_>, _path: &Path) -> bool {
        let mut seen = self.seen.lock().expect("one thread");
        *seen += 1;
        *seen < self.limit
    }

    fn phase(&self) -> &'static str {
        "counter"
    }
}

impl LossClassifier for Counter {
    fn classify(&mut self, _loss: &LossEvent<'_>, _path: &Path) -> LossCause {
        LossCause::CONGESTION
    }
}

#[test]
fn a_stage_observes_acks_until_it_declines() {
    for (limit, expected) in [(1, 1), (3, 3), (u32::MAX, 5)] {
        let seen = Arc::new(Mutex::new(0));
        let mut stages = Stages::default();
        stages.classifier = Box::new(Counter { seen: seen.clone(), limit });
        let mut sender = Sender::with(Box::new(Composed::new(stages, &BuildParams::default())), Granted::basic());
        sender.fill();
        for _ in 0..5 {
            sender.ack(1);
        }
        assert_eq!(*seen.lock().expect("one thread"), expected);
    }
}

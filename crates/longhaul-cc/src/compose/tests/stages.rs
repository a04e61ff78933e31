//! Order in which the stages are called.

use std::sync::{Arc, Mutex};

use longhaul_units::{Bytes, Span, Time};

use crate::compose::*;
use crate::testing::{Sender, segments};
use crate::{Ack, BuildParams, Controller, Episode, Granted, NetworkHeader, Path, PathEvent, SegmentKind, Timeout};

type Log = Arc<Mutex<Vec<&'static str>>>;

/// Implements every stage and records the calls.
#[derive(Clone, Debug)]
struct Scribe {
    log: Log,
    /// Response of the start-up scheme to losses; `None` if there is no scheme.
    launch: Option<LaunchVerdict>,
    law: SteadyStep,
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
        Overlay { header: Some(header), tag: 9, ..Overlay::default() }
    }

    fn phase(&self) -> &'static str {
        "scribe"
    }
}

impl Launch for Scribe {
    fn begin(&mut self, opening: Opening, _now: Time, _path: &Path, window: &mut Window) -> LaunchStep {
        self.note(match opening {
            Opening::Connection => "launch",
            Opening::Idle => "launch after idleness",
            Opening::Timeout => "launch after a timeout",
            Opening::Asked => "launch again",
        });
        if self.launch.is_none() {
            return LaunchStep::Done;
        }
        window.cwnd = segments(100).as_f64();
        LaunchStep::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> LaunchStep {
        self.note("launch.ack");
        if ack.episode == Episode::Exit { LaunchStep::Done } else { LaunchStep::Stay }
    }

    fn on_loss(&mut self, _loss: &Loss<'_>, _path: &Path, _window: &mut Window) -> LaunchVerdict {
        self.note("launch.loss");
        self.launch.unwrap_or(LaunchVerdict::Delegate)
    }

    fn on_timeout(&mut self, timeout: &Timeout, _path: &Path, window: &mut Window) {
        self.note("launch.timeout");
        window.keep_outstanding(timeout.flight_size, segments(10));
    }

    fn abort(&mut self) {
        self.note("launch.abort");
    }
}

impl LossClassifier for Scribe {
    fn classify(&mut self, _loss: &Loss<'_>, _path: &Path) -> Verdict {
        self.note("classify");
        Verdict { severity: 0.5 }
    }
}

impl Steady for Scribe {
    fn begin(&mut self, handoff: &Handoff, _path: &Path, _window: &mut Window) {
        self.note(match handoff.reason {
            Reason::Loss => "law after a loss",
            Reason::Asked => "law as it asked",
            Reason::Idle => "law after idleness",
            _ => "law",
        });
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, _grow: Bytes, _path: &Path, window: &mut Window) -> SteadyStep {
        if self.law == SteadyStep::Grow {
            window.ssthresh = 2.0 * window.cwnd;
        }
        self.law
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        self.note("reduce");
        let severity = if cause.signal == Signal::Loss { 0.5 } else { 1.0 };
        assert_eq!(cause.verdict, Verdict { severity });
        Target::multiplicative(cause, 0.5, path.mss)
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

impl Recovery for Scribe {
    fn enter(&mut self, target: f64, _ack: &Ack<'_>, _path: &Path, window: &mut Window) {
        self.note("recovery.enter");
        window.cwnd = target;
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> RecoveryStep {
        self.note("recovery.ack");
        self.linger = self.linger.saturating_sub(1);
        if self.linger == 0 { RecoveryStep::Done } else { RecoveryStep::Stay }
    }

    fn exit(&mut self, _ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> RecoveryStep {
        self.note("recovery.exit");
        if self.linger == 0 { RecoveryStep::Done } else { RecoveryStep::Stay }
    }

    fn abort(&mut self) {
        self.note("recovery.abort");
    }
}

fn scribe(launch: Option<LaunchVerdict>, law: SteadyStep, linger: u32) -> (Sender, Log) {
    let log = Log::default();
    let scribe = Scribe { log: log.clone(), launch, law, linger };
    let stages = Stages {
        name: "scribe".to_owned(),
        launch: Box::new(scribe.clone()),
        growth: Box::new(crate::growth::SlowStart::new(10, 0)),
        steady: Box::new(scribe.clone()),
        classifier: Box::new(scribe.clone()),
        recovery: Box::new(scribe),
    };
    let composed = Composed::new(stages, &BuildParams::default());
    assert!(composed.control().header.is_some(), "a launch's header rides on the SYN");
    (Sender::with(Box::new(composed), Granted::basic()), log)
}

fn taken(log: &Log) -> Vec<&'static str> {
    std::mem::take(&mut log.lock().expect("one thread"))
}

#[test]
fn the_order_of_a_loss_is_classify_veto_reduce_recover_begin() {
    let (mut sender, log) = scribe(Some(LaunchVerdict::Delegate), SteadyStep::Stay, 0);
    assert_eq!((sender.cwnd(), sender.control().tag), (segments(100), 9));
    sender.fill();
    sender.ack(1);
    sender.lose();
    // A severity of one half halves the decrease.
    assert_eq!(sender.ssthresh(), Bytes(99 * 1460 / 4 * 3));
    let mut more = sender.acked(1);
    more.episode = Episode::In;
    sender.tell(&more);
    sender.repair();
    let order = [
        "launch",
        "launch.ack",
        "classify",
        "launch.loss",
        "launch.abort",
        "reduce",
        "recovery.enter",
        "recovery.ack",
        "recovery.exit",
        "law after a loss",
    ];
    assert_eq!(taken(&log), order);
}

#[test]
fn a_launch_may_answer_a_loss_itself() {
    let (mut sender, log) = scribe(Some(LaunchVerdict::Handled), SteadyStep::Stay, 0);
    sender.fill();
    sender.lose();
    assert_eq!((sender.cwnd(), sender.ssthresh()), (segments(100), Bytes::MAX));
    sender.repair();
    assert_eq!(taken(&log), ["launch", "classify", "launch.loss", "launch.ack"]);
    assert_eq!(sender.snapshot().phase, "slow-start");
}

#[test]
fn a_recovery_may_keep_the_window_after_its_episode() {
    let (mut sender, log) = scribe(None, SteadyStep::Stay, 3);
    sender.fill();
    sender.lose();
    sender.repair();
    assert_eq!(taken(&log), ["launch", "classify", "reduce", "recovery.enter", "recovery.exit"]);
    for expected in [&["recovery.ack"][..], &["recovery.ack"], &["recovery.ack", "law after a loss"], &[]] {
        sender.send(SegmentKind::Data);
        sender.ack(1);
        assert_eq!(taken(&log), expected);
    }
}

#[test]
fn a_law_may_ask_for_growth_or_a_launch() {
    let (mut sender, log) = scribe(None, SteadyStep::Grow, 0);
    sender.fill();
    sender.lose();
    sender.repair();
    sender.fill();
    taken(&log);
    sender.ack(1);
    assert_eq!(sender.snapshot().phase, "slow-start");
    let wanted = sender.ssthresh();
    sender.fill();
    sender.round();
    sender.round();
    assert!(sender.cwnd() >= wanted);
    assert_eq!(taken(&log).first(), Some(&"law as it asked"));

    let (mut sender, log) = scribe(None, SteadyStep::Launch, 0);
    sender.fill();
    sender.lose();
    sender.repair();
    sender.fill();
    taken(&log);
    sender.ack(1);
    assert_eq!(taken(&log), ["launch again", "law as it asked"]);
}

#[test]
fn a_launch_may_follow_a_timeout_or_idleness() {
    let (mut sender, log) = scribe(Some(LaunchVerdict::Delegate), SteadyStep::Stay, 0);
    sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(1) });
    assert_eq!(taken(&log), ["launch", "launch.abort", "launch after idleness"]);
    assert_eq!(sender.cwnd(), segments(100));
}

/// The opened but unused part of the window is removed before congestion avoidance calculates the decrease.
#[test]
fn the_order_of_a_timeout_is_launch_abort_reduce_launch() {
    let (mut sender, log) = scribe(Some(LaunchVerdict::Delegate), SteadyStep::Stay, 0);
    (0..30).for_each(|_| sender.send(SegmentKind::Data));
    sender.time_out(1);
    assert_eq!(taken(&log), ["launch", "launch.timeout", "launch.abort", "reduce", "launch after a timeout"]);
    assert_eq!(sender.ssthresh(), segments(15));
}

#[test]
fn the_law_hears_of_idleness() {
    let (mut sender, log) = scribe(None, SteadyStep::Stay, 0);
    sender.fill();
    for _ in 0..3 {
        sender.round();
    }
    sender.lose();
    sender.repair();
    assert!(sender.cwnd() > segments(10));
    sender.event(&PathEvent::IdleRestart { now: sender.now, idle: Span::from_secs(1) });
    taken(&log);
    sender.fill();
    for _ in 0..3 {
        sender.round();
    }
    assert_eq!(taken(&log), ["law after idleness"]);
}

/// A spurious timeout inside an episode: congestion avoidance, which had not started yet, starts.
#[test]
fn undo_of_a_timeout_inside_an_episode_begins_the_law() {
    let (mut sender, log) = scribe(None, SteadyStep::Stay, 0);
    sender.fill();
    sender.lose();
    let target = sender.ssthresh();
    let order = ["launch", "classify", "reduce", "recovery.enter"];
    assert_eq!(taken(&log), order);
    sender.send(SegmentKind::Data);
    let in_flight = sender.in_flight;
    sender.controller.on_timeout(&crate::Timeout::new(sender.now, 1, in_flight), &sender.path);
    assert_eq!(sender.cwnd(), segments(1));
    taken(&log);
    sender.event(&PathEvent::Spurious { now: sender.now, timeout: true, in_flight });
    assert_eq!((sender.cwnd(), sender.ssthresh()), (target, target));
    assert_eq!(taken(&log), ["law after a loss"]);
}

/// Counts the ACKs that it observes, up to a limit.
#[derive(Debug)]
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
    fn classify(&mut self, _loss: &Loss<'_>, _path: &Path) -> Verdict {
        Verdict::CONGESTION
    }
}

#[test]
fn a_stage_observes_acks_until_it_declines() {
    for (limit, expected) in [(1, 1), (3, 3), (u32::MAX, 5)] {
        let seen = Arc::new(Mutex::new(0));
        let stages = Stages { classifier: Box::new(Counter { seen: seen.clone(), limit }), ..Stages::default() };
        let mut sender = Sender::with(Box::new(Composed::new(stages, &BuildParams::default())), Granted::basic());
        sender.fill();
        for _ in 0..5 {
            sender.ack(1);
        }
        assert_eq!(*seen.lock().expect("one thread"), expected);
    }
}

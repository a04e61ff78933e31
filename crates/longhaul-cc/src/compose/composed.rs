//! The controller that is made of stages.

use longhaul_units::{Bytes, Span, Time};

use super::restart::Restart;
use super::{
    Cause, Growth, GrowthStep, Handoff, Launch, LaunchStep, LaunchVerdict, Loss, LossClassifier, Opening, Reason,
    Recovery, RecoveryStep, Signal, Stage, Steady, SteadyStep, Verdict, Window,
};
use crate::{
    Ack, BuildParams, Control, Controller, Detection, EcnMark, Episode, Granted, NeedError, Needs, Path, PathEvent,
    SegmentKind, Sent, Snapshot, Timeout,
};

/// The parts of a [`Composed`] controller and its name.
#[derive(Debug)]
pub struct Stages {
    /// The whole's name, as the registry prints it.
    pub name: String,
    /// Opens the window.
    pub launch: Box<dyn Launch>,
    /// Raises it quickly.
    pub growth: Box<dyn Growth>,
    /// Holds it.
    pub steady: Box<dyn Steady>,
    /// Says what a loss meant.
    pub classifier: Box<dyn LossClassifier>,
    /// Owns it during repair.
    pub recovery: Box<dyn Recovery>,
}

/// Who holds the window outside of repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Launch,
    Growth,
    Steady,
}

/// Why recovery holds the window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RepairKind {
    Loss,
    /// A mark, until everything that was in flight with it is delivered.
    Ecn,
    /// The episode is over, the scheme keeps the window for a while.
    Afterwards,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Repair {
    kind: RepairKind,
    target: f64,
}

/// What to return to if a decrease turns out to be spurious.
#[derive(Debug)]
struct Checkpoint {
    window: Window,
    phase: Phase,
    reason: Reason,
    steady: Box<dyn Steady>,
    /// Whether recovery held the window, so that the law had yet to take over.
    in_repair: bool,
    timeout: bool,
}

/// A controller composed of a launch, a growth, a law, a classifier and a recovery.
///
/// What it does itself, for all of them:
///
/// * nothing raises the window while the window does not limit the sender, except a launch (RFC 9438, section 5.8);
/// * one decrease for a loss episode, one more for each lost retransmission (RFC 5681, section 4.3), one for a round
///   trip's marks, and none for losses found among data that a mark was already answered for (RFC 3168,
///   section 6.1.2);
/// * a timeout sets the window to one segment and lowers the threshold, the latter only for the first of a run
///   (RFC 5681, equation 4);
/// * after idleness the window is at most the restart window (RFC 5681, section 4.1; RFC 6928, section 2);
/// * a spurious decrease is undone in full: window, threshold, phase and the law's state return, unless the window has
///   grown beyond by itself (RFC 9438, section 4.9.2). RFC 4015's smaller window after a spurious timeout prevents
///   bursts, which here is the pacer's part;
/// * a new segment size keeps the window in bytes (floor: one segment, threshold two), except that a smaller one
///   before the first acknowledgement scales an initial or restart window down with it (RFC 5681, section 3.1).
#[derive(Debug)]
pub struct Composed {
    name: String,
    launch: Box<dyn Launch>,
    growth: Box<dyn Growth>,
    steady: Box<dyn Steady>,
    classifier: Box<dyn LossClassifier>,
    recovery: Box<dyn Recovery>,
    window: Window,
    phase: Phase,
    reason: Reason,
    repair: Option<Repair>,
    undo: Option<Checkpoint>,
    /// Until so many bytes are delivered in total, losses are among data that a mark was answered for.
    marked_until: Option<Bytes>,
    restart: Restart,
    mss: Bytes,
    cap: Bytes,
    ecn: EcnMark,
    sack: bool,
}

impl Composed {
    /// A controller before its handshake, made of `stages`.
    #[must_use]
    pub fn new(stages: Stages, params: &BuildParams) -> Self {
        let Stages { name, launch, growth, steady, classifier, recovery } = stages;
        Self {
            name,
            launch,
            growth,
            steady,
            classifier,
            recovery,
            window: Window::new(params.mss.as_f64().max(1.0)),
            phase: Phase::Launch, // its header rides on the SYN
            reason: Reason::NoLoss,
            repair: None,
            undo: None,
            marked_until: None,
            restart: Restart::default(),
            mss: params.mss,
            cap: params.max_cwnd,
            ecn: EcnMark::NotEct,
            sack: true,
        }
    }

    fn stages(&self) -> [&dyn Stage; 5] {
        [&*self.launch, &*self.growth, &*self.steady, &*self.classifier, &*self.recovery]
    }

    fn stages_mut(&mut self) -> [&mut dyn Stage; 5] {
        [&mut *self.launch, &mut *self.growth, &mut *self.steady, &mut *self.classifier, &mut *self.recovery]
    }

    /// The stage that holds the window now.
    fn active(&self) -> &dyn Stage {
        match (self.repair, self.phase) {
            (Some(_), _) => &*self.recovery,
            (None, Phase::Launch) => &*self.launch,
            (None, Phase::Growth) => &*self.growth,
            (None, Phase::Steady) => &*self.steady,
        }
    }

    fn bound(&mut self) {
        self.window.bound(self.mss, self.cap);
    }

    /// The window as it is, or as it will be when the running episode ends.
    fn settled(&self) -> f64 {
        self.repair.map_or(self.window.cwnd, |repair| repair.target)
    }

    fn set_detection(&mut self, detection: Detection) {
        self.sack = detection != Detection::DuplicateAcks;
        for stage in self.stages_mut() {
            stage.on_detection(detection);
        }
    }

    /// How many bytes of this ACK a window may grow on. Without SACK the transport credits a duplicate ACK with a
    /// segment, which must not open the window (RFC 5681, section 3.2).
    fn growable(&self, ack: &Ack<'_>) -> Bytes {
        match (ack.cwnd_limited, self.sack) {
            (false, _) => Bytes::ZERO,
            (true, true) => ack.delivered,
            (true, false) => ack.delivered.min(ack.cumulative),
        }
    }

    /// Hands the window to growth if it is below its threshold, else to the law.
    fn hand_over(&mut self, now: Time, path: &Path) {
        if self.window.below_threshold() {
            self.phase = Phase::Growth;
            self.growth.begin(self.reason, path, &self.window);
        } else {
            self.begin_steady(now, path);
        }
    }

    fn begin_steady(&mut self, now: Time, path: &Path) {
        self.phase = Phase::Steady;
        self.steady.begin(&Handoff::new(now, self.reason), path, &mut self.window);
    }

    fn begin_launch(&mut self, opening: Opening, now: Time, path: &Path) -> LaunchStep {
        self.phase = Phase::Launch;
        let step = self.launch.begin(opening, now, path, &mut self.window);
        self.bound();
        step
    }

    /// Takes the window from a launch and from recovery.
    fn interrupt(&mut self) {
        if self.phase == Phase::Launch {
            self.launch.abort();
            self.phase = Phase::Growth;
        }
        if self.repair.take().is_some() {
            self.recovery.abort();
        }
    }

    fn checkpoint(&mut self, timeout: bool) {
        self.undo = Some(Checkpoint {
            window: Window { cwnd: self.settled(), ..self.window },
            phase: self.phase,
            reason: self.reason,
            steady: self.steady.clone_box(),
            in_repair: self.repair.is_some(),
            timeout,
        });
    }

    /// Lets the law lower the threshold; returns the window to arrive at.
    fn reduce(&mut self, now: Time, signal: Signal, flight: Bytes, verdict: Verdict, path: &Path) -> f64 {
        let before = self.settled();
        let target = self.steady.reduce(&Cause { verdict, ..Cause::new(now, signal, flight, before) }, path);
        self.window.ssthresh = target.ssthresh;
        target.cwnd.min(before)
    }

    fn on_loss(&mut self, signal: Signal, ack: &Ack<'_>, path: &Path) {
        let loss = Loss { signal, ack };
        self.restart.on_loss(ack.cumulative);
        let verdict = self.classifier.classify(&loss, path);
        if self.vetoed(&loss, path) {
            return;
        }
        let target = if signal == Signal::Loss && self.marked_until.is_some() {
            self.settled()
        } else {
            if signal == Signal::Loss {
                self.checkpoint(false);
            }
            self.reduce(ack.now, signal, ack.flight_size, verdict, path)
        };
        self.reason = Reason::Loss;
        self.enter(RepairKind::Loss, target, ack, path);
    }

    fn on_mark(&mut self, ack: &Ack<'_>, path: &Path) {
        if self.vetoed(&Loss { signal: Signal::Ecn, ack }, path) {
            return;
        }
        // The mark is real whatever becomes of an earlier loss.
        self.undo = None;
        let target = self.reduce(ack.now, Signal::Ecn, ack.flight_size, Verdict::CONGESTION, path);
        self.reason = Reason::Ecn;
        self.marked_until = Some(ack.total_delivered + ack.in_flight);
        self.enter(RepairKind::Ecn, target, ack, path);
        if ack.in_flight == Bytes::ZERO {
            self.finish(ack, path); // the marked data were the last
        }
    }

    /// Whether a launch answers by itself; if not, it is over.
    fn vetoed(&mut self, loss: &Loss<'_>, path: &Path) -> bool {
        if self.repair.is_some() || self.phase != Phase::Launch {
            return false;
        }
        match self.launch.on_loss(loss, path, &mut self.window) {
            LaunchVerdict::Handled => true,
            LaunchVerdict::Delegate => {
                self.launch.abort();
                self.phase = Phase::Growth;
                false
            }
        }
    }

    fn enter(&mut self, kind: RepairKind, target: f64, ack: &Ack<'_>, path: &Path) {
        self.phase = Phase::Steady;
        self.repair = Some(Repair { kind, target });
        self.recovery.enter(target, ack, path, &mut self.window);
    }

    fn finish(&mut self, ack: &Ack<'_>, path: &Path) {
        let step = self.recovery.exit(ack, path, &mut self.window);
        self.bound();
        match step {
            RecoveryStep::Stay => {
                self.repair = Some(Repair { kind: RepairKind::Afterwards, target: self.window.cwnd });
            }
            RecoveryStep::Done => self.release(ack.now, path),
        }
    }

    fn release(&mut self, now: Time, path: &Path) {
        self.repair = None;
        self.bound();
        self.hand_over(now, path);
    }

    /// An ACK while recovery holds the window.
    fn on_repair_ack(&mut self, repair: Repair, ack: &Ack<'_>, path: &Path) {
        let ended = match repair.kind {
            RepairKind::Loss => !matches!(ack.episode, Episode::In),
            RepairKind::Ecn => self.marked_until.is_none_or(|until| all_delivered(until, ack)),
            RepairKind::Afterwards => false,
        };
        if ended {
            self.finish(ack, path);
        } else if self.recovery.on_ack(ack, path, &mut self.window) == RecoveryStep::Done
            && repair.kind == RepairKind::Afterwards
        {
            self.release(ack.now, path);
        }
    }

    /// An ACK while a launch, growth or the law holds the window.
    fn on_open_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        if self.phase == Phase::Launch {
            if self.launch.on_ack(ack, path, &mut self.window) == LaunchStep::Done {
                self.bound();
                self.hand_over(ack.now, path);
            }
            return;
        }
        if matches!(ack.episode, Episode::In | Episode::Exit) {
            return; // an episode whose decrease was undone
        }
        let grow = self.growable(ack);
        let ceiling = self.window.cwnd + grow.as_f64();
        if self.phase == Phase::Growth {
            let step = self.growth.on_ack(ack, grow, path, &mut self.window);
            self.window.cwnd = self.window.cwnd.min(ceiling);
            self.after_growth(step, ack.now, path);
        } else {
            let step = self.steady.on_ack(ack, grow, path, &mut self.window);
            self.window.cwnd = self.window.cwnd.min(ceiling);
            self.after_steady(step, ack.now, path);
        }
    }

    fn after_growth(&mut self, step: GrowthStep, now: Time, path: &Path) {
        if step == GrowthStep::Done {
            self.bound();
            self.begin_steady(now, path);
        }
    }

    fn after_steady(&mut self, step: SteadyStep, now: Time, path: &Path) {
        self.bound();
        match step {
            SteadyStep::Stay => {}
            SteadyStep::Grow => {
                self.reason = Reason::Asked;
                self.phase = Phase::Growth;
                self.growth.begin(self.reason, path, &self.window);
            }
            SteadyStep::Launch => {
                self.reason = Reason::Asked;
                if self.begin_launch(Opening::Asked, now, path) == LaunchStep::Done {
                    self.hand_over(now, path);
                }
            }
        }
    }

    fn on_established(&mut self, now: Time, path: &Path) {
        self.restart.begin();
        self.window = Window::new(self.growth.initial_window(path).as_f64());
        self.reason = Reason::NoLoss;
        self.bound();
        if self.begin_launch(Opening::Connection, now, path) == LaunchStep::Done {
            self.hand_over(now, path);
        }
    }

    fn on_idle_restart(&mut self, now: Time, idle: Span, path: &Path) {
        let law_holds = self.phase == Phase::Steady && self.repair.is_none();
        self.interrupt();
        self.marked_until = None;
        self.steady.on_idle(now, idle);
        let restart = self.restart.window(self.growth.initial_window(path), self.mss);
        self.restart.begin();
        self.window.cwnd = self.window.cwnd.min(restart.as_f64());
        self.bound();
        if law_holds {
            self.reason = Reason::Idle;
        }
        match self.begin_launch(Opening::Idle, now, path) {
            LaunchStep::Stay => {}
            // The window was no larger than a restart's: nothing was taken from the law.
            LaunchStep::Done if law_holds && !self.window.below_threshold() => self.phase = Phase::Steady,
            LaunchStep::Done => self.hand_over(now, path),
        }
    }

    fn on_mss(&mut self, now: Time, old: Bytes, path: &Path) {
        if self.restart.is_leaving() && path.mss < old {
            self.window.cwnd *= path.mss.as_f64() / old.as_f64();
        }
        self.bound();
        self.steady.on_mss(now, old, path, &self.window);
    }

    /// A decrease was spurious: returns to what was before it, unless the window has grown beyond by itself.
    fn undo(&mut self, now: Time, timeout: bool, path: &Path) {
        let settled = self.settled();
        let saved = self.undo.take_if(|saved| saved.timeout == timeout);
        match saved.filter(|saved| settled < saved.window.cwnd) {
            Some(saved) => self.restore(saved, now, path),
            // A mark was answered in between: the episode is over all the same.
            None if self.repair.is_some_and(|repair| repair.kind == RepairKind::Loss) => {
                self.window.cwnd = settled;
                self.interrupt();
                self.hand_over(now, path);
            }
            None => {}
        }
    }

    fn restore(&mut self, saved: Checkpoint, now: Time, path: &Path) {
        self.interrupt();
        let ssthresh = self.window.ssthresh.max(saved.window.ssthresh);
        self.window = Window { ssthresh, ..saved.window };
        self.phase = saved.phase;
        self.reason = saved.reason;
        self.steady = saved.steady;
        self.bound();
        if saved.in_repair || self.phase == Phase::Growth {
            self.hand_over(now, path);
        }
    }
}

/// Whether what was in flight when `until` was noted has been delivered or at least left the network.
fn all_delivered(until: Bytes, ack: &Ack<'_>) -> bool {
    ack.total_delivered >= until || ack.in_flight == Bytes::ZERO
}

impl Controller for Composed {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// The demands of all stages, and ECT(0) preferred: every law answers marks as it answers losses.
    fn needs(&self) -> Needs {
        let mut needs = self.stages().into_iter().fold(Needs::default(), |sum, stage| sum.union(stage.needs()));
        needs.preferred.ecn = needs.preferred.ecn.max(EcnMark::Ect0);
        needs
    }

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.mss = path.mss;
        let needs = self.needs();
        self.ecn = granted.ecn.min(needs.preferred.ecn.max(needs.required.ecn));
        let refused = self.stages_mut().into_iter().find_map(|stage| stage.on_granted(granted, path).err());
        if let Some(NeedError { need, .. }) = refused {
            return Err(NeedError { controller: self.name.clone(), need });
        }
        self.set_detection(granted.detection);
        Ok(())
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        if event.kind == SegmentKind::Data {
            self.restart.on_sent(event.bytes);
        }
        for stage in self.stages_mut() {
            stage.on_sent(event, path);
        }
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.mss = path.mss;
        for stage in self.stages_mut() {
            stage.observe(event, path);
        }
        let answered = self.repair.is_some_and(|repair| repair.kind != RepairKind::Afterwards);
        match (event.episode, self.repair) {
            (Episode::Enter, _) => self.on_loss(Signal::Loss, event, path),
            (Episode::Again, _) => self.on_loss(Signal::LossAgain, event, path),
            (Episode::None | Episode::Rto, _) if event.ecn.congestion && !answered => self.on_mark(event, path),
            (_, Some(repair)) => self.on_repair_ack(repair, event, path),
            (_, None) => self.on_open_ack(event, path),
        }
        self.marked_until.take_if(|until| all_delivered(*until, event));
        self.restart.on_ack(event.cumulative, event.delivered);
        self.bound();
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.mss = path.mss;
        self.restart.on_loss(Bytes::ZERO);
        if event.nth <= 1 {
            if self.phase == Phase::Launch {
                self.launch.abort();
                self.phase = Phase::Growth;
            }
            self.checkpoint(true);
            self.reduce(event.now, Signal::Timeout, event.flight_size, Verdict::CONGESTION, path);
        }
        self.interrupt();
        self.marked_until = None;
        self.window.cwnd = self.mss.as_f64();
        self.reason = Reason::Timeout;
        self.bound();
        if self.begin_launch(Opening::Timeout, event.now, path) == LaunchStep::Done {
            self.phase = Phase::Growth;
            self.growth.begin(self.reason, path, &self.window);
        }
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.mss = path.mss;
        match *event {
            PathEvent::Established { now, .. } => self.on_established(now, path),
            PathEvent::Mss { now, old } => self.on_mss(now, old, path),
            PathEvent::IdleRestart { now, idle } => self.on_idle_restart(now, idle, path),
            PathEvent::Spurious { now, timeout, .. } => self.undo(now, timeout, path),
            PathEvent::Detection(detection) => self.set_detection(detection),
            PathEvent::Limit { .. } => {}
        }
        self.bound();
    }

    fn on_tick(&mut self, now: Time, path: &Path) {
        self.mss = path.mss;
        match (self.repair, self.phase) {
            (Some(repair), _) => {
                let step = self.recovery.on_tick(now, path, &mut self.window);
                if step == RecoveryStep::Done && repair.kind == RepairKind::Afterwards {
                    self.release(now, path);
                }
            }
            (None, Phase::Launch) => {
                if self.launch.on_tick(now, path, &mut self.window) == LaunchStep::Done {
                    self.bound();
                    self.hand_over(now, path);
                }
            }
            (None, Phase::Growth) => {
                let step = self.growth.on_tick(now, path, &mut self.window);
                self.after_growth(step, now, path);
            }
            (None, Phase::Steady) => {
                let step = self.steady.on_tick(now, path, &mut self.window);
                self.after_steady(step, now, path);
            }
        }
        self.bound();
    }

    fn next_tick(&self) -> Option<Time> {
        self.active().next_tick()
    }

    fn control(&self) -> Control {
        let overlay = self.active().overlay();
        Control {
            cwnd: Bytes::from_f64(self.window.cwnd),
            pace: overlay.pace,
            probe: overlay.probe,
            ecn: self.ecn,
            header: overlay.header,
            tag: overlay.tag,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let phase = match self.repair {
            Some(Repair { kind: RepairKind::Ecn, .. }) => "cwr",
            _ => self.active().phase(),
        };
        Snapshot { phase, ssthresh: Some(Bytes::from_f64(self.window.ssthresh)), bandwidth: None }
    }
}

//! The controller that is made of stages.

mod congestion;
mod controller;
mod startup;

use longhaul_units::{Bytes, Span, Time};

use self::startup::Record;
use super::restart::Restart;
use super::{
    Growth, GrowthStep, Handoff, Launch, LaunchStep, LossClassifier, Opening, Reason, Recovery, Stage, Steady,
    SteadyStep, Window,
};
use crate::classify::AllCongestion;
use crate::growth::HyStartPp;
use crate::launch::NoLaunch;
use crate::recovery::Prr;
use crate::steady::Cubic;
use crate::{Ack, BuildParams, Detection, EcnMark, Episode, Path};

/// The parts of a [`Composed`] controller and its name. The default's are those of `cubic`: HyStart++, CUBIC and PRR.
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

impl Default for Stages {
    fn default() -> Self {
        Self {
            name: "cubic".to_owned(),
            launch: Box::new(NoLaunch),
            growth: Box::new(HyStartPp::new(Default::default())),
            steady: Box::new(Cubic::new(Default::default())),
            classifier: Box::new(AllCongestion),
            recovery: Box::new(Prr::new()),
        }
    }
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
/// One part of one's own is enough, the others are the default's:
///
/// ```
/// use longhaul_cc::compose::{Cause, Composed, Handoff, Stage, Stages, Steady, SteadyStep, Target, Window};
/// use longhaul_cc::{Ack, BuildParams, Controller, Path, steady};
/// use longhaul_units::Bytes;
///
/// /// Half a segment per round trip up, three tenths of the window down.
/// #[derive(Clone, Debug)]
/// struct Gentle;
///
/// impl Stage for Gentle {
///     fn phase(&self) -> &'static str {
///         "congestion-avoidance"
///     }
/// }
///
/// impl Steady for Gentle {
///     fn begin(&mut self, _: &Handoff, _: &Path, _: &mut Window) {}
///     fn on_ack(&mut self, _: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
///         steady::additive(window, 0.5, grow, path.mss);
///         SteadyStep::Stay
///     }
///     fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
///         Target::multiplicative(cause, 0.7, path.mss)
///     }
///     fn clone_box(&self) -> Box<dyn Steady> {
///         Box::new(self.clone())
///     }
/// }
///
/// let stages = Stages { name: "gentle".to_owned(), steady: Box::new(Gentle), ..Stages::default() };
/// let controller = Composed::new(stages, &BuildParams::default());
/// assert_eq!(controller.name(), "gentle");
/// ```
///
/// What it does itself, for all of them:
///
/// * nothing raises the window while the window does not limit the sender, except a launch (RFC 9438, section 5.8);
/// * one decrease for a loss episode, one more for each lost retransmission (RFC 5681, section 4.3), one for a round
///   trip's marks, and none for losses found among data that a mark was already answered for (RFC 3168,
///   section 6.1.2);
/// * a mark is answered by the law, or by [a share](Composed::keeping_at_marks) that is kept (RFC 8511);
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
    /// Which of the five stages observe the next ACK.
    observers: [bool; 5],
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
    /// The threshold to begin with, bytes; infinite unless the transport knew the path.
    initial_ssthresh: f64,
    byte_counting: bool,
    ecn: EcnMark,
    /// Delivered by SACK since SND.UNA last advanced, outside of recovery.
    above_hole: Bytes,
    /// What the ACK in hand delivered, with what was delivered above the hole that it closes; zero if it closes none.
    progress: Bytes,
    /// What of the window a mark leaves, if that is not for the law to say.
    mark_share: Option<f64>,
    /// What became of the launch.
    startup: Record,
}

impl Composed {
    /// A controller before its handshake, made of `stages`.
    #[must_use]
    pub fn new(stages: Stages, params: &BuildParams) -> Self {
        let Stages { name, mut launch, growth, steady, classifier, recovery } = stages;
        if let Some(saved) = params.saved_path {
            launch.recall(saved);
        }
        Self {
            name,
            observers: [true; 5],
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
            initial_ssthresh: params.initial_ssthresh.map_or(f64::INFINITY, Bytes::as_f64),
            byte_counting: params.byte_counting,
            ecn: EcnMark::NotEct,
            above_hole: Bytes::ZERO,
            progress: Bytes::ZERO,
            mark_share: None,
            startup: Record::new(params.saved_path.is_some()),
        }
    }

    /// The same controller where a mark leaves `share` (0 to 1) of FlightSize or the window, whichever is less, whatever
    /// the law makes of marks (RFC 8511, section 3); with `None` the law answers. Before the handshake.
    #[must_use]
    pub const fn keeping_at_marks(mut self, share: Option<f64>) -> Self {
        self.mark_share = share;
        self
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
        let running = self.repair.filter(|repair| repair.kind != RepairKind::Afterwards);
        running.map_or(self.window.cwnd, |repair| repair.target)
    }

    fn set_detection(&mut self, detection: Detection) {
        for stage in self.stages_mut() {
            stage.on_detection(detection);
        }
    }

    /// Notes what an ACK delivered: it may open the window once SND.UNA advances (RFC 5681, section 3.1).
    ///
    /// A duplicate ACK that brings nothing but SACK blocks leaves the window alone: the first two let one segment each go
    /// because they lower the pipe (RFC 3042; RFC 6675, section 5). Outside of recovery, what they delivered counts with the
    /// next advance, so that reordering costs no growth.
    fn note_progress(&mut self, ack: &Ack<'_>) {
        let delivered = self.above_hole + ack.delivered;
        let advances = ack.cumulative > Bytes::ZERO;
        self.progress = if advances { delivered } else { Bytes::ZERO };
        self.above_hole = if advances || ack.episode != Episode::None { Bytes::ZERO } else { delivered };
    }

    /// Returns how many bytes of this ACK a window may grow on. Without byte counting an ACK is worth at most one segment
    /// (RFC 5681, equations 2 and 3).
    fn growable(&self, ack: &Ack<'_>) -> Bytes {
        match (ack.cwnd_limited, self.byte_counting) {
            (false, _) => Bytes::ZERO,
            (true, true) => self.progress,
            (true, false) => self.progress.min(self.mss),
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
            self.startup.end(&*self.launch, startup::IDLE);
            self.launch.abort();
            self.phase = Phase::Growth;
        }
        if self.repair.take().is_some() {
            self.recovery.abort();
        }
    }

    /// An ACK while a launch, growth or the law holds the window.
    fn on_open_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        if self.phase == Phase::Launch {
            self.startup.look(&*self.launch);
            let before = self.window;
            let step = self.launch.on_ack(ack, path, &mut self.window);
            self.startup.after(step, (before, self.window), ack.delivered, startup::NO_ROOM);
            if step == LaunchStep::Done {
                self.bound();
                self.hand_over(ack.now, path);
            }
            return;
        }
        if matches!(ack.episode, Episode::In | Episode::Exit) {
            return; // an episode whose decrease was undone
        }
        let grow = self.growable(ack);
        let ceiling = self.window.cwnd + grow.as_f64() * self.active().gain();
        if self.phase == Phase::Growth {
            if let Some(ssthresh) = self.launch.threshold(path).filter(|_| self.reason == Reason::NoLoss) {
                self.window.ssthresh = ssthresh.min(self.initial_ssthresh);
            }
            let step = self.growth.on_ack(ack, grow, path, &mut self.window);
            self.window.cwnd = self.window.cwnd.min(ceiling);
            self.after_growth(step, ack.now, path);
        } else {
            let step = self.steady.on_ack(ack, grow, path, &mut self.window);
            self.window.cwnd = self.window.cwnd.min(ceiling);
            self.after_steady(step, ack.now, path);
            if self.phase == Phase::Steady && self.reason == Reason::NoLoss && self.observers[0] {
                self.look_for_room(path);
            }
        }
    }

    /// Goes back to growth where a launch has found that the path holds more than it did. The law takes over again as it did before:
    /// still nothing was lost.
    fn look_for_room(&mut self, path: &Path) {
        let Some(ssthresh) = self.launch.room(path, &self.window) else { return };
        let ssthresh = ssthresh.min(self.initial_ssthresh);
        if self.window.cwnd < ssthresh {
            self.window.ssthresh = ssthresh;
            self.phase = Phase::Growth;
            self.growth.begin(Reason::Asked, path, &self.window);
        }
    }

    fn after_growth(&mut self, step: GrowthStep, now: Time, path: &Path) {
        if step == GrowthStep::Done {
            self.bound();
            self.begin_steady(now, path);
        }
    }

    fn after_steady(&mut self, step: SteadyStep, now: Time, path: &Path) {
        if step == SteadyStep::Stay {
            return;
        }
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
        let cwnd = self.growth.initial_window(path).as_f64();
        self.window = Window { cwnd, ssthresh: self.initial_ssthresh };
        self.reason = Reason::NoLoss;
        self.bound();
        let before = self.window;
        let step = self.begin_launch(Opening::Connection, now, path);
        self.startup.begin(&*self.launch, step, (before, self.window), path);
        if step == LaunchStep::Done {
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
}

//! Controller that is composed of stages.

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

/// The stages of a [`Composed`] controller and its name. The defaults are those of `cubic`: HyStart++, CUBIC and PRR.
#[derive(Debug)]
pub struct Stages {
    /// The controller's name, as the registry prints it.
    pub name: String,
    /// Start-up scheme.
    pub launch: Box<dyn Launch>,
    /// Slow-start variant.
    pub growth: Box<dyn Growth>,
    /// Congestion-avoidance algorithm.
    pub steady: Box<dyn Steady>,
    /// Loss classifier.
    pub classifier: Box<dyn LossClassifier>,
    /// Recovery.
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

/// Stage that controls the window outside of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Launch,
    Growth,
    Steady,
}

/// Reason for which recovery controls the window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RepairKind {
    Loss,
    /// After a mark, until everything that was in flight at that time is delivered.
    Ecn,
    /// After the episode, while the recovery algorithm still keeps the window.
    Afterwards,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Repair {
    kind: RepairKind,
    target: f64,
}

/// State to restore if a decrease turns out to be spurious.
#[derive(Debug)]
struct Checkpoint {
    window: Window,
    phase: Phase,
    reason: Reason,
    steady: Box<dyn Steady>,
    /// Whether recovery controlled the window, so that congestion avoidance had not started yet.
    in_repair: bool,
    timeout: bool,
}

/// A controller composed of a start-up scheme, a slow-start variant, congestion avoidance, a loss classifier and
/// recovery.
///
/// An application may provide a single stage and use the defaults of the others:
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
/// In addition to the stages, it has these rules:
///
/// * While the window does not limit the sender, only a start-up scheme can increase it (RFC 9438, section 5.8).
/// * The window decreases once per loss episode, once more for each lost retransmission (RFC 5681, section 4.3), and
///   once for all marks in a round trip. Losses among data for whose mark it has decreased do not decrease it
///   again (RFC 3168, section 6.1.2).
/// * On a mark, congestion avoidance chooses the decrease, unless [a fraction to keep](Composed::keeping_at_marks) is
///   set (RFC 8511).
/// * A timeout sets the window to one segment. The first of several consecutive timeouts also lowers the threshold
///   (RFC 5681, equation 4).
/// * After an idle period, the window is at most the restart window (RFC 5681, section 4.1; RFC 6928, section 2).
/// * A spurious decrease is undone completely: the window, threshold, phase and state of congestion avoidance are
///   restored, unless the window has since grown beyond its old size (RFC 9438, section 4.9.2). RFC 4015 sets a
///   smaller window after a spurious timeout to prevent bursts; here, pacing prevents them.
/// * If the segment size changes, the window in bytes is kept (at least one segment, and the threshold two). However,
///   a smaller size before the first acknowledgment scales an initial or restart window down (RFC 5681, section 3.1).
#[derive(Debug)]
pub struct Composed {
    name: String,
    launch: Box<dyn Launch>,
    growth: Box<dyn Growth>,
    steady: Box<dyn Steady>,
    classifier: Box<dyn LossClassifier>,
    recovery: Box<dyn Recovery>,
    /// Whether each of the five stages observes the next ACK.
    observers: [bool; 5],
    window: Window,
    phase: Phase,
    reason: Reason,
    repair: Option<Repair>,
    undo: Option<Checkpoint>,
    /// Value of `total_delivered` up to which losses belong to data for whose mark the window has already decreased.
    marked_until: Option<Bytes>,
    restart: Restart,
    mss: Bytes,
    cap: Bytes,
    /// The initial threshold, bytes; infinite unless the transport has a cached one.
    initial_ssthresh: f64,
    byte_counting: bool,
    ecn: EcnMark,
    /// Bytes delivered by SACK since SND.UNA last advanced, outside of recovery.
    above_hole: Bytes,
    /// Bytes that the current ACK delivered, and those above the hole that it fills; zero if SND.UNA does not
    /// advance.
    progress: Bytes,
    /// The fraction of the window to keep on a mark, if congestion avoidance does not choose it.
    mark_share: Option<f64>,
    /// The outcome of the start-up scheme.
    startup: Record,
}

impl Composed {
    /// A controller made of `stages`, in the state before its handshake.
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
            phase: Phase::Launch, // so that the SYN carries its header
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

    /// Keeps the fraction `share` (0 to 1) of FlightSize or the window, whichever is less, on a mark (RFC 8511,
    /// section 3). With `None`, congestion avoidance chooses the decrease. To be called before the handshake.
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

    /// Returns the stage that controls the window.
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

    /// Returns the current window or, during an episode, the window at its end.
    fn settled(&self) -> f64 {
        let running = self.repair.filter(|repair| repair.kind != RepairKind::Afterwards);
        running.map_or(self.window.cwnd, |repair| repair.target)
    }

    fn set_detection(&mut self, detection: Detection) {
        for stage in self.stages_mut() {
            stage.on_detection(detection);
        }
    }

    /// Records what an ACK delivered, which may increase the window once SND.UNA advances (RFC 5681, section 3.1).
    ///
    /// A duplicate ACK with nothing but SACK blocks does not increase the window: each of the first two allows one
    /// segment because it lowers the pipe (RFC 3042; RFC 6675, section 5). Outside of recovery, the bytes that they
    /// delivered count at the next advance, so that reordering does not slow the increase.
    fn note_progress(&mut self, ack: &Ack<'_>) {
        let delivered = self.above_hole + ack.delivered;
        let advances = ack.cumulative > Bytes::ZERO;
        self.progress = if advances { delivered } else { Bytes::ZERO };
        self.above_hole = if advances || ack.episode != Episode::None { Bytes::ZERO } else { delivered };
    }

    /// Returns how many bytes of this ACK may increase a window. Without byte counting, an ACK counts as at most one
    /// segment (RFC 5681, equations 2 and 3).
    fn growable(&self, ack: &Ack<'_>) -> Bytes {
        match (ack.cwnd_limited, self.byte_counting) {
            (false, _) => Bytes::ZERO,
            (true, true) => self.progress,
            (true, false) => self.progress.min(self.mss),
        }
    }

    /// Hands the window to the slow-start variant if it is below its threshold, else to congestion avoidance.
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

    /// Takes over the window from a start-up scheme and from recovery.
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

    /// Processes an ACK outside of recovery.
    fn on_open_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        // The start-up scheme controls the window.
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
        // An ACK of an episode whose decrease was undone does not increase the window.
        if matches!(ack.episode, Episode::In | Episode::Exit) {
            return;
        }
        let grow = self.growable(ack);
        let ceiling = self.window.cwnd + grow.as_f64() * self.active().gain();
        // Slow start: the start-up scheme may move the threshold while nothing has been lost.
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

    /// Returns to slow start if a start-up scheme found that the path holds more than before. Congestion avoidance
    /// then takes over for the same reason as before, since nothing has been lost.
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
        // Congestion avoidance learns of the pause, and the window decreases to the restart window.
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
        // The start-up scheme may open the window again.
        match self.begin_launch(Opening::Idle, now, path) {
            LaunchStep::Stay => {}
            // The window was no larger than the restart window, so congestion avoidance continues.
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

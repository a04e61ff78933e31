//! Controller that is composed of stages.

mod congestion;
mod controller;
mod record;

use longhaul_units::{Bytes, Span, Time};

use self::record::Record;
use super::restart::Restart;
use super::{
    AvoidanceStep, CongestionAvoidance, Handoff, LossClassifier, Opening, Reason, Recovery, SlowStart, Stage,
    StageEvent, Startup, Step, Window,
};
use crate::avoidance::Cubic;
use crate::classify::AllCongestion;
use crate::recovery::Prr;
use crate::slow_start::HyStartPp;
use crate::startup::NoStartup;
use crate::{Ack, BuildParams, EcnMark, Episode, Needs, Path, ProbePlan, SavedPath};

/// The stages of a [`Composed`] controller and its name. The defaults are those of `cubic`: HyStart++, CUBIC and PRR.
#[derive(Clone)]
#[non_exhaustive]
pub struct Stages {
    /// The controller's name, as the registry prints it.
    pub name: String,
    /// Start-up scheme.
    pub startup: Box<dyn Startup>,
    /// Slow-start variant.
    pub slow_start: Box<dyn SlowStart>,
    /// Congestion-avoidance algorithm.
    pub avoidance: Box<dyn CongestionAvoidance>,
    /// Loss classifier.
    pub classifier: Box<dyn LossClassifier>,
    /// Recovery.
    pub recovery: Box<dyn Recovery>,
}

longhaul_units::debug_in_part!(Stages;
    name;
    startup slow_start avoidance classifier recovery);

impl Stages {
    /// The default stages of a controller with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    fn all(&self) -> [&dyn Stage; 5] {
        [&*self.startup, &*self.slow_start, &*self.avoidance, &*self.classifier, &*self.recovery]
    }

    fn all_mut(&mut self) -> [&mut dyn Stage; 5] {
        [&mut *self.startup, &mut *self.slow_start, &mut *self.avoidance, &mut *self.classifier, &mut *self.recovery]
    }
}

impl Default for Stages {
    fn default() -> Self {
        Self {
            name: "cubic".to_owned(),
            startup: Box::new(NoStartup),
            slow_start: Box::new(HyStartPp::default()),
            avoidance: Box::new(Cubic::new(Default::default())),
            classifier: Box::new(AllCongestion),
            recovery: Box::new(Prr::default()),
        }
    }
}

/// Stage that controls the window outside of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    SlowStart,
    Avoidance,
}

/// Reason why recovery controls the window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RecoveryKind {
    Loss,
    /// After a mark, until everything that was in flight at that time is delivered.
    Ecn,
    /// After the episode, while the recovery algorithm still keeps the window.
    Afterwards,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Recovering {
    kind: RecoveryKind,
    target: f64,
}

/// State to restore if a decrease turns out to be spurious.
#[derive(Clone, Debug)]
struct Checkpoint {
    window: Window,
    phase: Phase,
    reason: Reason,
    avoidance: Box<dyn CongestionAvoidance>,
    /// Whether recovery controlled the window, so that congestion avoidance had not started yet.
    in_recovery: bool,
    timeout: bool,
}

/// A controller composed of a start-up scheme, a slow-start variant, congestion avoidance, a loss classifier and
/// recovery.
///
/// An application may provide a single stage and use the defaults of the others:
///
/// ```
/// use longhaul_cc::compose::{CongestionEvent, Composed, Handoff, Stage, Stages, CongestionAvoidance, AvoidanceStep, Target, Window, additive};
/// use longhaul_cc::{Ack, BuildParams, Controller, Path};
/// use longhaul_units::Bytes;
///
/// /// Half a segment per round trip up, three tenths of the window down.
/// #[derive(Clone, Debug)]
/// struct Gentle;
///
/// impl Stage for Gentle {
/// }
///
/// impl CongestionAvoidance for Gentle {
///     fn on_ack(&mut self, _: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
///         additive(window, 0.5, grow, path.mss);
///         AvoidanceStep::Stay
///     }
///     fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
///         Target::multiplicative(event, 0.7, path.mss)
///     }
/// }
///
/// let mut stages = Stages::new("gentle");
/// stages.avoidance = Box::new(Gentle);
/// let controller = Composed::new(stages, &BuildParams::default());
/// assert_eq!(controller.name(), "gentle");
/// ```
///
/// In addition to the stages, it has these rules:
///
/// * While the window does not limit the sender, only a start-up scheme can increase it (RFC 9438, section 5.8).
/// * The window decreases once per loss episode, once more for each lost retransmission (RFC 5681, section 4.3), and
///   once for all marks in a round trip. If it has decreased for a mark, losses among the same data do not decrease it
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
#[derive(Clone)]
pub struct Composed {
    stages: Stages,
    /// Whether each of the five stages observes the next ACK.
    observers: [bool; 5],
    window: Window,
    phase: Phase,
    reason: Reason,
    recovering: Option<Recovering>,
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
    /// Number of bytes delivered by SACK since SND.UNA last advanced, outside of recovery.
    above_hole: Bytes,
    /// Number of bytes delivered by the current ACK and above the hole that it fills; zero if SND.UNA does not advance.
    progress: Bytes,
    /// The fraction of the window to keep on a mark, if congestion avoidance does not choose it.
    mark_share: Option<f64>,
    /// Whether the start-up scheme had background probes when it began, in which case it is queried for them.
    has_background: bool,
    saved: Option<SavedPath>,
    record: Record,
    /// The needs of all stages, and ECT(0) as a preference, because every congestion-avoidance algorithm responds to
    /// marks.
    needs: Needs,
}

longhaul_units::debug_in_part!(Composed;
    stages phase window;
    observers reason recovering undo marked_until restart mss cap initial_ssthresh byte_counting ecn above_hole progress
    mark_share has_background saved record needs);

impl Composed {
    /// Creates a controller from `stages`, in the state before its handshake.
    #[must_use]
    pub fn new(stages: Stages, params: &BuildParams) -> Self {
        let mut needs = stages.all().into_iter().fold(Needs::default(), |sum, stage| sum.union(stage.needs()));
        needs.preferred.ecn = needs.preferred.ecn.max(EcnMark::Ect0);
        Self {
            stages,
            observers: [true; 5],
            window: Window::new(params.mss.as_f64().max(1.0)),
            phase: Phase::Startup, // so that the SYN carries its header
            reason: Reason::NoLoss,
            recovering: None,
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
            has_background: false,
            saved: params.saved_path,
            record: Record::new(params.saved_path.is_some()),
            needs,
        }
    }

    /// Keeps the fraction `share` (0 to 1) of FlightSize or the window, whichever is smaller, on a mark (RFC 8511,
    /// section 3). With `None`, congestion avoidance chooses the decrease. Call it before the handshake.
    #[must_use]
    pub const fn keeping_at_marks(mut self, share: Option<f64>) -> Self {
        self.mark_share = share;
        self
    }

    /// Hands a window of `cwnd` bytes to congestion avoidance, as after slow start without a loss.
    #[doc(hidden)]
    pub fn take_over(&mut self, cwnd: f64, now: Time, path: &Path) {
        self.interrupt();
        self.undo = None;
        self.window = Window { cwnd, ssthresh: cwnd };
        self.bound();
        self.reason = Reason::NoLoss;
        self.begin_avoidance(now, path);
    }

    /// Returns whether the start-up scheme controls the window.
    #[doc(hidden)]
    pub fn is_in_startup(&self) -> bool {
        self.phase == Phase::Startup && self.recovering.is_none()
    }

    /// Returns the window and the threshold.
    #[doc(hidden)]
    pub const fn window(&self) -> Window {
        self.window
    }

    fn active(&self) -> &dyn Stage {
        match (self.recovering, self.phase) {
            (Some(_), _) => &*self.stages.recovery,
            (None, Phase::Startup) => &*self.stages.startup,
            (None, Phase::SlowStart) => &*self.stages.slow_start,
            (None, Phase::Avoidance) => &*self.stages.avoidance,
        }
    }

    /// Returns the probes that the start-up scheme sends regardless of the stage that controls the window.
    fn background(&self) -> Option<ProbePlan> {
        if self.has_background { self.stages.startup.overlay().background } else { None }
    }

    fn bound(&mut self) {
        self.window.bound(self.mss, self.cap);
    }

    /// Returns the current window or, during an episode, the window at its end.
    fn settled(&self) -> f64 {
        let running = self.recovering.filter(|recovering| recovering.kind != RecoveryKind::Afterwards);
        running.map_or(self.window.cwnd, |recovering| recovering.target)
    }

    fn tell_stages(&mut self, event: &StageEvent, path: &Path) {
        for stage in self.stages.all_mut() {
            stage.on_event(event, path);
        }
    }

    /// Records the data that an ACK delivered, which may increase the window once SND.UNA advances (RFC 5681, section
    /// 3.1).
    ///
    /// A duplicate ACK with only SACK blocks does not increase the window: each of the first two allows one segment
    /// because it lowers the pipe (RFC 3042; RFC 6675, section 5). Outside of recovery, the bytes that they delivered
    /// count at the next advance, so that reordering does not slow the increase.
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

    /// Hands the window to the slow-start variant if it is below its threshold, otherwise to congestion avoidance.
    fn hand_over(&mut self, now: Time, path: &Path) {
        if self.window.below_threshold() {
            self.phase = Phase::SlowStart;
            self.stages.slow_start.begin(self.reason, path, &self.window);
        } else {
            self.begin_avoidance(now, path);
        }
    }

    fn begin_avoidance(&mut self, now: Time, path: &Path) {
        self.phase = Phase::Avoidance;
        self.stages.avoidance.begin(&Handoff::new(now, self.reason), path, &mut self.window);
    }

    fn begin_startup(&mut self, opening: Opening, now: Time, path: &Path) -> Step {
        self.phase = Phase::Startup;
        let step = self.stages.startup.begin(opening, now, path, &mut self.window);
        self.bound();
        step
    }

    /// Takes over the window from a start-up scheme and from recovery.
    fn interrupt(&mut self) {
        if self.phase == Phase::Startup {
            self.record.end(&*self.stages.startup, record::IDLE);
            self.stages.startup.abort();
            self.phase = Phase::SlowStart;
        }
        if self.recovering.take().is_some() {
            self.stages.recovery.abort();
        }
    }

    fn on_open_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        // The start-up scheme controls the window.
        if self.phase == Phase::Startup {
            self.record.look(&*self.stages.startup);
            let before = self.window;
            let step = self.stages.startup.on_ack(ack, path, &mut self.window);
            self.record.after(step, (before, self.window), ack.delivered, record::NO_ROOM);
            if step == Step::Done {
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
        if self.phase == Phase::SlowStart {
            if let Some(ssthresh) = self.startup_threshold(path) {
                self.window.ssthresh = ssthresh;
            }
            let step = self.stages.slow_start.on_ack(ack, grow, path, &mut self.window);
            self.window.cwnd = self.window.cwnd.min(ceiling);
            self.after_slow_start(step, ack.now, path);
        } else {
            let step = self.stages.avoidance.on_ack(ack, grow, path, &mut self.window);
            self.window.cwnd = self.window.cwnd.min(ceiling);
            self.after_avoidance(step, path);
            if self.phase == Phase::Avoidance {
                self.look_for_room(path);
            }
        }
    }

    /// Returns the threshold that the start-up scheme chooses, if it still observes ACKs and nothing has been lost.
    fn startup_threshold(&mut self, path: &Path) -> Option<f64> {
        if self.reason != Reason::NoLoss || !self.observers[0] {
            return None;
        }
        let ssthresh = self.stages.startup.threshold(self.phase == Phase::SlowStart, path, &self.window)?;
        Some(ssthresh.min(self.initial_ssthresh))
    }

    /// Returns to slow start if a start-up scheme found that the path holds more than before. Congestion avoidance
    /// then takes over for the same reason as before, since nothing has been lost.
    fn look_for_room(&mut self, path: &Path) {
        let Some(ssthresh) = self.startup_threshold(path) else { return };
        if self.window.cwnd < ssthresh {
            self.window.ssthresh = ssthresh;
            self.phase = Phase::SlowStart;
            self.stages.slow_start.begin(Reason::Asked, path, &self.window);
        }
    }

    fn after_slow_start(&mut self, step: Step, now: Time, path: &Path) {
        if step == Step::Done {
            self.bound();
            self.begin_avoidance(now, path);
        }
    }

    fn after_avoidance(&mut self, step: AvoidanceStep, path: &Path) {
        if step == AvoidanceStep::Grow {
            self.bound();
            self.reason = Reason::Asked;
            self.phase = Phase::SlowStart;
            self.stages.slow_start.begin(self.reason, path, &self.window);
        }
    }

    fn on_established(&mut self, now: Time, path: &Path) {
        self.restart.begin();
        if let Some(saved) = self.saved {
            self.tell_stages(&StageEvent::SavedPath(saved), path);
        }
        let cwnd = self.stages.slow_start.initial_window(path).as_f64();
        self.window = Window { cwnd, ssthresh: self.initial_ssthresh };
        self.reason = Reason::NoLoss;
        self.bound();
        let before = self.window;
        let step = self.begin_startup(Opening::Connection, now, path);
        self.has_background = self.stages.startup.overlay().background.is_some();
        self.record.begin(&*self.stages.startup, step, (before, self.window), path);
        if step == Step::Done {
            self.hand_over(now, path);
        }
    }

    fn on_idle_restart(&mut self, now: Time, idle: Span, path: &Path) {
        // Congestion avoidance is informed of the pause, and the window decreases to the restart window.
        let in_avoidance = self.phase == Phase::Avoidance && self.recovering.is_none();
        self.interrupt();
        self.marked_until = None;
        self.tell_stages(&StageEvent::Idle { now, idle }, path);
        let restart = self.restart.window(self.stages.slow_start.initial_window(path), self.mss);
        self.restart.begin();
        self.window.cwnd = self.window.cwnd.min(restart.as_f64());
        self.bound();
        if in_avoidance {
            self.reason = Reason::Idle;
        }
        // The start-up scheme may open the window again.
        match self.begin_startup(Opening::Idle, now, path) {
            Step::Stay => {}
            // The window was no larger than the restart window, so congestion avoidance continues.
            Step::Done if in_avoidance && !self.window.below_threshold() => self.phase = Phase::Avoidance,
            Step::Done => self.hand_over(now, path),
        }
    }

    fn on_mss(&mut self, now: Time, old: Bytes, path: &Path) {
        if self.restart.leaving && path.mss < old {
            self.window.cwnd *= path.mss.as_f64() / old.as_f64();
        }
        self.bound();
        self.tell_stages(&StageEvent::Mss { now, old, window: self.window }, path);
    }
}

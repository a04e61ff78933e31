//! The traits of the stages.

use core::fmt::Debug;

use longhaul_units::{Bytes, Span, Time};

use super::{
    Cause, GrowthStep, Handoff, LaunchStep, LaunchVerdict, Loss, Opening, Overlay, Reason, RecoveryStep, SteadyStep,
    Target, Verdict, Window,
};
use crate::growth::AckLimit;
use crate::{
    Ack, Detection, Estimate, Granted, NeedError, Needs, Path, ProbePlan, SavedPath, SavedPathUse, Sent, Timeout,
};

/// What all stages have in common. Every method has a default: a stage writes only what it needs.
pub trait Stage: Debug + Send {
    /// What it needs of the transport; constant.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The limit for one ACK, if it has one: it is told what there is and what loss detection is in force.
    fn ack_limit(&mut self) -> Option<&mut AckLimit> {
        None
    }

    /// What there is. A stage that can fall back does so here; the default fails when a required need is missing.
    ///
    /// # Errors
    /// A need without fallback was not granted; the connection fails.
    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        let _ = path;
        if let Some(limit) = self.ack_limit() {
            limit.on_granted(granted);
        }
        self.needs()
            .required
            .missing(granted)
            .map_or(Ok(()), |need| Err(NeedError { controller: self.phase().to_owned(), need }))
    }

    /// The loss detection in force, told after the handshake and when it changes.
    fn on_detection(&mut self, detection: Detection) {
        if let Some(limit) = self.ack_limit() {
            limit.on_detection(detection);
        }
    }

    /// Observes an ACK before any stage acts on it, whichever stage holds the window; for estimators. Returns whether the stage
    /// observes the next ACK, too.
    ///
    /// A stage that returns false is not called again. This saves a virtual call per ACK, about a tenth of the cost of a simple
    /// congestion-avoidance algorithm.
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        let _ = (ack, path);
        false
    }

    /// A segment left.
    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        let _ = (sent, path);
    }

    /// When the stage wants its `on_tick`, while it is active.
    fn next_tick(&self) -> Option<Time> {
        None
    }

    /// What it adds to the controller's answer, while it is active.
    fn overlay(&self) -> Overlay {
        Overlay::default()
    }

    /// By how many bytes a growth or a law may raise the window for each byte that it may grow on. Above one only for
    /// schemes that make up for a long round trip, such as Hybla.
    fn gain(&self) -> f64 {
        1.0
    }

    /// Tells what it has estimated so far, for logs only.
    fn estimates(&self, tell: &mut dyn FnMut(Estimate)) {
        let _ = tell;
    }

    /// Its name for logs in kebab-case: `slow-start`, `css`, `congestion-avoidance`, `recovery`.
    fn phase(&self) -> &'static str;
}

/// Opens the window: Swift Start, Jump-Start, Quick-Start and their kin.
pub trait Launch: Stage {
    /// Starts. `window` holds what would be used without this launch.
    fn begin(&mut self, opening: Opening, now: Time, path: &Path, window: &mut Window) -> LaunchStep;

    /// An ACK came while the launch holds the window; during an episode that it handles, too.
    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        let _ = (ack, path, window);
        LaunchStep::Done
    }

    /// A loss or mark came while the launch holds the window.
    fn on_loss(&mut self, loss: &Loss<'_>, path: &Path, window: &mut Window) -> LaunchVerdict {
        let _ = (loss, path, window);
        LaunchVerdict::Delegate
    }

    /// The time of [`Stage::next_tick`] has come.
    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> LaunchStep {
        let _ = (now, path, window);
        LaunchStep::Stay
    }

    /// The threshold that growth should lead up to, in bytes: asked at each ACK while growth holds the window that this launch
    /// handed over, until the first loss, mark, timeout or idleness.
    fn threshold(&mut self, path: &Path) -> Option<f64> {
        let _ = path;
        None
    }

    /// Returns the threshold in bytes up to which slow start resumes because the path now holds clearly more than `window`. The
    /// controller asks at each ACK in congestion avoidance until the first loss, mark, timeout or idle period, and only a start-up
    /// scheme that [observes](Stage::observe) ACKs.
    fn room(&mut self, path: &Path, window: &Window) -> Option<f64> {
        let _ = (path, window);
        None
    }

    /// The threshold after a timeout that ends this launch, in bytes, if the law is not to judge by the window that the launch had
    /// opened.
    fn threshold_after_timeout(&self, path: &Path) -> Option<f64> {
        let _ = path;
        None
    }

    /// A timeout ends this launch: what it had opened and was not sent is to go from the window, as the law judges by that, and a
    /// timeout that turns out spurious returns to it. [`abort`](Self::abort) follows.
    fn on_timeout(&mut self, timeout: &Timeout, path: &Path, window: &mut Window) {
        let _ = (timeout, path, window);
    }

    /// Probes that are to leave whoever holds the window, unless that stage has others.
    fn beside(&self) -> Option<ProbePlan> {
        None
    }

    /// Of what left [from the tail](crate::ProbeKind::FromTail) so many bytes have arrived; the ACK that says it came `at`.
    fn on_ahead(&mut self, at: Time, bytes: Bytes, path: &Path) {
        let _ = (at, bytes, path);
    }

    /// What an earlier connection to the host came to; told before the handshake, if there is anything.
    fn recall(&mut self, saved: SavedPath) {
        let _ = saved;
    }

    /// What came of that.
    fn saved_path_use(&self) -> SavedPathUse {
        SavedPathUse::Unused
    }

    /// Another stage takes the window: a loss, a timeout, or idleness ended the launch.
    fn abort(&mut self) {}

    /// Whether this stands for no launch at all.
    fn is_absent(&self) -> bool {
        false
    }
}

/// Raises the window quickly: slow start, HyStart++, Limited Slow-Start, Astart and their kin.
pub trait Growth: Stage {
    /// The window of a connection's first flight, and the most of a restart's, bytes.
    fn initial_window(&self, path: &Path) -> Bytes;

    /// Starts, or starts again, with the window as it is. `reason` is why: [`Reason::NoLoss`] for a new connection.
    fn begin(&mut self, reason: Reason, path: &Path, window: &Window) {
        let _ = (reason, path, window);
    }

    /// An ACK came. `grow` is how many bytes it delivered that a window may grow on: zero while the window is not
    /// what limits the sender. The window must not rise by more than `grow` times [`Stage::gain`].
    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> GrowthStep;

    /// A loss, a mark or a timeout ends it, with `flight` bytes outstanding. What it had opened and not sent may go from the window,
    /// which the law judges by next.
    fn on_congestion(&mut self, flight: Bytes, path: &Path, window: &mut Window) {
        let _ = (flight, path, window);
    }

    /// The time of [`Stage::next_tick`] has come.
    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> GrowthStep {
        let _ = (now, path, window);
        GrowthStep::Stay
    }
}

/// Holds the window at the network's share: NewReno, CUBIC, Westwood, FAST and their kin.
pub trait Steady: Stage {
    /// Takes the window over, as it is.
    fn begin(&mut self, handoff: &Handoff, path: &Path, window: &mut Window);

    /// An ACK came; `grow` is as in [`Growth::on_ack`]. The window may fall at any time.
    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep;

    /// Congestion: how far down? Called in every phase, once for each decrease that is due.
    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target;

    /// Nothing was sent for `idle`.
    fn on_idle(&mut self, now: Time, idle: Span) {
        let _ = (now, idle);
    }

    /// The segment size changed from `old`; the window in bytes is kept.
    fn on_mss(&mut self, now: Time, old: Bytes, path: &Path, window: &Window) {
        let _ = (now, old, path, window);
    }

    /// The time of [`Stage::next_tick`] has come.
    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> SteadyStep {
        let _ = (now, path, window);
        SteadyStep::Stay
    }

    /// A copy of the whole state, kept while a decrease may still turn out to be spurious.
    fn clone_box(&self) -> Box<dyn Steady>;
}

/// Says what a loss meant: BBE, Veno.
pub trait LossClassifier: Stage {
    /// Classifies the loss that begins a decrease.
    fn classify(&mut self, loss: &Loss<'_>, path: &Path) -> Verdict;
}

/// Owns the window while losses are repaired: NewReno, RFC 6675, PRR, and the satellite schemes.
pub trait Recovery: Stage {
    /// A decrease to `target` bytes is due, by a loss or a mark that `ack` brought; in an episode, a further one.
    fn enter(&mut self, target: f64, ack: &Ack<'_>, path: &Path, window: &mut Window);

    /// An ACK came inside the episode, or after it while this stage keeps the window.
    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> RecoveryStep;

    /// `ack` ends the episode.
    fn exit(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> RecoveryStep;

    /// The time of [`Stage::next_tick`] has come.
    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> RecoveryStep {
        let _ = (now, path, window);
        RecoveryStep::Stay
    }

    /// Another stage takes the window: a timeout, idleness, or an undone decrease ended the episode.
    fn abort(&mut self) {}
}

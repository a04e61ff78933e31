//! Traits of the stages.

use core::fmt::Debug;

use longhaul_units::{Bytes, Time};

use super::{
    AvoidanceStep, CongestionEvent, Handoff, LossCause, LossEvent, Opening, Overlay, Reason, StageEvent,
    StartupResponse, Step, Target, Window,
};
use crate::cloning::{CloneAvoidance, CloneClassifier, CloneRecovery, CloneSlowStart, CloneStartup};
use crate::{Ack, Estimate, Granted, NeedError, Needs, Path, SavedPathUse, Sent, Timeout};

/// Methods that all stages share. Each has a default, so that a stage implements only those that it needs.
///
/// Stages are `Clone`, as [controllers](crate::Controller) are. A copy of congestion avoidance is also kept while a decrease
/// may turn out to be spurious.
pub trait Stage: Debug + Send + Sync {
    /// Returns the features that the stage requests from the transport; the result is constant.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Receives the granted features. A stage that can fall back does so here; the default fails if a required need is
    /// missing.
    ///
    /// # Errors
    /// Returns an error if a need without fallback was not granted; the connection then fails.
    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        let _ = path;
        self.needs()
            .required
            .missing(granted)
            .map_or(Ok(()), |need| Err(NeedError { controller: self.phase().to_owned(), need }))
    }

    /// Observes an ACK before any stage acts on it, regardless of the stage that controls the window; intended for
    /// estimators. Returns whether the stage also observes the next ACK.
    ///
    /// A stage that returns false is not called again. This saves a virtual call per ACK, about a tenth of the cost
    /// of a simple congestion-avoidance algorithm.
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        let _ = (ack, path);
        false
    }

    /// Processes an event that few algorithms need, regardless of the stage that controls the window.
    fn on_event(&mut self, event: &StageEvent, path: &Path) {
        let _ = (event, path);
    }

    /// A segment was sent.
    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        let _ = (sent, path);
    }

    /// Returns the time at which the stage's `on_tick` should be called, while it is active. The call may come late
    /// ([`Controller::next_tick`](crate::Controller::next_tick)).
    fn next_tick(&self) -> Option<Time> {
        None
    }

    /// Returns the stage's additions to the controller's decisions while it is active.
    fn overlay(&self) -> Overlay {
        Overlay::default()
    }

    /// Returns the maximum increase of the window in slow start or congestion avoidance, in bytes per delivered
    /// byte. Above 1 only for algorithms that compensate for a long RTT, such as Hybla.
    fn gain(&self) -> f64 {
        1.0
    }

    /// Passes the stage's estimates to `tell`, for logs only.
    fn estimates(&self, tell: &mut dyn FnMut(Estimate)) {
        let _ = tell;
    }

    /// Returns the phase's name for logs, in kebab-case, such as `css`. The default, an empty name, stands for the
    /// usual name of the slot: `handshake`, `slow-start`, `congestion-avoidance` or `recovery`.
    fn phase(&self) -> &'static str {
        ""
    }
}

/// Start-up scheme, which opens the window, such as Swift Start, Jump-Start or Quick-Start.
pub trait Startup: CloneStartup + Stage {
    /// Starts the scheme. `window` is the window that would be used without it.
    fn begin(&mut self, opening: Opening, now: Time, path: &Path, window: &mut Window) -> Step;

    /// Processes an ACK while the scheme controls the window, including one in an episode that it handles.
    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        let _ = (ack, path, window);
        Step::Done
    }

    /// Responds to a loss or mark while the scheme controls the window.
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        let _ = (loss, path, window);
        StartupResponse::Delegate
    }

    /// Called at the time of [`Stage::next_tick`].
    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        let _ = (now, path, window);
        Step::Stay
    }

    /// Returns the threshold in bytes up to which slow start should continue or, in congestion avoidance, resume because
    /// the path holds more than before. `None` changes nothing.
    ///
    /// A scheme that [observes](Stage::observe) ACKs is queried at each ACK after it has handed over, until the first
    /// loss, mark, timeout or idle period.
    fn threshold(&mut self, in_slow_start: bool, path: &Path, window: &Window) -> Option<f64> {
        let _ = (in_slow_start, path, window);
        None
    }

    /// Prepares the window for a timeout that ends this scheme. The scheme should remove the opened but unused part,
    /// because congestion avoidance calculates the decrease from the window, and a spurious timeout restores it.
    /// [`abort`](Self::abort) follows. Returns the new threshold in bytes, if congestion avoidance should not derive it
    /// from the window.
    fn on_timeout(&mut self, timeout: &Timeout, path: &Path, window: &mut Window) -> Option<f64> {
        let _ = (timeout, path, window);
        None
    }

    /// Returns how the saved path was used.
    fn saved_path_use(&self) -> SavedPathUse {
        SavedPathUse::Unused
    }

    /// Called when another stage takes over the window, because a loss, a timeout or an idle period ended the scheme.
    fn abort(&mut self) {}

    /// Returns whether this stage stands for the absence of a start-up scheme.
    fn is_absent(&self) -> bool {
        false
    }
}

/// Slow-start variant, which increases the window quickly, such as slow start, HyStart++, Limited Slow-Start or Astart.
pub trait SlowStart: CloneSlowStart + Stage {
    /// Returns the window of a connection's first flight and the upper limit of the restart window, in bytes.
    fn initial_window(&self, path: &Path) -> Bytes;

    /// Starts or restarts with the current window for this `reason`; [`Reason::NoLoss`] for a new connection.
    fn begin(&mut self, reason: Reason, path: &Path, window: &Window) {
        let _ = (reason, path, window);
    }

    /// Processes an ACK. `grow` is the number of delivered bytes that may increase the window, zero while the window
    /// does not limit the sender. The window must not increase by more than `grow` times [`Stage::gain`].
    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step;

    /// Called when a loss, a mark or a timeout ends slow start, with `flight` bytes outstanding. The variant may remove
    /// the unused part of the window, from which congestion avoidance then calculates the decrease.
    fn on_congestion(&mut self, flight: Bytes, path: &Path, window: &mut Window) {
        let _ = (flight, path, window);
    }

    /// Called at the time of [`Stage::next_tick`].
    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        let _ = (now, path, window);
        Step::Stay
    }
}

/// Congestion-avoidance algorithm, which keeps the window at its share of the network, such as NewReno, CUBIC, Westwood
/// or FAST.
pub trait CongestionAvoidance: CloneAvoidance + Stage {
    /// Takes over the current window.
    fn begin(&mut self, handoff: &Handoff, path: &Path, window: &mut Window) {
        let _ = (handoff, path, window);
    }

    /// Processes an ACK; `grow` is as in [`SlowStart::on_ack`]. The window may decrease at any time.
    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep;

    /// Returns the decrease for a congestion event. Called in every phase, once for each decrease that is due.
    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target;

    /// Called at the time of [`Stage::next_tick`].
    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> AvoidanceStep {
        let _ = (now, path, window);
        AvoidanceStep::Stay
    }
}

/// Loss classifier, which judges the cause of a loss, such as BBE or Veno.
pub trait LossClassifier: CloneClassifier + Stage {
    /// Classifies the loss that causes a decrease.
    fn classify(&mut self, loss: &LossEvent<'_>, path: &Path) -> LossCause;
}

/// Recovery algorithm, which controls the window during loss recovery, such as NewReno, RFC 6675, PRR or the schemes
/// for satellites.
pub trait Recovery: CloneRecovery + Stage {
    /// Begins a decrease to `target` bytes, caused by a loss or mark that `ack` revealed. During an episode, this is
    /// a further decrease.
    fn enter(&mut self, target: f64, ack: &Ack<'_>, path: &Path, window: &mut Window);

    /// Processes an ACK in the episode, or after it while this stage keeps the window.
    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step;

    /// Processes the ACK that ends the episode.
    fn exit(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step;

    /// Called at the time of [`Stage::next_tick`].
    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        let _ = (now, path, window);
        Step::Stay
    }

    /// Called when another stage takes over the window, because a timeout, an idle period or an undone decrease ended
    /// the episode.
    fn abort(&mut self) {}
}

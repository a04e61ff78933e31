//! Responses of a composed controller to congestion, and how they are undone.

use longhaul_units::{Bytes, Time};

use super::{Checkpoint, Composed, Phase, Recovering, RecoveryKind};
use crate::compose::{CongestionEvent, LossCause, LossEvent, Reason, Signal, StartupResponse, Step, Target, Window};
use crate::{Ack, Episode, Path};

impl Composed {
    pub(super) fn checkpoint(&mut self, timeout: bool) {
        self.undo = Some(Checkpoint {
            window: Window { cwnd: self.settled(), ..self.window },
            phase: self.phase,
            reason: self.reason,
            avoidance: self.stages.avoidance.clone(),
            in_recovery: self.recovering.is_some(),
            timeout,
        });
    }

    /// Lowers the threshold as decided by congestion avoidance, and returns the window to reach.
    pub(super) fn reduce(&mut self, now: Time, signal: Signal, flight: Bytes, cause: LossCause, path: &Path) -> f64 {
        if self.phase == Phase::SlowStart && self.recovering.is_none() {
            self.stages.slow_start.on_congestion(flight, path, &mut self.window);
        }
        let before = self.settled();
        let event = CongestionEvent { cause, ..CongestionEvent::new(now, signal, flight, before) };
        let answer = self.stages.avoidance.reduce(&event, path);
        let gentle = self.mark_share.filter(|_| signal == Signal::Ecn);
        let target = gentle.map_or(answer, |share| Target::multiplicative(&event, share, path.mss));
        self.window.ssthresh = target.ssthresh;
        target.cwnd.min(before)
    }

    pub(super) fn on_loss(&mut self, signal: Signal, ack: &Ack<'_>, path: &Path) {
        let loss = LossEvent { signal, ack };
        self.restart.on_loss(ack.cumulative);
        let cause = self.stages.classifier.classify(&loss, path);
        if self.vetoed(&loss, path) {
            self.reason = Reason::Loss;
            return;
        }
        let target = if signal == Signal::Loss && self.marked_until.is_some() {
            self.settled()
        } else {
            if signal == Signal::Loss {
                self.checkpoint(false);
            }
            self.reduce(ack.now, signal, ack.flight_size, cause, path)
        };
        self.reason = Reason::Loss;
        self.enter(RecoveryKind::Loss, target, ack, path);
    }

    pub(super) fn on_mark(&mut self, ack: &Ack<'_>, path: &Path) {
        // A mark is valid even if an earlier loss turns out to be spurious.
        self.undo = None;
        self.marked_until = Some(ack.total_delivered + ack.in_flight);
        let vetoed = self.vetoed(&LossEvent { signal: Signal::Ecn, ack }, path);
        self.reason = Reason::Ecn;
        if vetoed {
            return;
        }
        let target = self.reduce(ack.now, Signal::Ecn, ack.flight_size, LossCause::CONGESTION, path);
        self.enter(RecoveryKind::Ecn, target, ack, path);
        if ack.in_flight == Bytes::ZERO {
            self.finish(ack, path); // nothing else is in flight
        }
    }

    /// Returns whether the start-up scheme handles the signal itself. If not, the scheme ends.
    pub(super) fn vetoed(&mut self, loss: &LossEvent<'_>, path: &Path) -> bool {
        if self.recovering.is_some() || self.phase != Phase::Startup {
            return false;
        }
        match self.stages.startup.on_loss(loss, path, &mut self.window) {
            StartupResponse::Handled => true,
            StartupResponse::Delegate => {
                self.record.end(&*self.stages.startup, super::record::CONGESTION);
                self.stages.startup.abort();
                self.phase = Phase::SlowStart;
                false
            }
        }
    }

    pub(super) fn enter(&mut self, kind: RecoveryKind, target: f64, ack: &Ack<'_>, path: &Path) {
        self.phase = Phase::Avoidance;
        self.recovering = Some(Recovering { kind, target });
        self.stages.recovery.enter(target, ack, path, &mut self.window);
    }

    pub(super) fn finish(&mut self, ack: &Ack<'_>, path: &Path) {
        let step = self.stages.recovery.exit(ack, path, &mut self.window);
        self.bound();
        match step {
            Step::Stay => {
                self.recovering = Some(Recovering { kind: RecoveryKind::Afterwards, target: self.window.cwnd });
            }
            Step::Done => self.release(ack.now, path),
        }
    }

    pub(super) fn release(&mut self, now: Time, path: &Path) {
        self.recovering = None;
        self.bound();
        self.hand_over(now, path);
    }

    pub(super) fn on_recovery_ack(&mut self, recovering: Recovering, ack: &Ack<'_>, path: &Path) {
        let ended = match recovering.kind {
            RecoveryKind::Loss => !matches!(ack.episode, Episode::In),
            RecoveryKind::Ecn => self.marked_until.is_none_or(|until| all_delivered(until, ack)),
            RecoveryKind::Afterwards => false,
        };
        if ended {
            self.finish(ack, path);
        } else if self.stages.recovery.on_ack(ack, path, &mut self.window) == Step::Done
            && recovering.kind == RecoveryKind::Afterwards
        {
            self.release(ack.now, path);
        }
    }

    /// Undoes a spurious decrease, unless the window has since grown beyond its old size.
    pub(super) fn undo(&mut self, now: Time, timeout: bool, path: &Path) {
        let settled = self.settled();
        let saved = self.undo.take_if(|saved| saved.timeout == timeout);
        match saved.filter(|saved| settled < saved.window.cwnd) {
            Some(saved) => self.restore(saved, now, path),
            // A mark during the episode removed the checkpoint, but the episode has ended nevertheless.
            None if !timeout && self.recovering.is_some_and(|recovering| recovering.kind == RecoveryKind::Loss) => {
                self.window.cwnd = settled;
                self.interrupt();
                self.hand_over(now, path);
            }
            None => {}
        }
    }

    pub(super) fn restore(&mut self, saved: Checkpoint, now: Time, path: &Path) {
        self.interrupt();
        let ssthresh = self.window.ssthresh.max(saved.window.ssthresh);
        self.window = Window { ssthresh, ..saved.window };
        self.phase = saved.phase;
        self.reason = saved.reason;
        self.stages.avoidance = saved.avoidance;
        self.bound();
        if saved.in_recovery || self.phase == Phase::SlowStart {
            self.hand_over(now, path);
        }
    }
}

/// Returns whether everything in flight when `until` was recorded has been delivered or has left the network.
pub(super) fn all_delivered(until: Bytes, ack: &Ack<'_>) -> bool {
    ack.total_delivered >= until || ack.in_flight == Bytes::ZERO
}

//! The controller's side of a composition, which passes each event to the stages.

use longhaul_units::{Bytes, Time};

use super::congestion::all_delivered;
use super::{Composed, Phase, Recovering, RecoveryKind, record};
use crate::compose::{LossCause, Opening, Reason, Signal, StageEvent, Step};
use crate::{
    Ack, Control, Controller, Episode, Granted, NeedError, Needs, Path, PathEvent, SavedPathUse, SegmentKind, Sent,
    Snapshot, Timeout,
};

impl Controller for Composed {
    fn name(&self) -> String {
        self.stages.name.clone()
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.mss = path.mss;
        self.record.lacks = self.stages.startup.needs().preferred.missing(granted);
        self.ecn = granted.ecn.min(self.needs.preferred.ecn.max(self.needs.required.ecn));
        let refused = self.stages.all_mut().into_iter().find_map(|stage| stage.on_granted(granted, path).err());
        if let Some(NeedError { need, .. }) = refused {
            return Err(NeedError { controller: self.stages.name.clone(), need });
        }
        Ok(())
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        if event.kind == SegmentKind::Data {
            self.restart.on_sent(event.bytes);
            self.record.sent += event.bytes;
        }
        for stage in self.stages.all_mut() {
            stage.on_sent(event, path);
        }
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.mss = path.mss;
        // Estimators first: each stage observes the ACK until it declines.
        if self.observers != [false; 5] {
            let mut observers = self.observers;
            for (stage, observes) in self.stages.all_mut().into_iter().zip(&mut observers) {
                *observes = *observes && stage.observe(event, path);
            }
            self.observers = observers;
        }
        self.note_progress(event);
        let answered = self.recovering.is_some_and(|recovering| recovering.kind != RecoveryKind::Afterwards);
        // A loss takes precedence over a mark; otherwise the ACK goes to recovery or to the active stage.
        match (event.episode, self.recovering) {
            (Episode::Enter, _) => self.on_loss(Signal::Loss, event, path),
            (Episode::Again, _) => self.on_loss(Signal::LossAgain, event, path),
            (Episode::None | Episode::Rto, _) if event.ecn_echo && !answered => self.on_mark(event, path),
            (_, Some(recovering)) => self.on_recovery_ack(recovering, event, path),
            (_, None) => self.on_open_ack(event, path),
        }
        self.marked_until.take_if(|until| all_delivered(*until, event));
        self.restart.on_ack(event.cumulative, event.delivered);
        self.bound();
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.mss = path.mss;
        self.above_hole = Bytes::ZERO;
        self.restart.on_loss(Bytes::ZERO);
        if event.nth <= 1 {
            // The first timeout ends the start-up scheme and lowers the threshold (RFC 5681, equation 4).
            let mut own = None;
            if self.phase == Phase::Startup {
                own = self.stages.startup.on_timeout(event, path, &mut self.window);
                self.record.end(&*self.stages.startup, record::TIMEOUT);
                self.stages.startup.abort();
                self.phase = Phase::SlowStart;
            }
            self.checkpoint(true);
            self.reduce(event.now, Signal::Timeout, event.flight_size, LossCause::CONGESTION, path);
            self.window.ssthresh = own.unwrap_or(self.window.ssthresh);
            // A further timeout causes no new decrease, so the data marked since the first one remains accounted for.
            self.marked_until = None;
        }
        // Slow start from one segment, unless a start-up scheme opens the window.
        self.interrupt();
        self.window.cwnd = self.mss.as_f64();
        self.reason = Reason::Timeout;
        self.bound();
        if self.begin_startup(Opening::Timeout, event.now, path) == Step::Done {
            self.phase = Phase::SlowStart;
            self.stages.slow_start.begin(self.reason, path, &self.window);
        }
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.mss = path.mss;
        match *event {
            PathEvent::Established { now, .. } => self.on_established(now, path),
            PathEvent::Mss { now, old } => self.on_mss(now, old, path),
            PathEvent::IdleRestart { now, idle } => self.on_idle_restart(now, idle, path),
            PathEvent::Spurious { now, timeout, .. } => self.undo(now, timeout, path),
            PathEvent::Ahead { at, bytes } => self.tell_stages(&StageEvent::Ahead { at, bytes }, path),
            // A start-up scheme has its own source of earlier results, and otherwise the initial window is that of RFC
            // 6928.
            PathEvent::Shared { .. } => {}
        }
        self.bound();
    }

    fn on_tick(&mut self, now: Time, path: &Path) {
        self.mss = path.mss;
        match (self.recovering, self.phase) {
            (Some(recovering), _) => {
                let step = self.stages.recovery.on_tick(now, path, &mut self.window);
                if step == Step::Done && recovering.kind == RecoveryKind::Afterwards {
                    self.release(now, path);
                }
            }
            (None, Phase::Startup) => {
                let before = self.window;
                let step = self.stages.startup.on_tick(now, path, &mut self.window);
                self.record.after(step, (before, self.window), Bytes::ZERO, record::LATE);
                if step == Step::Done {
                    self.bound();
                    self.hand_over(now, path);
                }
            }
            (None, Phase::SlowStart) => {
                let step = self.stages.slow_start.on_tick(now, path, &mut self.window);
                self.after_slow_start(step, now, path);
            }
            (None, Phase::Avoidance) => {
                let step = self.stages.avoidance.on_tick(now, path, &mut self.window);
                self.after_avoidance(step, path);
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
            ssthresh: Some(Bytes::from_f64(self.window.ssthresh)),
            probe: overlay.probe.or_else(|| self.background()),
            ecn: self.ecn,
            header: overlay.header,
            tag: overlay.tag,
            dscp: overlay.dscp,
            ack_ratio: overlay.ack_ratio,
            each_segment: true,
        }
    }

    fn saved_path_use(&self) -> SavedPathUse {
        self.stages.startup.saved_path_use()
    }

    fn snapshot(&self) -> Snapshot {
        let phase = match self.recovering {
            Some(Recovering { kind: RecoveryKind::Ecn, .. }) => "cwr",
            _ => self.active().phase(),
        };
        let phase = match (phase, self.phase) {
            ("", _) if self.recovering.is_some() => "recovery",
            ("", Phase::Startup) => "handshake",
            ("", Phase::SlowStart) => "slow-start",
            ("", Phase::Avoidance) => "congestion-avoidance",
            (own, _) => own,
        };
        let mut snapshot = Snapshot { startup: self.record.outcome(), ..Snapshot::new(phase) };
        // Two stages may have the same estimator. Later stages have observed more of the path, so they come first.
        for stage in self.stages.all().into_iter().rev() {
            stage.estimates(&mut |estimate| snapshot.estimates.push(estimate));
        }
        snapshot
    }
}

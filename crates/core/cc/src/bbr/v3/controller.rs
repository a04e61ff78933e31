//! Events of version 3.

use longhaul_units::Bytes;

use super::super::initial_rate;
use super::{Bbr, State};
use crate::{Ack, Control, Controller, Episode, Granted, NeedError, Needs, Path, PathEvent, Sent, Snapshot, Timeout};

impl Bbr {
    /// `BBRHandleRestartFromIdle`.
    fn restart_from_idle(&mut self, event: &Sent) {
        if self.state.is_probe_bw() {
            self.base.set_pacing(1.0, self.bw);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(event.now);
        }
    }

    /// Starts with this window instead of the initial one, and paces it as the draft paces the initial one. The
    /// estimates are still based on this connection's samples only. After the first Startup, a better window is known.
    fn on_shared(&mut self, window: Bytes, path: &Path) {
        let window = window.min(self.base.cap).as_f64();
        if self.state == State::Startup && !self.base.filled && window > self.base.cwnd {
            self.base.cwnd = window;
            let rate = initial_rate(State::Startup.pacing_gain(), window, path.min_rtt.or(path.srtt));
            if rate > self.base.pacing_rate {
                self.base.pacing_rate = rate;
                self.base.set_quantum(2);
            }
        }
    }
}

impl Controller for Bbr {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// Prefers a list of the lost segments, which shows how much was in flight when each was sent. Without it, the
    /// sample of the newest delivered segment has to suffice.
    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        (needs.required.pacing, needs.preferred.segments) = (true, true);
        needs
    }

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        (self.base.mss, self.sack) = (path.mss, path.sack);
        match self.needs().required.missing(granted) {
            Some(need) => Err(NeedError { controller: self.name(), need }),
            None => Ok(()),
        }
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        if self.base.on_sent(event, path) {
            self.restart_from_idle(event);
        }
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.sack = path.sack;
        let sample = self.base.on_ack(event, path);
        // Recovery saves the state at its beginning and restores the window at its end.
        let turn = self.base.follow(event.episode, self.state == State::ProbeRtt);
        if turn == Some(Episode::Enter) {
            self.save_state();
        }
        self.on_losses(event, &sample);
        if event.delivered > Bytes::ZERO {
            self.update_model(&sample);
        }
        if turn == Some(Episode::Exit) {
            self.base.restore_cwnd();
        }
        self.set_pacing();
        self.set_cwnd(&sample);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.on_rto(event, path);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.base.mss = path.mss;
        match event {
            PathEvent::Established { now, .. } => self.begin(*now, path),
            PathEvent::Mss { .. } => self.base.on_mss(path),
            PathEvent::Spurious { .. } => self.on_spurious(event),
            PathEvent::Shared { window, .. } => self.on_shared(*window, path),
            // After an idle period, data is paced at the known bandwidth, so the window is kept.
            PathEvent::IdleRestart { .. } | PathEvent::Ahead { .. } => {}
        }
    }

    fn control(&self) -> Control {
        self.base.control()
    }

    fn snapshot(&self) -> Snapshot {
        let bandwidth = (self.bw > 0.0).then(|| longhaul_units::Rate::from_bytes_per_sec(self.bw as u64));
        Snapshot { bandwidth, ..Snapshot::new(self.state.name()) }
    }
}

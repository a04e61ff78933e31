//! Events of version 3.

use longhaul_units::Bytes;

use super::super::aggregation::Aggregation;
use super::super::pacing::Pacing;
use super::super::recovery::Turn;
use super::super::sample::Sample;
use super::super::{in_flight_after, restarts_from_idle};
use super::{Bbr, State};
use crate::{
    Ack, Control, Controller, Granted, NeedError, Needs, Path, PathEvent, Sent, Snapshot, Timeout, initial_window,
};

impl Bbr {
    /// `BBRHandleRestartFromIdle`.
    fn restart_from_idle(&mut self, event: &Sent) {
        self.idle_restart = true;
        self.aggregation = Aggregation::new(event.now);
        if self.state.is_probe_bw() {
            self.pacing.set(1.0, self.bw, self.filled);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(event.now);
        }
    }

    /// Scales the initial window if the segment size decreases before the first acknowledgment (RFC 5681, section
    /// 3.1).
    fn on_mss(&mut self, path: &Path) {
        if self.total_delivered == Bytes::ZERO {
            let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
            (self.cwnd, self.initial_cwnd) = (self.cwnd.min(initial), self.initial_cwnd.min(initial));
        }
    }
}

impl Bbr {
    /// Starts with this window instead of the initial one, and paces it as the draft paces the initial one. The estimates
    /// stay those of this connection's own samples. After the first Startup, the window is known better.
    fn on_shared(&mut self, window: Bytes, path: &Path) {
        let window = window.min(self.cap).as_f64();
        if self.state == State::Startup && !self.filled && window > self.cwnd {
            self.cwnd = window;
            let pacing = Pacing::initial(State::Startup.pacing_gain(), window, path.min_rtt.or(path.srtt));
            if pacing.rate() > self.pacing.rate() {
                self.pacing = pacing;
                self.pacing.set_quantum(self.mss, 2);
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
        (self.mss, self.sack) = (path.mss, path.sack);
        match self.needs().required.missing(granted) {
            Some(need) => Err(NeedError { controller: self.name(), need }),
            None => Ok(()),
        }
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        self.mss = path.mss;
        if restarts_from_idle(event, self.limit) {
            self.restart_from_idle(event);
        }
        self.in_flight = in_flight_after(event, self.in_flight);
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        (self.mss, self.sack) = (path.mss, path.sack);
        (self.in_flight, self.total_delivered) = (event.in_flight, event.total_delivered);
        self.limit = event.limit;
        let sample = Sample::of(event, &self.app_limit);
        // Recovery saves the state at its beginning and restores the window at its end.
        let before = self.recovery.phase;
        let turn = self.recovery.follow(event.episode);
        if turn == Turn::Enter {
            self.save_cwnd(before != Default::default());
            self.save_state();
        }
        self.on_losses(event, &sample);
        if event.delivered > Bytes::ZERO {
            self.update_model(&sample);
        }
        if turn == Turn::Exit {
            self.restore_cwnd();
        }
        self.set_pacing();
        self.set_cwnd(&sample);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.mss = path.mss;
        self.on_rto(event);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.mss = path.mss;
        match event {
            PathEvent::Established { now, .. } => self.begin(*now, path),
            PathEvent::Mss { .. } => self.on_mss(path),
            PathEvent::Spurious { .. } => self.on_spurious(event),
            PathEvent::Shared { window, .. } => self.on_shared(*window, path),
            // After an idle period, data is paced at the known bandwidth, so the window stays.
            PathEvent::IdleRestart { .. } | PathEvent::Ahead { .. } => {}
        }
    }

    fn control(&self) -> Control {
        let cwnd = Bytes::from_f64(self.cwnd).min(self.cap).max(self.mss);
        Control { pace: self.pacing.pace(), ..Control::window(cwnd) }
    }

    fn snapshot(&self) -> Snapshot {
        let bandwidth = (self.bw > 0.0).then(|| longhaul_units::Rate::from_bytes_per_sec(self.bw as u64));
        Snapshot { bandwidth, ..Snapshot::new(self.state.name()) }
    }
}

//! Events of version 1.

use longhaul_units::{Bytes, Rate};

use super::super::aggregation::Aggregation;
use super::super::full_pipe::FullPipe;
use super::super::recovery::{Phase, Turn};
use super::super::sample::Sample;
use super::super::{in_flight_after, restarts_from_idle};
use super::policer::Policer;
use super::{BbrV1, Mode};
use crate::{Ack, Control, Controller, Needs, Path, PathEvent, Sent, Snapshot, Timeout, initial_window};

impl BbrV1 {
    /// Sends after a pause without data at exactly the bandwidth, to fill the pipe without a queue.
    fn restart_from_idle(&mut self, event: &Sent) {
        self.idle_restart = true;
        self.aggregation = Aggregation::new(event.now);
        match self.mode {
            Mode::ProbeBw => self.pacing.set(1.0, self.bw(), self.filled),
            Mode::ProbeRtt => {
                let mut ack = Ack::new(event.now);
                ack.total_delivered = self.total_delivered;
                self.check_probe_rtt_done(&Sample::of(&ack, &self.app_limit));
            }
            Mode::Startup | Mode::Drain => {}
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

    /// Processes a spurious recovery episode: the full pipe may have been found too early, and no policer dropped
    /// anything.
    fn on_spurious(&mut self) {
        self.pipe = FullPipe::default();
        self.policer = Policer::default();
        self.cwnd = self.recovery.restored(self.cwnd).min(self.cap.max(self.mss).as_f64());
        self.recovery.phase = Phase::Open;
        self.conserving = false;
    }
}

impl Controller for BbrV1 {
    fn name(&self) -> String {
        super::ENTRY.name.to_owned()
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.required.pacing = true;
        needs
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        self.mss = path.mss;
        if restarts_from_idle(event, self.limit) {
            self.restart_from_idle(event);
        }
        self.in_flight = in_flight_after(event, self.in_flight);
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.mss = path.mss;
        (self.in_flight, self.total_delivered) = (event.in_flight, event.total_delivered);
        self.limit = event.limit;
        self.total_lost += event.newly_lost.as_f64();
        let sample = Sample::of(event, &self.app_limit);
        let before = self.recovery.phase;
        let turn = self.recovery.follow(event.episode);
        if turn == Turn::Enter {
            self.recovery.save(self.cwnd, before != Phase::Open || self.mode == Mode::ProbeRtt);
        }
        // Update the model, then the pacing rate and the window.
        if event.delivered > Bytes::ZERO {
            self.update_model(&sample);
        }
        self.set_pacing();
        self.set_cwnd(turn, &sample);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.mss = path.mss;
        if self.recovery.phase != Phase::Timeout {
            self.save_cwnd();
        }
        self.recovery.phase = Phase::Timeout;
        self.conserving = false;
        self.pipe = FullPipe::default();
        self.total_lost += (self.in_flight - event.in_flight).as_f64();
        self.in_flight = event.in_flight;
        self.cwnd = (event.in_flight + self.mss).as_f64();
        // A timeout ends the round.
        self.rounds.start = true;
        let mut ack = Ack::new(event.now);
        ack.total_delivered = self.total_delivered;
        self.watch_policer(&Sample::of(&ack, &self.app_limit), true);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.mss = path.mss;
        match event {
            PathEvent::Established { now, .. } => self.begin(*now, path),
            PathEvent::Mss { .. } => self.on_mss(path),
            PathEvent::Spurious { .. } => self.on_spurious(),
            // After an idle period, data is paced at the known bandwidth, so the window stays.
            PathEvent::IdleRestart { .. } | PathEvent::Ahead { .. } | PathEvent::Shared { .. } => {}
        }
    }

    fn control(&self) -> Control {
        let cwnd = Bytes::from_f64(self.cwnd).min(self.cap).max(self.mss);
        Control { pace: self.pacing.pace(), ..Control::window(cwnd) }
    }

    fn snapshot(&self) -> Snapshot {
        let bw = self.bw();
        let bandwidth = (bw > 0.0).then(|| Rate::from_bytes_per_sec(bw as u64));
        Snapshot { bandwidth, ..Snapshot::new(self.mode.name()) }
    }
}

//! Pacing rate, send quantum and congestion window of version 1.

use super::super::MIN_PIPE_SEGMENTS;
use super::super::aggregation::MAX_SPAN;
use super::super::recovery::{Phase, Turn};
use super::super::sample::Sample;
use super::{BbrV1, Mode};

/// Quanta in flight in addition to the model's volume: for the sender, its segmentation offload, and a receiver that
/// merges segments and delays ACKs.
const OFFLOAD_QUANTA: u64 = 3;
/// At rates below this (1.2 Mbit/s), in bytes/s, a quantum may be a single segment.
const SLOW: f64 = 150_000.0;

impl BbrV1 {
    pub(super) fn min_pipe(&self) -> f64 {
        MIN_PIPE_SEGMENTS * self.mss.as_f64()
    }

    pub(super) fn set_quantum(&mut self) {
        let least = if self.pacing.rate() < SLOW { 1 } else { 2 };
        self.pacing.set_quantum(self.mss, least);
    }

    /// Returns `gain` times the bandwidth-delay product at the bandwidth `bw`.
    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        self.min_rtt().map_or(self.initial_cwnd, |rtt| gain * bw * rtt.as_secs_f64())
    }

    /// Adds room for quanta, rounds up to an even number of segments for receivers that acknowledge every second one,
    /// and adds two more while probing so that a small window can probe, too.
    fn with_budget(&self, volume: f64) -> f64 {
        let segment = self.mss.as_f64();
        let volume = volume + (self.pacing.quantum() * OFFLOAD_QUANTA).as_f64();
        let even = (volume / (2.0 * segment)).ceil() * 2.0 * segment;
        let probing = self.mode == Mode::ProbeBw && self.phase == 0;
        if probing { even + 2.0 * segment } else { even }
    }

    pub(super) fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.with_budget(self.bdp(bw, gain))
    }

    /// Returns the additional volume for aggregation.
    fn aggregation_volume(&self) -> f64 {
        let most = self.bw() * MAX_SPAN.as_secs_f64();
        if self.filled { self.extra_acked.greatest().min(most) } else { 0.0 }
    }

    pub(super) fn save_cwnd(&mut self) {
        let modulated = self.recovery.phase != Phase::Open || self.mode == Mode::ProbeRtt;
        self.recovery.save(self.cwnd, modulated);
    }

    /// Updates the window for recovery. Returns whether packet conservation controls it, as in the first round of
    /// recovery.
    fn recover(&mut self, turn: Turn, sample: &Sample) -> bool {
        let conserved = sample.in_flight + sample.newly_acked;
        self.cwnd = (self.cwnd - sample.newly_lost).max(self.mss.as_f64());
        match turn {
            Turn::Enter => {
                self.conserving = true;
                self.rounds.restart(sample.total_delivered);
                self.cwnd = conserved;
            }
            Turn::Exit => {
                self.conserving = false;
                self.cwnd = self.recovery.restored(self.cwnd);
            }
            Turn::Same => {}
        }
        if self.conserving {
            self.cwnd = self.cwnd.max(conserved);
        }
        self.conserving
    }

    pub(super) fn set_pacing(&mut self) {
        self.pacing.set(self.pacing_gain(), self.bw(), self.filled);
        self.set_quantum();
    }

    pub(super) fn set_cwnd(&mut self, turn: Turn, sample: &Sample) {
        if !self.recover(turn, sample) && sample.newly_acked > 0.0 {
            let goal = self.bdp(self.bw(), self.mode.cwnd_gain()) + self.aggregation_volume();
            let goal = self.with_budget(goal);
            if self.filled {
                self.cwnd = (self.cwnd + sample.newly_acked).min(goal);
            } else if self.cwnd < goal || sample.total_delivered.as_f64() < self.initial_cwnd {
                self.cwnd += sample.newly_acked;
            }
            self.cwnd = self.cwnd.max(self.min_pipe());
        }
        self.cwnd = self.cwnd.min(self.cap.max(self.mss).as_f64());
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.min_pipe());
        }
    }
}

//! ProbeBW: a cycle of eight phases of one round trip each, of which the first probes, the second drains the queue of
//! the probe, and six send at the measured rate.

use super::super::sample::Sample;
use super::{BbrV1, HIGH_GAIN, Mode};

/// Pacing gains of the cycle.
pub(super) const GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Number of phases in which a cycle may begin: all but the one that drains.
const BEGINNINGS: u64 = 7;

impl BbrV1 {
    pub(super) fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBw if self.policer.rate().is_some() => 1.0,
            Mode::ProbeBw => GAINS.get(self.phase).copied().unwrap_or(1.0),
            Mode::ProbeRtt => 1.0,
        }
    }

    /// Begins a cycle in a random phase, so that flows do not probe together. The newest RTT is the source of
    /// randomness.
    pub(super) fn start_probe_bw(&mut self, sample: &Sample) {
        let measured = sample.rtt.or(self.min_rtt()).map_or(0, |rtt| rtt.as_nanos());
        let measured = measured ^ sample.total_delivered.0.rotate_left(32);
        self.mode = Mode::ProbeBw;
        self.phase = GAINS.len() - 1 - self.random.below(BEGINNINGS, measured) as usize;
        self.next_phase(sample);
    }

    fn next_phase(&mut self, sample: &Sample) {
        self.phase = (self.phase + 1) % GAINS.len();
        self.phase_since = sample.now;
    }

    /// Advances the phase after a round trip. A probe lasts longer if its gain is not yet reached in flight and no loss
    /// has occurred; a drain ends earlier if its queue is empty.
    pub(super) fn update_phase(&mut self, sample: &Sample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let passed = self.min_rtt().is_some_and(|rtt| sample.now - self.phase_since > rtt);
        let gain = self.pacing_gain();
        let over = if gain > 1.0 {
            let enough = sample.prior_in_flight >= self.inflight(self.max_bw(), gain);
            passed && (sample.newly_lost > 0.0 || enough)
        } else if gain < 1.0 {
            passed || sample.prior_in_flight <= self.inflight(self.max_bw(), 1.0)
        } else {
            passed
        };
        if over {
            self.next_phase(sample);
        }
    }
}

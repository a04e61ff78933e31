//! Control parameters: pacing rate, send quantum, congestion window.

use longhaul_units::Span;

use super::super::Sample;
use super::{Bbr, State};

/// Quanta in flight that keep the sender, its segmentation offload, and a receiver that merges segments and delays
/// ACKs busy.
const OFFLOAD_QUANTA: u64 = 3;
/// Minimum quantum, in segments.
const QUANTUM_SEGMENTS: u64 = 2;

impl Bbr {
    /// `BBRBDPMultiple`, with the bandwidth `bw`.
    pub(super) fn bdp_multiple(&self, bw: f64, gain: f64) -> f64 {
        match self.probe_rtt.min_rtt {
            Span::MAX => self.base.initial_cwnd,
            rtt => gain * bw * rtt.as_secs_f64(),
        }
    }

    fn with_budget(&self, inflight: f64) -> f64 {
        let offload = (self.base.quantum * OFFLOAD_QUANTA).as_f64();
        let probe = if self.state == State::Up { 2.0 * self.base.mss.as_f64() } else { 0.0 };
        inflight.max(offload).max(self.base.min_pipe()) + probe
    }

    /// `BBRInflight`.
    pub(super) fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.with_budget(self.bdp_multiple(bw, gain))
    }

    fn max_inflight(&self) -> f64 {
        let excess = self.extra_acked.get().unwrap_or(0.0);
        self.with_budget(self.bdp_multiple(self.bw, self.state.cwnd_gain()) + excess)
    }

    /// `BBRTargetInflight`.
    pub(super) fn target_inflight(&self) -> f64 {
        self.bdp_multiple(self.bw, 1.0).min(self.base.cwnd)
    }

    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp_multiple(self.bw, State::ProbeRtt.cwnd_gain()).max(self.base.min_pipe())
    }

    pub(super) fn set_pacing(&mut self) {
        self.base.set_pacing(self.state.pacing_gain(), self.bw);
        self.base.set_quantum(QUANTUM_SEGMENTS);
    }

    /// `BBRSetCwnd`.
    pub(super) fn set_cwnd(&mut self, sample: &Sample) {
        let most = self.max_inflight();
        self.base.grow(sample, most);
        if self.state == State::ProbeRtt {
            self.base.cwnd = self.base.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd();
    }

    /// `BBRBoundCwndForModel`.
    pub(super) fn bound_cwnd(&mut self) {
        let long_term = match self.state {
            State::Down | State::Refill | State::Up => self.long_term,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        let cap = long_term.min(self.short_term.inflight).max(self.base.min_pipe());
        self.base.limit_cwnd(cap);
    }
}

//! The least round trip of ten seconds, and ProbeRTT when there was none as low for so long.

use longhaul_units::{Span, Time};

use super::super::sample::Sample;
use super::super::{MIN_RTT_WINDOW, PROBE_RTT_DURATION};
use super::{BbrV1, Mode};

/// State of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRtt {
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    done_at: Option<Time>,
    round_done: bool,
}

impl ProbeRtt {
    pub(super) const fn new(now: Time, min_rtt: Option<Span>) -> Self {
        Self { min_rtt, min_rtt_at: now, done_at: None, round_done: false }
    }

    pub(super) const fn min_rtt(&self) -> Option<Span> {
        self.min_rtt
    }
}

impl BbrV1 {
    pub(super) fn update_min_rtt(&mut self, sample: &Sample) {
        let expired = sample.now > self.probe_rtt.min_rtt_at + MIN_RTT_WINDOW;
        let least = self.probe_rtt.min_rtt;
        if let Some(rtt) = sample.rtt.filter(|rtt| expired || least.is_none_or(|least| *rtt < least)) {
            (self.probe_rtt.min_rtt, self.probe_rtt.min_rtt_at) = (Some(rtt), sample.now);
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt.done_at = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.hold_probe_rtt(sample);
        }
        if sample.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    /// Little in flight for 200 ms and a round, whichever is longer.
    fn hold_probe_rtt(&mut self, sample: &Sample) {
        // Samples of these rounds say nothing of the bandwidth.
        self.app_limit.mark(sample.total_delivered, self.in_flight);
        if self.probe_rtt.done_at.is_some() {
            self.probe_rtt.round_done |= self.rounds.start;
            if self.probe_rtt.round_done {
                self.check_probe_rtt_done(sample);
            }
        } else if sample.in_flight <= self.min_pipe() {
            self.probe_rtt.done_at = Some(sample.now + PROBE_RTT_DURATION);
            self.probe_rtt.round_done = false;
            self.rounds.restart(sample.total_delivered);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, sample: &Sample) {
        if self.probe_rtt.done_at.is_none_or(|at| sample.now <= at) {
            return;
        }
        self.probe_rtt.min_rtt_at = sample.now;
        self.cwnd = self.repair.restored(self.cwnd);
        if self.filled {
            self.start_probe_bw(sample);
        } else {
            self.mode = Mode::Startup;
        }
    }
}

//! The smallest RTT of ten seconds, and ProbeRTT if no sample was as low in that time.

use longhaul_units::{Span, Time};

use super::super::MIN_RTT_WINDOW;
use super::super::probe_rtt::Hold;
use super::super::sample::Sample;
use super::{BbrV1, Mode};

/// State of the smallest RTT and of ProbeRTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRtt {
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    hold: Hold,
}

impl ProbeRtt {
    pub(super) fn new(now: Time, min_rtt: Option<Span>) -> Self {
        Self { min_rtt, min_rtt_at: now, hold: Hold::default() }
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
            self.probe_rtt.hold = Hold::default();
        }
        if self.mode == Mode::ProbeRtt {
            self.hold_probe_rtt(sample);
        }
        if sample.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    fn hold_probe_rtt(&mut self, sample: &Sample) {
        // Samples of these rounds do not show the bandwidth.
        self.app_limit.mark(sample.total_delivered, self.in_flight);
        if self.probe_rtt.hold.on_ack(sample, self.min_pipe(), &mut self.rounds) {
            self.check_probe_rtt_done(sample);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, sample: &Sample) {
        if !self.probe_rtt.hold.is_over(sample.now) {
            return;
        }
        self.probe_rtt.min_rtt_at = sample.now;
        self.cwnd = self.recovery.restored(self.cwnd);
        if self.filled {
            self.start_probe_bw(sample);
        } else {
            self.mode = Mode::Startup;
        }
    }
}

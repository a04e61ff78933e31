//! The smallest RTT, and ProbeRTT, which empties the queue to measure it.

use longhaul_units::{Span, Time};

use super::super::{MIN_RTT_WINDOW, Sample};
use super::cycle::AckPhase;
use super::{Bbr, State};

/// Minimum time between two ProbeRTT states (`BBRProbeRTTInterval`).
const INTERVAL: Span = Span::from_secs(5);

/// State of the smallest RTT and of ProbeRTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRtt {
    /// `BBR.min_rtt`, [`Span::MAX`] while unknown, and the time of its sample.
    pub(super) min_rtt: Span,
    min_rtt_at: Time,
    /// The smallest RTT of the last interval, and the time of its sample.
    min_delay: Span,
    min_delay_at: Time,
    expired: bool,
}

impl ProbeRtt {
    pub(super) fn new(now: Time, rtt: Option<Span>) -> Self {
        let rtt = rtt.unwrap_or(Span::MAX);
        Self { min_rtt: rtt, min_rtt_at: now, min_delay: rtt, min_delay_at: now, expired: false }
    }

    /// `BBRUpdateMinRTT`.
    fn observe(&mut self, now: Time, rtt: Option<Span>) {
        self.expired = now > self.min_delay_at + INTERVAL;
        if let Some(rtt) = rtt.filter(|rtt| *rtt < self.min_delay || self.expired) {
            (self.min_delay, self.min_delay_at) = (rtt, now);
        }
        if self.min_delay < self.min_rtt || now > self.min_rtt_at + MIN_RTT_WINDOW {
            (self.min_rtt, self.min_rtt_at) = (self.min_delay, self.min_delay_at);
        }
    }
}

impl Bbr {
    pub(super) fn update_min_rtt(&mut self, sample: &Sample) {
        self.probe_rtt.observe(sample.now, sample.rtt);
    }

    /// `BBRCheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, sample: &Sample) {
        if self.state != State::ProbeRtt && self.probe_rtt.expired && !self.base.idle_restart {
            self.base.save_cwnd(false);
            self.state = State::ProbeRtt;
            self.base.begin_probe_rtt();
            self.cycle.ack_phase = AckPhase::Stopping;
            self.base.begin_round(sample.total_delivered);
        }
        if self.state == State::ProbeRtt {
            let least = self.probe_rtt_cwnd();
            if self.base.hold_probe_rtt(sample, least) {
                self.check_probe_rtt_done(sample.now);
            }
        }
        if sample.delivered > 0.0 {
            self.base.idle_restart = false;
        }
    }

    /// `BBRCheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if !self.base.has_probed_rtt(now) {
            return;
        }
        self.probe_rtt.min_delay_at = now;
        self.base.restore_cwnd();
        self.reset_short_term();
        if self.base.filled {
            self.start_down(now, self.base.total_delivered, None);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}

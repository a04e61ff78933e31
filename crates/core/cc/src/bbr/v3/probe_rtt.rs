//! The smallest RTT, and ProbeRTT, which empties the queue to measure it.

use longhaul_units::{Span, Time};

use super::super::MIN_RTT_WINDOW;
use super::super::probe_rtt::Hold;
use super::super::sample::Sample;
use super::cycle::AckPhase;
use super::{Bbr, State};

/// Minimum time between two ProbeRTT states (`BBRProbeRTTInterval`).
const INTERVAL: Span = Span::from_secs(5);

/// State of the smallest RTT and of ProbeRTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRtt {
    /// `BBR.min_rtt`, [`Span::MAX`] while unknown, and the time of its sample.
    min_rtt: Span,
    min_rtt_at: Time,
    /// The smallest RTT of the last interval, and the time of its sample.
    min_delay: Span,
    min_delay_at: Time,
    expired: bool,
    hold: Hold,
}

impl ProbeRtt {
    pub(super) fn new(now: Time, rtt: Option<Span>) -> Self {
        let rtt = rtt.unwrap_or(Span::MAX);
        Self { min_rtt: rtt, min_rtt_at: now, min_delay: rtt, min_delay_at: now, expired: false, hold: Hold::default() }
    }

    pub(super) const fn min_rtt(&self) -> Span {
        self.min_rtt
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
        if self.state != State::ProbeRtt && self.probe_rtt.expired && !self.idle_restart {
            self.save_cwnd(self.recovery.phase != Default::default());
            self.state = State::ProbeRtt;
            self.probe_rtt.hold = Hold::default();
            self.cycle.ack_phase = AckPhase::Stopping;
            self.start_round(sample.total_delivered);
        }
        if self.state == State::ProbeRtt {
            self.hold_probe_rtt(sample);
        }
        if sample.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    /// `BBRHandleProbeRTT`.
    fn hold_probe_rtt(&mut self, sample: &Sample) {
        self.app_limit.mark(sample.total_delivered, self.in_flight);
        if self.probe_rtt.hold.on_ack(sample, self.probe_rtt_cwnd(), &mut self.rounds) {
            self.check_probe_rtt_done(sample.now);
        }
    }

    /// `BBRCheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if !self.probe_rtt.hold.is_over(now) {
            return;
        }
        self.probe_rtt.min_delay_at = now;
        self.restore_cwnd();
        self.reset_short_term();
        if self.filled {
            self.start_down(now, self.total_delivered, None);
            self.state = State::Cruise;
        } else {
            self.enter_startup();
        }
    }
}

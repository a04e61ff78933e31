//! The least round trip, and ProbeRTT, which empties the queue to see it.

use longhaul_units::{Span, Time};

use super::super::sample::Sample;
use super::super::{MIN_RTT_WINDOW, PROBE_RTT_DURATION};
use super::cycle::AckPhase;
use super::{Bbr, State};

/// The least time between two ProbeRTTs (`BBRProbeRTTInterval`).
const INTERVAL: Span = Span::from_secs(5);

/// State of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRtt {
    /// `BBR.min_rtt`, [`Span::MAX`] while unknown, and when it was seen.
    min_rtt: Span,
    min_rtt_at: Time,
    /// The least of the last interval, and when it was seen.
    min_delay: Span,
    min_delay_at: Time,
    expired: bool,
    done_at: Option<Time>,
    round_done: bool,
}

impl ProbeRtt {
    pub(super) fn new(now: Time, rtt: Option<Span>) -> Self {
        let rtt = rtt.unwrap_or(Span::MAX);
        Self {
            min_rtt: rtt,
            min_rtt_at: now,
            min_delay: rtt,
            min_delay_at: now,
            expired: false,
            done_at: None,
            round_done: false,
        }
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
            self.save_cwnd(self.repair.phase != Default::default());
            self.state = State::ProbeRtt;
            self.probe_rtt.done_at = None;
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
        if self.probe_rtt.done_at.is_some() {
            self.probe_rtt.round_done |= self.rounds.start;
            if self.probe_rtt.round_done {
                self.check_probe_rtt_done(sample.now);
            }
        } else if sample.in_flight <= self.probe_rtt_cwnd() {
            self.probe_rtt.done_at = Some(sample.now + PROBE_RTT_DURATION);
            self.probe_rtt.round_done = false;
            self.start_round(sample.total_delivered);
        }
    }

    /// `BBRCheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt.done_at.is_none_or(|at| now <= at) {
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

//! ProbeBW: the cycle of Down, Cruise, Refill and Up, which probes for bandwidth and then drains the queue.

use longhaul_units::{Bytes, Span, Time};

use super::super::Sample;
use super::{Bbr, HEADROOM, State};

/// Minimum time between probes, and the maximum random addition to it.
const PROBE_WAIT: Span = Span::from_secs(2);
const PROBE_WAIT_SPREAD: Span = Span::from_secs(1);
/// Maximum number of rounds between probes. A Reno flow on a path of 62 segments (25 Mb/s, 30 ms) needs that many to
/// recover.
const RENO_ROUNDS: f64 = 63.0;
/// Maximum number of doublings of the slope with which `inflight_longterm` increases.
const MAX_SLOPE: u32 = 30;

/// `BBR.ack_phase`: the part of the cycle whose data is being acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cycle {
    pub(super) ack_phase: AckPhase,
    /// `BBR.is_bw_probe_sample`: whether losses belong to data that a probe sent.
    pub(super) is_sample: bool,
    up_acked: f64,
    acked_per_increase: f64,
    up_rounds: u32,
    pub(super) rounds_since_up: u64,
    pub(super) wait: Span,
    stamp: Time,
    /// Whether the last probe was too high, and whether it ended as a precaution.
    pub(super) prev_too_high: bool,
    pub(super) prev_precautionary: bool,
}

impl Cycle {
    pub(super) fn new(now: Time) -> Self {
        Self { acked_per_increase: f64::INFINITY, stamp: now, ..Self::default() }
    }
}

impl Bbr {
    /// `BBRUpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, sample: &Sample) {
        if !self.base.filled || self.adapt_long_term(sample) {
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(sample.now) => {
                self.start_refill(sample.total_delivered);
            }
            State::Down if self.is_time_to_cruise(sample.in_flight) => self.state = State::Cruise,
            State::Refill if self.base.round_start => {
                self.cycle.is_sample = true;
                self.start_up(sample);
            }
            State::Up => self.check_up(sample),
            _ => {}
        }
    }

    fn check_up(&mut self, sample: &Sample) {
        if self.is_time_to_go_down(sample) {
            self.cycle.prev_too_high = false;
            self.start_down(sample.now, sample.total_delivered, sample.rtt);
        }
    }

    /// `BBRStartProbeBW_DOWN`. The newest RTT is the source of randomness.
    pub(super) fn start_down(&mut self, now: Time, delivered: Bytes, rtt: Option<Span>) {
        self.latest.reset();
        self.cycle.acked_per_increase = f64::INFINITY;
        let measured = rtt.unwrap_or(self.probe_rtt.min_rtt).as_nanos() ^ delivered.0.rotate_left(32);
        self.cycle.rounds_since_up = self.base.random.below(2, measured);
        self.cycle.wait = PROBE_WAIT + PROBE_WAIT_SPREAD.mul_f64(self.base.random.fraction(measured));
        self.cycle.stamp = now;
        self.cycle.ack_phase = AckPhase::Stopping;
        self.base.begin_round(delivered);
        self.state = State::Down;
    }

    /// `BBRStartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self, delivered: Bytes) {
        self.reset_short_term();
        (self.cycle.up_rounds, self.cycle.up_acked) = (0, 0.0);
        self.cycle.prev_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.base.begin_round(delivered);
        self.state = State::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.cycle.ack_phase = AckPhase::Starting;
        self.base.begin_round(sample.total_delivered);
        self.base.search_full_pipe(sample.bw);
        self.state = State::Up;
        self.raise_slope();
    }

    /// `BBRIsTimeToProbeBW`.
    fn is_time_to_probe(&self, now: Time) -> bool {
        let reno_rounds = (self.target_inflight() / self.base.mss.as_f64()).min(RENO_ROUNDS);
        now > self.cycle.stamp + self.cycle.wait || self.cycle.rounds_since_up as f64 >= reno_rounds
    }

    /// `BBRIsTimeToCruise`.
    fn is_time_to_cruise(&self, in_flight: f64) -> bool {
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.max_bw.get(), 1.0)
    }

    /// `BBRIsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        if self.cycle.prev_too_high && sample.in_flight >= self.long_term {
            self.cycle.prev_precautionary = true;
            return true;
        }
        if sample.cwnd_limited && self.base.cwnd >= self.long_term {
            self.base.search_full_pipe(sample.bw);
            return false;
        }
        self.base.pipe.full
    }

    /// `BBRInflightWithHeadroom`.
    pub(super) fn inflight_with_headroom(&self) -> f64 {
        if self.long_term.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = (HEADROOM * self.long_term).max(self.base.mss.as_f64());
        (self.long_term - headroom).max(self.base.min_pipe())
    }

    /// `BBRRaiseInflightLongtermSlope`: doubles the slope in every round.
    fn raise_slope(&mut self) {
        let slow_start = (1_u64 << self.cycle.up_rounds) as f64;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(MAX_SLOPE);
        self.cycle.acked_per_increase = (self.base.cwnd / slow_start).max(self.base.mss.as_f64());
    }

    /// `BBRProbeInflightLongtermUpward`.
    fn raise_long_term(&mut self, sample: &Sample) {
        if !sample.cwnd_limited || self.base.cwnd < self.long_term {
            return;
        }
        self.cycle.up_acked += sample.newly_acked;
        let steps = (self.cycle.up_acked / self.cycle.acked_per_increase).floor();
        if steps >= 1.0 {
            self.cycle.up_acked -= steps * self.cycle.acked_per_increase;
            self.long_term += steps * self.base.mss.as_f64();
        }
        if self.base.round_start {
            self.raise_slope();
        }
    }

    /// `BBRAdaptLongTermModel`. Returns whether it has changed the state.
    fn adapt_long_term(&mut self, sample: &Sample) -> bool {
        if self.base.round_start && self.end_of_ack_phase(sample) {
            return true;
        }
        if !self.is_too_high(sample.lost, sample.tx_in_flight) && self.long_term.is_finite() {
            self.long_term = self.long_term.max(sample.tx_in_flight);
            if self.state == State::Up {
                self.raise_long_term(sample);
            }
        }
        false
    }

    /// Takes the next step of `BBR.ack_phase`, a round of ACKs after the last one. Returns whether it has changed the
    /// state.
    fn end_of_ack_phase(&mut self, sample: &Sample) -> bool {
        match self.cycle.ack_phase {
            AckPhase::Starting => self.cycle.ack_phase = AckPhase::Feedback,
            AckPhase::Stopping => {
                self.cycle.is_sample = false;
                self.cycle.ack_phase = AckPhase::Init;
                if !self.state.is_probe_bw() {
                    return false;
                }
                if !sample.app_limited {
                    self.max_bw.advance();
                }
                if self.cycle.prev_precautionary && !self.cycle.prev_too_high {
                    self.start_refill(sample.total_delivered);
                    return true;
                }
            }
            AckPhase::Init | AckPhase::Refilling | AckPhase::Feedback => {}
        }
        false
    }
}

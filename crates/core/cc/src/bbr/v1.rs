//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as in Linux's `tcp_bbr.c`.

mod controller;
mod cycle;
mod policer;
mod probe_rtt;
mod window;

use longhaul_units::{Bytes, Span, Time};

use self::policer::Policer;
use self::probe_rtt::ProbeRtt;
use super::aggregation::{Aggregation, Buckets, RESET_SEGMENTS};
use super::app_limit::AppLimit;
use super::full_pipe::FullPipe;
use super::pacing::Pacing;
use super::random::Random;
use super::recovery::Recovery;
use super::rounds::Rounds;
use super::sample::Sample;
use crate::describe::Entry;
use crate::estimate::WindowedMax;
use crate::initial_window;
use crate::{BuildParams, Path, SendLimit};

/// Pacing and window gain of Startup, 2/ln 2: the least gain that doubles the rate every round.
const HIGH_GAIN: f64 = 2.885;
/// Rounds for which a bandwidth sample is valid: a gain cycle of 8 and two more.
const BW_ROUNDS: u64 = 10;

pub(crate) static ENTRY: Entry = Entry::monolithic("bbr1", |_, _, params| Box::new(BbrV1::new(params)))
    .described(
        "BBR version 1: paces at the measured bandwidth and ignores losses",
        "draft-cardwell-iccrg-bbr-congestion-control-00; Linux, tcp_bbr.c",
    )
    .tested_in(&["bbr1"]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::ProbeBw => "probe-bw",
            Self::ProbeRtt => "probe-rtt",
        }
    }

    const fn cwnd_gain(self) -> f64 {
        match self {
            Self::Startup | Self::Drain => HIGH_GAIN,
            Self::ProbeBw => 2.0,
            Self::ProbeRtt => 1.0,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BbrV1 {
    mss: Bytes,
    cap: Bytes,
    cwnd: f64,
    initial_cwnd: f64,
    mode: Mode,
    /// The pipe has been full once.
    filled: bool,
    pipe: FullPipe,
    rounds: Rounds,
    max_bw: WindowedMax,
    /// The position in the gain cycle, and the time at which it began.
    phase: usize,
    phase_since: Time,
    probe_rtt: ProbeRtt,
    policer: Policer,
    aggregation: Aggregation,
    extra_acked: Buckets,
    app_limit: AppLimit,
    pacing: Pacing,
    random: Random,
    recovery: Recovery,
    /// First round of a recovery: sent data replaces delivered data and no more (packet conservation).
    conserving: bool,
    idle_restart: bool,
    /// Values of the last event.
    in_flight: Bytes,
    total_delivered: Bytes,
    total_lost: f64,
    limit: SendLimit,
}

impl BbrV1 {
    /// A controller in the state before its handshake.
    pub(crate) fn new(params: &BuildParams) -> Self {
        let cwnd = initial_window::rfc6928(params.mss, initial_window::DEFAULT_SEGMENTS).as_f64();
        Self {
            mss: params.mss,
            cap: params.max_cwnd,
            cwnd,
            initial_cwnd: cwnd,
            mode: Mode::Startup,
            filled: false,
            pipe: FullPipe::default(),
            rounds: Rounds::default(),
            max_bw: WindowedMax::new(BW_ROUNDS),
            phase: 0,
            phase_since: Time::ZERO,
            probe_rtt: ProbeRtt::new(Time::ZERO, None),
            policer: Policer::default(),
            aggregation: Aggregation::new(Time::ZERO),
            extra_acked: Buckets::default(),
            app_limit: AppLimit::default(),
            pacing: Pacing::unset(),
            random: Random::default(),
            recovery: Recovery::default(),
            conserving: false,
            idle_restart: false,
            in_flight: Bytes::ZERO,
            total_delivered: Bytes::ZERO,
            total_lost: 0.0,
            limit: SendLimit::App,
        }
    }

    /// Starts after the handshake.
    fn begin(&mut self, now: Time, path: &Path) {
        let cwnd = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        (self.cwnd, self.initial_cwnd) = (cwnd, cwnd);
        self.phase_since = now;
        self.probe_rtt = ProbeRtt::new(now, path.min_rtt.or(path.srtt));
        self.aggregation = Aggregation::new(now);
        self.pacing = Pacing::initial(HIGH_GAIN, cwnd, path.srtt);
        self.set_quantum();
    }

    fn max_bw(&self) -> f64 {
        self.max_bw.get().unwrap_or(0.0)
    }

    /// Returns the rate to send at: the policer's rate if one was detected, else the greatest measured one.
    fn bw(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.max_bw())
    }

    fn min_rtt(&self) -> Option<Span> {
        self.probe_rtt.min_rtt()
    }

    /// Updates the model of the path by an ACK, and the state by the model.
    fn update_model(&mut self, sample: &Sample) {
        self.update_bw(sample);
        self.update_aggregation(sample);
        self.update_phase(sample);
        self.check_full_pipe(sample);
        self.check_drain(sample);
        self.update_min_rtt(sample);
    }

    fn update_bw(&mut self, sample: &Sample) {
        self.rounds.on_ack(sample.prior_delivered, sample.total_delivered);
        if sample.bw <= 0.0 {
            return;
        }
        self.conserving &= !self.rounds.start;
        self.watch_policer(sample, sample.newly_lost > 0.0);
        if !sample.app_limited || sample.bw >= self.max_bw() {
            self.max_bw.update(self.rounds.count, sample.bw);
        }
    }

    fn watch_policer(&mut self, sample: &Sample, lossy: bool) {
        let probing = self.mode == Mode::ProbeBw;
        let forgot = self.policer.on_ack(sample, self.total_lost, self.rounds.start, lossy, probing);
        if forgot {
            self.start_probe_bw(sample);
        }
    }

    fn update_aggregation(&mut self, sample: &Sample) {
        if sample.newly_acked <= 0.0 || sample.bw <= 0.0 {
            return;
        }
        if self.rounds.start {
            self.extra_acked.on_round();
        }
        let reset = RESET_SEGMENTS * self.mss.as_f64();
        let excess = self.aggregation.excess(sample.now, self.bw(), sample.newly_acked, reset);
        self.extra_acked.add(excess.min(self.cwnd));
    }

    fn check_full_pipe(&mut self, sample: &Sample) {
        if self.filled || !self.rounds.start || sample.app_limited {
            return;
        }
        self.pipe.on_round(self.max_bw());
        self.filled = self.pipe.is_full();
    }

    fn check_drain(&mut self, sample: &Sample) {
        if self.mode == Mode::Startup && self.filled {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && sample.in_flight <= self.inflight(self.max_bw(), 1.0) {
            self.start_probe_bw(sample);
        }
    }
}

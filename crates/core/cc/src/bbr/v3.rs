//! BBR version 3 (draft-ietf-ccwg-bbr). Names in `code style` with the prefix `BBR` or `C` are from the draft.

mod congestion;
mod controller;
mod cycle;
mod probe_rtt;
mod startup;
mod window;

use longhaul_units::{Bytes, Time, named};

use self::congestion::{Latest, Undo};
use self::cycle::Cycle;
use self::probe_rtt::ProbeRtt;
use super::{Base, Sample};
use crate::describe::{Entry, OptionSpec};
use crate::estimate::WindowedMax;
use crate::{BuildParams, Path, TxId};

/// Loss rate in a round trip above which a probe was too high (`BBRLossThresh`).
const LOSS_THRESHOLD: f64 = 0.02;
/// Fraction kept after a lossy round trip (`BBRBeta`).
const BETA: f64 = 0.7;
/// Fraction of `inflight_longterm` left to other flows while not probing (`BBRHeadroom`).
const HEADROOM: f64 = 0.15;
/// Number of rounds for which an aggregation is valid (`BBRExtraAckedFilterLen`), and number before the pipe was full.
const EXTRA_ACKED_ROUNDS: u64 = 10;
const EXTRA_ACKED_ROUNDS_STARTUP: u64 = 1;

pub(crate) static ENTRY: Entry = Entry::monolithic("bbr", |name, values, params| {
    Box::new(Bbr::new(name, Options::from_values(values).exact, params))
})
.described("BBR version 3: paces at the measured bandwidth, bounded by the loss that it causes", "draft-ietf-ccwg-bbr")
.with_options(Options::OPTIONS)
.tested_in(&["bbr", "bbr(exact=on)"])
.internet_safe();

crate::options! {
    struct Options {
        exact: bool = OptionSpec::flag("exact", false, "short-term bounds exactly as in the draft"),
    }
}

named! {
    /// `BBR.state`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum State {
        Startup = "startup",
        Drain = "drain",
        Down = "probe-bw-down",
        Cruise = "probe-bw-cruise",
        Refill = "probe-bw-refill",
        Up = "probe-bw-up",
        ProbeRtt = "probe-rtt",
    }
}

impl State {
    const fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77, // 4 ln 2
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    const fn cwnd_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
            Self::Startup | Self::Drain | Self::Down | Self::Cruise | Self::Refill => 2.0,
        }
    }

    /// `IsInAProbeBWState`.
    const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`: the state probes for bandwidth, so that its losses do not indicate other flows.
    const fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// Maximum rate sample of the current and the previous probing cycle (`BBR.max_bw_filter`).
#[derive(Clone, Copy, Debug, Default)]
struct MaxBw {
    current: f64,
    previous: f64,
}

impl MaxBw {
    const fn get(&self) -> f64 {
        self.current.max(self.previous)
    }

    const fn add(&mut self, bw: f64) {
        self.current = self.current.max(bw);
    }

    /// Ends a cycle. A cycle without a sample does not replace the known bandwidth, as in Linux.
    const fn advance(&mut self) {
        if self.current > 0.0 {
            *self = Self { current: 0.0, previous: self.current };
        }
    }
}

/// Upper limits because of recent losses, infinite without losses: `bw_shortterm` in bytes/s, `inflight_shortterm` in
/// bytes.
#[derive(Clone, Copy, Debug, Default)]
struct ShortTerm {
    bw: f64,
    inflight: f64,
}

impl ShortTerm {
    const NONE: Self = Self { bw: f64::INFINITY, inflight: f64::INFINITY };
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    name: String,
    exact: bool,
    base: Base,
    state: State,
    drain_start_round: u64,
    max_bw: MaxBw,
    /// `BBR.bw`.
    bw: f64,
    latest: Latest,
    short_term: ShortTerm,
    /// `BBR.inflight_longterm`, infinite while unknown.
    long_term: f64,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    extra_acked: WindowedMax,
    undo: Undo,
    sack: bool,
    total_lost: Bytes,
    last_lost: TxId,
}

impl Bbr {
    /// A controller in the state before its handshake; with `exact`, the short-term bounds follow the draft
    /// literally.
    pub(crate) fn new(name: String, exact: bool, params: &BuildParams) -> Self {
        Self {
            name,
            exact,
            base: Base::new(params),
            state: State::Startup,
            drain_start_round: 0,
            max_bw: MaxBw::default(),
            bw: 0.0,
            latest: Latest::default(),
            short_term: ShortTerm::NONE,
            long_term: f64::INFINITY,
            cycle: Cycle::new(Time::ZERO),
            probe_rtt: ProbeRtt::new(Time::ZERO, None),
            extra_acked: WindowedMax::new(EXTRA_ACKED_ROUNDS_STARTUP),
            undo: Undo::default(),
            sack: true,
            total_lost: Bytes::ZERO,
            last_lost: TxId::default(),
        }
    }

    /// Starts after the handshake (`BBROnInit`).
    fn begin(&mut self, now: Time, path: &Path) {
        self.base.begin(now, State::Startup.pacing_gain(), path);
        self.cycle = Cycle::new(now);
        self.probe_rtt = ProbeRtt::new(now, path.min_rtt.or(path.srtt));
        self.base.set_quantum(2);
    }

    /// Processes an ACK that delivered data (`BBRUpdateModelAndState`).
    fn update_model(&mut self, sample: &Sample) {
        // The delivery process of the last round trip, and the bandwidth.
        self.latest.observe(sample);
        let held = sample.prior_delivered.is_some_and(|prior| self.base.app_limit.covers(prior));
        self.latest.note_own(self.state.pacing_gain(), held);
        self.base.count_round(sample);
        self.cycle.rounds_since_up += u64::from(self.base.round_start);
        self.update_max_bw(sample);
        self.adapt_lower_bounds();
        self.update_aggregation(sample);
        // The transitions between states.
        self.base.check_full_pipe(sample, sample.bw);
        self.check_startup_done(sample);
        self.check_drain_done(sample);
        self.update_cycle(sample);
        self.update_min_rtt(sample);
        self.check_probe_rtt(sample);
        self.latest.advance(sample);
        self.bound_bw();
    }

    fn update_max_bw(&mut self, sample: &Sample) {
        if sample.bw > 0.0 && (sample.bw >= self.max_bw.get() || !sample.app_limited) {
            self.max_bw.add(sample.bw);
        }
    }

    fn update_aggregation(&mut self, sample: &Sample) {
        let excess = self.base.excess(sample, self.bw, f64::INFINITY);
        let rounds = if self.base.filled { EXTRA_ACKED_ROUNDS } else { EXTRA_ACKED_ROUNDS_STARTUP };
        self.extra_acked.set_window(rounds);
        self.extra_acked.update(self.base.round, excess);
    }

    fn bound_bw(&mut self) {
        self.bw = self.max_bw.get().min(self.short_term.bw);
    }

    fn reset_short_term(&mut self) {
        self.short_term = ShortTerm::NONE;
    }
}

#[cfg(test)]
mod tests;

//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as in Linux's `tcp_bbr.c`. It shares the model of
//! the path with version 3, and, unlike it, does not bound the model after losses.

mod policer;

use longhaul_cc::estimate::WindowedMax;
use longhaul_cc::internal::bbr::{Base, MIN_RTT_WINDOW, Sample};
use longhaul_cc::registry::Entry;
use longhaul_cc::{
    Ack, BuildParams, Control, Controller, Episode, Needs, Path, PathEvent, Sent, Snapshot, Timeout, update,
};
use longhaul_units::{Bytes, Rate, Span, Time, named};

use self::policer::Policer;

/// Pacing and window gain of Startup, 2/ln 2: the smallest gain that doubles the rate every round.
const HIGH_GAIN: f64 = 2.885;
/// Number of rounds for which a bandwidth sample is valid: a gain cycle of 8 and two more.
const BW_ROUNDS: u64 = 10;

const GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Number of phases in which a cycle may begin: all but the one that drains.
const BEGINNINGS: u64 = 7;

/// Quanta in flight in addition to the model's volume: for the sender, its segmentation offload, and a receiver that
/// merges segments and delays ACKs.
const OFFLOAD_QUANTA: u64 = 3;
/// At rates below this (1.2 Mbit/s), in bytes/s, a quantum may be a single segment.
const SLOW: f64 = 150_000.0;
/// An episode ends after this many segments at the latest, as in Linux.
const RESET_SEGMENTS: f64 = 1_048_576.0;
/// Longest aggregation that the model takes into account.
const MAX_SPAN: Span = Span::from_millis(100);

pub(crate) static ENTRY: Entry = Entry::monolithic("bbr1", |_, _, params| Box::new(BbrV1::new(params)))
    .described(
        "BBR version 1: paces at the measured bandwidth and ignores losses",
        "draft-cardwell-iccrg-bbr-congestion-control-00; Linux, tcp_bbr.c",
    )
    .tested_in(&["bbr1"]);

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Mode {
        Startup = "startup",
        Drain = "drain",
        ProbeBw = "probe-bw",
        ProbeRtt = "probe-rtt",
    }
}

impl Mode {
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
    base: Base,
    mode: Mode,
    max_bw: WindowedMax,
    /// The position in the gain cycle, and the time at which it began.
    phase: usize,
    phase_since: Time,
    /// Minimum RTT over ten seconds, and the time of its sample.
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    policer: Policer,
    extra_acked: Buckets,
    /// Whether this is the first round of a recovery, in which only as much is sent as is delivered (packet
    /// conservation).
    conserving: bool,
    total_lost: f64,
}

/// Maximum excess of the last five to ten rounds (Linux: two buckets of five rounds each).
#[derive(Clone, Copy, Debug, Default)]
struct Buckets {
    rounds: u32,
    newest: f64,
    older: f64,
}

impl Buckets {
    const ROUNDS: u32 = 5;

    const fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= Self::ROUNDS {
            *self = Self { rounds: 0, newest: 0.0, older: self.newest };
        }
    }

    const fn add(&mut self, excess: f64) {
        self.newest = self.newest.max(excess);
    }

    const fn greatest(&self) -> f64 {
        self.newest.max(self.older)
    }
}

impl BbrV1 {
    pub(crate) fn new(params: &BuildParams) -> Self {
        Self {
            base: Base::new(params),
            mode: Mode::Startup,
            max_bw: WindowedMax::new(BW_ROUNDS),
            phase: 0,
            phase_since: Time::ZERO,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            policer: Policer::default(),
            extra_acked: Buckets::default(),
            conserving: false,
            total_lost: 0.0,
        }
    }

    fn begin(&mut self, now: Time, path: &Path) {
        self.base.begin(now, HIGH_GAIN, path);
        (self.phase_since, self.min_rtt_at) = (now, now);
        self.min_rtt = path.min_rtt.or(path.srtt);
        self.set_quantum();
    }

    fn max_bw(&self) -> f64 {
        self.max_bw.get().unwrap_or(0.0)
    }

    /// Returns the rate to send at: the policer's rate if one was detected, else the highest measured one.
    fn bw(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.max_bw())
    }

    fn update_model(&mut self, sample: &Sample) {
        self.update_bw(sample);
        self.update_aggregation(sample);
        self.update_phase(sample);
        self.base.check_full_pipe(sample, self.max_bw());
        self.check_drain(sample);
        self.update_min_rtt(sample);
    }

    fn update_bw(&mut self, sample: &Sample) {
        self.base.count_round(sample);
        if sample.bw <= 0.0 {
            return;
        }
        self.conserving &= !self.base.round_start;
        self.watch_policer(sample, sample.newly_lost > 0.0);
        if !sample.app_limited || sample.bw >= self.max_bw() {
            self.max_bw.update(self.base.round, sample.bw);
        }
    }

    fn watch_policer(&mut self, sample: &Sample, lossy: bool) {
        let probing = self.mode == Mode::ProbeBw;
        let forgot = self.policer.on_ack(sample, self.total_lost, self.base.round_start, lossy, probing);
        if forgot {
            self.start_probe_bw(sample);
        }
    }

    fn update_aggregation(&mut self, sample: &Sample) {
        if sample.newly_acked <= 0.0 || sample.bw <= 0.0 {
            return;
        }
        if self.base.round_start {
            self.extra_acked.on_round();
        }
        let reset = RESET_SEGMENTS * self.base.mss.as_f64();
        let excess = self.base.excess(sample, self.bw(), reset);
        self.extra_acked.add(excess);
    }

    fn check_drain(&mut self, sample: &Sample) {
        if self.mode == Mode::Startup && self.base.filled {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && sample.in_flight <= self.inflight(self.max_bw(), 1.0) {
            self.start_probe_bw(sample);
        }
    }

    fn pacing_gain(&self) -> f64 {
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
    fn start_probe_bw(&mut self, sample: &Sample) {
        let measured = sample.rtt.or(self.min_rtt).map_or(0, |rtt| rtt.as_nanos());
        let measured = measured ^ sample.total_delivered.0.rotate_left(32);
        self.mode = Mode::ProbeBw;
        self.phase = GAINS.len() - 1 - self.base.random_below(BEGINNINGS, measured) as usize;
        self.next_phase(sample);
    }

    fn next_phase(&mut self, sample: &Sample) {
        self.phase = (self.phase + 1) % GAINS.len();
        self.phase_since = sample.now;
    }

    /// Advances the phase after a round trip. A probe lasts longer if its gain is not yet reached in flight and no loss
    /// has occurred; a drain ends earlier if its queue is empty.
    fn update_phase(&mut self, sample: &Sample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let passed = self.min_rtt.is_some_and(|rtt| sample.now - self.phase_since > rtt);
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

    fn update_min_rtt(&mut self, sample: &Sample) {
        let expired = sample.now > self.min_rtt_at + MIN_RTT_WINDOW;
        let least = self.min_rtt;
        if let Some(rtt) = sample.rtt.filter(|rtt| expired || least.is_none_or(|least| *rtt < least)) {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), sample.now);
        }
        if expired && !self.base.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.base.save_cwnd(true);
            self.base.begin_probe_rtt();
        }
        if self.mode == Mode::ProbeRtt {
            let least = self.base.min_pipe();
            if self.base.hold_probe_rtt(sample, least) {
                self.check_probe_rtt_done(sample);
            }
        }
        if sample.delivered > 0.0 {
            self.base.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, sample: &Sample) {
        if !self.base.has_probed_rtt(sample.now) {
            return;
        }
        self.min_rtt_at = sample.now;
        self.base.restore_cwnd();
        if self.base.filled {
            self.start_probe_bw(sample);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn set_quantum(&mut self) {
        let least = if self.base.pacing_rate < SLOW { 1 } else { 2 };
        self.base.set_quantum(least);
    }

    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        self.min_rtt.map_or(self.base.initial_cwnd, |rtt| gain * bw * rtt.as_secs_f64())
    }

    /// Adds the offload quanta, rounds up to an even number of segments for receivers that acknowledge every second
    /// one, and adds two more while probing so that a small window can probe as well.
    fn with_budget(&self, volume: f64) -> f64 {
        let segment = self.base.mss.as_f64();
        let volume = volume + (self.base.quantum * OFFLOAD_QUANTA).as_f64();
        let even = (volume / (2.0 * segment)).ceil() * 2.0 * segment;
        let probing = self.mode == Mode::ProbeBw && self.phase == 0;
        if probing { even + 2.0 * segment } else { even }
    }

    fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.with_budget(self.bdp(bw, gain))
    }

    fn aggregation_volume(&self) -> f64 {
        let most = self.bw() * MAX_SPAN.as_secs_f64();
        if self.base.filled { self.extra_acked.greatest().min(most) } else { 0.0 }
    }

    /// Updates the window for recovery. Returns whether packet conservation controls it, as in the first round of
    /// recovery.
    fn recover(&mut self, turn: Option<Episode>, sample: &Sample) -> bool {
        let conserved = sample.in_flight + sample.newly_acked;
        self.base.cwnd = (self.base.cwnd - sample.newly_lost).max(self.base.mss.as_f64());
        match turn {
            Some(Episode::Enter) => {
                self.conserving = true;
                self.base.begin_round(sample.total_delivered);
                self.base.cwnd = conserved;
            }
            Some(Episode::Exit) => {
                self.conserving = false;
                self.base.restore_cwnd();
            }
            _ => {}
        }
        if self.conserving {
            self.base.cwnd = self.base.cwnd.max(conserved);
        }
        self.conserving
    }

    fn set_pacing(&mut self) {
        self.base.set_pacing(self.pacing_gain(), self.bw());
        self.set_quantum();
    }

    fn set_cwnd(&mut self, turn: Option<Episode>, sample: &Sample) {
        if !self.recover(turn, sample) && sample.newly_acked > 0.0 {
            let goal = self.bdp(self.bw(), self.mode.cwnd_gain()) + self.aggregation_volume();
            self.base.grow(sample, self.with_budget(goal));
        }
        let most = if self.mode == Mode::ProbeRtt { self.base.min_pipe() } else { f64::INFINITY };
        self.base.limit_cwnd(most);
    }

    /// Resumes at exactly the estimated bandwidth after an idle period, to fill the pipe without a queue.
    fn restart_from_idle(&mut self, event: &Sent) {
        match self.mode {
            Mode::ProbeBw => self.base.set_pacing(1.0, self.bw()),
            Mode::ProbeRtt => self.check_probe_rtt_done(&self.base.without_ack(event.now)),
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// Processes a spurious recovery episode: the pipe may have been considered full too early, and a detected policer
    /// did not drop anything.
    fn on_spurious(&mut self) {
        self.policer = Policer::default();
        self.base.on_spurious();
        self.base.limit_cwnd(f64::INFINITY);
        self.conserving = false;
    }
}

impl Controller for BbrV1 {
    fn name(&self) -> String {
        ENTRY.name.to_owned()
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.required.pacing = true;
        needs
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        if self.base.on_sent(event, path) {
            self.restart_from_idle(event);
        }
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.total_lost += event.newly_lost.as_f64();
        let sample = self.base.on_ack(event, path);
        let turn = self.base.follow(event.episode, self.mode == Mode::ProbeRtt);
        if event.delivered > Bytes::ZERO {
            self.update_model(&sample);
        }
        self.set_pacing();
        self.set_cwnd(turn, &sample);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.total_lost += self.base.on_timeout(event, path, self.mode == Mode::ProbeRtt).as_f64();
        self.conserving = false;
        self.base.search_full_pipe(0.0);
        // A timeout ends the round.
        self.base.round_start = true;
        self.watch_policer(&self.base.without_ack(event.now), true);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.base.mss = path.mss;
        match event {
            PathEvent::Established { now, .. } => self.begin(*now, path),
            PathEvent::Mss { .. } => self.base.on_mss(path),
            PathEvent::Spurious { .. } => self.on_spurious(),
            // After an idle period, data is paced at the known bandwidth, so the window remains as it is.
            _ => {}
        }
    }

    fn control(&self) -> Control {
        self.base.control()
    }

    fn snapshot(&self) -> Snapshot {
        let bw = self.bw();
        let bandwidth = (bw > 0.0).then(|| Rate::from_bytes_per_sec(bw as u64));
        update!(Snapshot { bandwidth, ..Snapshot::new(self.mode.name()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lasts_for_five_to_ten_rounds() {
        let mut buckets = Buckets::default();
        buckets.add(7.0);
        for _ in 0..9 {
            buckets.on_round();
            assert_eq!(buckets.greatest(), 7.0);
        }
        buckets.on_round();
        assert_eq!(buckets.greatest(), 0.0);
    }
}

//! Copa (Arun, Balakrishnan, NSDI 2018): moves the window towards a rate of `1 / (delta dq)`, where dq is the
//! queueing delay.

mod competition;
pub(crate) mod delays;
mod heavy_loss;
mod loss_bound;
mod velocity;

use longhaul_units::{Bytes, Rate, Span};

use competition::{Competition, PATIENCE};
use delays::{Delays, LONG, NEARLY};
use heavy_loss::HeavyLoss;
use loss_bound::{Answer, LossBound};
use velocity::{STEADY_ROUNDS, Velocity};

use crate::describe::{Entry, OptionSpec, Rule, Value};
use crate::{
    Ack, BuildParams, Control, Controller, Demands, Needs, Pace, Path, PathEvent, SegmentKind, Snapshot, Timeout,
    initial_window,
};

/// The default mode's delta: two segments in the queue (section 2.1).
const DELTA: f64 = 0.5;
/// Minimum window in segments (the authors' code).
const LEAST_SEGMENTS: f64 = 2.0;
/// Fraction of the window kept if more than 30 % of the data is lost (the authors' code).
const KEEP: f64 = 0.7;
/// Ratio of the pacing rate to `cwnd / RTTstanding` (section 2.1).
const PACE_GAIN: f64 = 2.0;
/// Ratio of the pacing rate to `cwnd / RTTstanding` while losses are bounded: a path without room for a queue has no
/// room for segments at twice the rate.
const HELD_PACE_GAIN: f64 = 1.0;
/// Segments are sent individually, as in the paper, at rates below two segments per this time. A pair of segments
/// causes a queue, which is large compared to a tenth of the usual variation of the delay.
const BATCH_SPAN: Span = Span::from_micros(250);

/// Maximum change of the window per round trip, relative to the window. With the authors' value of 1, the window
/// still doubles in the round trip before the resulting queue is measured.
const STEP: f64 = 0.05;

/// Rule of options that have no effect in the default mode.
const COMPETING: &[Rule] = &[Rule::With("competitive", Value::Flag(true))];

pub(crate) static ENTRY: Entry = Entry::monolithic("copa", |name, values, params| {
    Box::new(Copa { name, ..Copa::new(CopaConfig::from_values(values), params) })
})
.described(
    "targets a rate of 1 / (delta x queueing delay); a competitive mode for buffer-filling flows",
    "Arun, Balakrishnan, Copa, NSDI 2018",
)
.with_options(CopaConfig::OPTIONS)
.tested_in(&[
    "copa",
    "copa(competitive=off)",
    "copa(delta=0.04,iw=2)",
    "copa(loss-bound=1)",
    "copa(patience=1,nearly=0,steady=1,step=1,rtt-min-window=1,loss-bound=0.001,pace=1)",
])
.internet_safe();

crate::options! {
    pub(crate) struct CopaConfig {
        delta: f64 =
            OptionSpec::float("delta", 0.001, 10.0, DELTA, "price of delay: 1 / delta segments stay in the queue"),
        competitive: bool = OptionSpec::flag("competitive", true, "lower delta while others keep the queue filled"),
        patience: u32 = OptionSpec::int(
            "patience", 1, 1000, PATIENCE as u64,
            "RTTs with a filled queue before delta is lowered",
        ).ruled(COMPETING),
        nearly: f64 =
            OptionSpec::float("nearly", 0.0, 1.0, NEARLY, "fraction of the queue's swing up to which it counts as nearly empty")
                .ruled(COMPETING),
        /// Number of round trips in one direction before the velocity doubles, at least 1.
        steady_rounds: u32 =
            OptionSpec::int("steady", 1, 1000, STEADY_ROUNDS as u64, "RTTs in one direction before the velocity doubles"),
        /// Maximum change of the window by the velocity per round trip, as a fraction of the window, 0 to 1.
        /// Velocity 1 is always allowed.
        step: f64 =
            OptionSpec::float("step", 0.001, 1.0, STEP, "maximum change per RTT, as a fraction of the window"),
        rtt_min_window: Span [Span::from_secs] = OptionSpec::int(
            "rtt-min-window", 1, 3600, LONG.as_millis() / 1000,
            "window of the minimum RTT, s",
        ),
        loss_bound: f64 =
            OptionSpec::float("loss-bound", 0.001, 1.0, loss_bound::MOST, "loss rate up to which losses are ignored; 1: always"),
        /// Ratio of the pacing rate to `cwnd / RTTstanding`, at least 1.
        pace_gain: f64 = OptionSpec::float("pace", 1.0, 100.0, PACE_GAIN, "pacing rate in windows per RTT"),
        initial_segments: u32 =
            OptionSpec::int("iw", 1, 10, initial_window::DEFAULT_SEGMENTS as u64, "initial window in segments"),
    }
}

/// State to restore after a spurious timeout.
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: f64,
    slow_start: bool,
}

/// Copa, a monolithic controller. Losses do not change its window, unless it causes more of them than a bound.
#[derive(Clone, Debug)]
pub(crate) struct Copa {
    name: String,
    config: CopaConfig,
    mss: Bytes,
    cap: Bytes,
    /// Window in bytes; at least one segment between calls.
    pub(crate) cwnd: f64,
    pub(crate) slow_start: bool,
    pub(crate) delays: Delays,
    velocity: Velocity,
    pub(crate) competition: Competition,
    losses: HeavyLoss,
    pub(crate) loss_bound: LossBound,
    undo: Option<Undo>,
    /// Queueing delay in seconds up to which slow start continues.
    pub(crate) tolerated: f64,
    /// Fraction of the `1 / delta` segments that is kept in the queue: above 0, at most 1.
    pub(crate) kept: f64,
}

impl Copa {
    /// Copa in the state before its handshake.
    pub(crate) fn new(config: CopaConfig, params: &BuildParams) -> Self {
        let mss = params.mss.as_f64().max(1.0);
        Self {
            name: ENTRY.name.to_owned(),
            config,
            mss: params.mss,
            cap: params.max_cwnd,
            cwnd: mss,
            slow_start: true,
            delays: Delays::new(config.rtt_min_window),
            velocity: Velocity::new(mss),
            competition: Competition::new(config.delta, config.patience),
            losses: HeavyLoss::default(),
            loss_bound: LossBound::new(config.loss_bound),
            undo: None,
            tolerated: 0.0,
            kept: 1.0,
        }
    }

    fn delta(&self) -> f64 {
        let delta = if self.config.competitive { self.competition.delta() } else { self.config.delta };
        delta / self.kept
    }

    /// Returns the window of the target rate, in bytes: `RTTstanding / (delta dq)` segments. It is infinite without a
    /// queue.
    fn target(&self) -> f64 {
        let queueing = self.delays.queueing();
        if queueing > 0.0 {
            self.delays.standing_secs() / (self.delta() * queueing) * self.mss.as_f64()
        } else {
            f64::INFINITY
        }
    }

    /// Returns the part of an RTT that is not caused by a standing queue, in seconds. An ACK covers two segments, which
    /// were sent at twice the rate, so that the second segment waits for half the transmission time of the first.
    fn noise(&self) -> f64 {
        0.5 * self.delays.standing_secs() * self.mss.as_f64() / self.cwnd
    }

    fn bound(&mut self) {
        let least = self.mss.as_f64().max(1.0);
        self.cwnd = self.cwnd.min(self.cap.as_f64()).max(least);
    }

    fn restart(&mut self) {
        self.slow_start = true;
        self.velocity = Velocity::new(self.cwnd);
        self.competition.reset();
    }

    /// Returns the step of the window, v / (delta W) segments per delivered segment, up or down, and at most the
    /// delivered bytes (section 2.1). The velocity is limited so that the window changes by at most the configured
    /// fraction per round trip.
    fn step(&mut self, up: bool, delivered: f64) -> f64 {
        let delta = self.delta();
        let velocity = self.velocity.towards(up, self.cwnd, self.config.step * delta * self.cwnd / self.mss.as_f64());
        (velocity * self.mss.as_f64() / (delta * self.cwnd) * delivered).min(delivered)
    }

    /// Applies the loss bound. In the competitive mode, delta responds to losses, which other flows also cause.
    fn keep_the_loss_bound(&mut self, ack: &Ack<'_>) {
        if self.config.competitive && self.competition.is_on() {
            return self.loss_bound.rest();
        }
        match self.loss_bound.on_ack(ack, self.mss, self.cwnd, self.delays.standing_secs()) {
            Answer::None => {}
            Answer::Lower(window) => self.cwnd = window,
            Answer::Back(window) => self.cwnd = self.cwnd.max(window),
            Answer::Ours => self.slow_start = false,
            Answer::Try => self.velocity = Velocity::new(self.cwnd),
        }
        let ceiling = self.loss_bound.ceiling();
        if self.cwnd >= ceiling {
            (self.cwnd, self.slow_start) = (ceiling, false);
        }
    }

    pub(crate) fn measure(&mut self, event: &Ack<'_>, path: &Path) {
        self.mss = path.mss;
        if let Some(sample) = event.rtt {
            self.delays.sample(event.now, sample.rtt, path.srtt.unwrap_or(sample.rtt));
        }
        // After a retransmission it is unknown which copy arrived.
        let originals = event.acked.iter().rev().filter(|segment| segment.kind == SegmentKind::Data);
        if let Some((sent_at, at)) = originals.filter_map(|segment| Some((segment.sent_at, segment.arrival?))).next() {
            self.delays.sample_one_way(event.now, sent_at, at);
        }
    }

    /// Moves the window for an ACK that was [measured](Self::measure).
    pub(crate) fn decide(&mut self, event: &Ack<'_>, path: &Path) {
        // Update the velocity and the mode.
        if event.newly_lost > Bytes::ZERO {
            self.competition.on_loss();
        }
        if event.round_start {
            self.velocity.on_round(self.cwnd, self.config.steady_rounds);
        }
        if !self.slow_start {
            let empty = self.is_nearly_empty();
            self.competition.on_ack(event.round_start, empty);
        }
        // Move the window, and respond to losses above the bound.
        if event.delivered > Bytes::ZERO && self.delays.is_known() {
            self.move_window(event);
        }
        self.keep_the_loss_bound(event);
        if self.losses.is_heavy(event, path) && !self.loss_bound.is_asking() {
            self.cwnd *= KEEP;
        }
        self.bound();
    }

    pub(crate) fn is_nearly_empty(&self) -> bool {
        self.delays.is_nearly_empty(self.noise(), self.config.nearly)
    }

    /// Measures the variation of the delay, which then does not count as a queue.
    pub(crate) fn with_jitter(mut self) -> Self {
        self.delays = self.delays.with_jitter();
        self
    }

    /// Keeps the window between `least` and `most` bytes.
    pub(crate) fn hold(&mut self, least: f64, most: f64) {
        self.cwnd = self.cwnd.max(least).min(most);
        self.bound();
    }

    /// Continues from a window of `cwnd` bytes, in slow start or not.
    pub(crate) fn take_over(&mut self, cwnd: f64, slow_start: bool) {
        self.cwnd = cwnd;
        self.bound();
        self.restart();
        self.slow_start = slow_start;
    }

    fn move_window(&mut self, ack: &Ack<'_>) {
        let (delivered, target) = (ack.delivered.as_f64(), self.target());
        let grows = ack.cwnd_limited && self.cwnd <= target && !self.loss_bound.is_asking();
        if self.slow_start {
            if self.cwnd > target && self.delays.queueing() > self.tolerated {
                self.slow_start = false;
                self.velocity = Velocity::new(self.cwnd);
                self.competition.reset();
            } else if grows {
                self.cwnd += delivered;
            }
        } else if grows {
            self.cwnd += self.step(true, delivered);
        } else if self.cwnd > target {
            let least = LEAST_SEGMENTS * self.mss.as_f64();
            self.cwnd = (self.cwnd - self.step(false, delivered)).max(least.min(self.cwnd));
        }
    }
}

impl Controller for Copa {
    /// The name of the registry with the options that differ from the defaults, or `copa` for a controller that was
    /// built in another way.
    fn name(&self) -> String {
        self.name.clone()
    }

    fn needs(&self) -> Needs {
        Needs { preferred: Demands { pacing: true, ..Demands::default() }, ..Needs::default() }
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.measure(event, path);
        self.decide(event, path);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.mss = path.mss;
        if event.nth <= 1 {
            self.undo = Some(Undo { cwnd: self.cwnd, slow_start: self.slow_start });
        }
        self.cwnd = self.mss.as_f64();
        self.loss_bound.on_timeout(event.now);
        self.restart();
        self.bound();
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.mss = path.mss;
        let initial = initial_window::of_connection(path, self.config.initial_segments).as_f64();
        match *event {
            PathEvent::Established { .. } => {
                self.cwnd = initial;
                self.restart();
            }
            PathEvent::IdleRestart { .. } => {
                self.cwnd = self.cwnd.min(initial);
                self.restart();
            }
            PathEvent::Spurious { timeout: true, .. } => {
                if let Some(undo) = self.undo.take().filter(|undo| undo.cwnd > self.cwnd) {
                    (self.cwnd, self.slow_start) = (undo.cwnd, undo.slow_start);
                    self.velocity = Velocity::new(self.cwnd);
                }
            }
            _ => {}
        }
        self.bound();
    }

    fn control(&self) -> Control {
        let cwnd = Bytes::from_f64(self.cwnd).max(self.mss);
        let pace = self.delays.standing().map(|standing| {
            let gain = if self.loss_bound.is_on() { HELD_PACE_GAIN } else { self.config.pace_gain };
            let rate = Rate::from_bytes_over(cwnd, standing).mul_f64(gain).max(Rate::from_bytes_per_sec(1));
            let slow = rate.bytes_in(BATCH_SPAN) < self.mss * 2;
            Pace { rate, quantum: slow.then_some(self.mss.max(Bytes(1))) }
        });
        Control { pace, ..Control::window(cwnd) }
    }

    fn snapshot(&self) -> Snapshot {
        let phase = match (self.slow_start, self.config.competitive && self.competition.is_on()) {
            (true, _) => "slow-start",
            (false, true) => "competitive",
            (false, false) => "default",
        };
        Snapshot::new(phase)
    }
}

#[cfg(test)]
mod tests;

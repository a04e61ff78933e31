//! FAST TCP (Jin, Wei, Low): moves the window towards a constant number of segments in the queue.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Handoff, Stage, Target, Window,
};
use longhaul_cc::registry::{Entry, OptionSpec, Rule, Value};
use longhaul_cc::{Ack, Episode, Path};
use longhaul_units::{Bytes, Span, Time};

/// Fraction of the window kept after a loss, as in NewReno.
const BETA: f64 = 0.5;
/// Number of samples over which the RTT is averaged, as a divisor of the window: a third of it.
const SAMPLES_A_WINDOW: f64 = 3.0;
/// Steps of alpha tuning: alpha in segments, and the throughputs in segments/s above which a step is entered and
/// below which it is left. The values are those of the early Linux implementations, from memory.
const TUNED: [(f64, f64, f64); 3] = [(8.0, 0.0, 0.0), (20.0, 1500.0, 1250.0), (200.0, 15_000.0, 12_500.0)];

pub(crate) static ENTRY: Entry = Entry::avoidance("fast", |values| Box::new(Fast::from_values(values)))
    .described(
        "moves every second RTT towards alpha segments in the queue",
        "Jin, Wei, Low, FAST TCP, Infocom 2004; Cui, Andrew, FAST TCP for ns-2",
    )
    .with_options(Fast::OPTIONS)
    .tested_in(&["fast", "slow-start+fast", "fast(tuning=on,gamma=1,interval=0,ecn-beta=0.8)"]);

longhaul_cc::options! {
    pub(crate) struct Fast {
        alpha: f64 = OptionSpec::float("alpha", 1.0, 100_000.0, 100.0, "segments that the flow keeps in the queue")
            .ruled(&[Rule::With("tuning", Value::Flag(false))]),
        tuning: bool = OptionSpec::flag("tuning", false, "choose alpha by throughput: 8, 20 or 200"),
        gamma: f64 = OptionSpec::float("gamma", 0.01, 1.0, 0.5, "fraction of the way to the target per update"),
        rtt_gain: f64 =
            OptionSpec::float("rtt-gain", 0.001, 1.0, 0.25, "maximum weight of an RTT sample in the average"),
        interval: Span [Span::from_millis] = OptionSpec::int("interval", 0, 1000, 10, "minimum time between updates, ms"),
        delay: Delay => Delay::default(),
        /// Index of the current step of alpha tuning.
        tuned: usize => 0,
        /// Time of the last update, and whether the round trip in which it takes effect is over.
        updated: Option<Time> => None,
        settled: bool => true,
        /// Target of the increase in bytes, and the window increase per acknowledged byte until it is reached.
        goal: f64 => 0.0,
        slope: f64 => 0.0,
        _ = ECN_BETA,
    }
}

/// Minimum and average RTT in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delay {
    base: f64,
    average: Option<f64>,
}

impl Delay {
    /// Adds a sample of `rtt`. Its weight in the average is 3 / `segments`, and at most `gain`.
    pub(crate) fn sample(&mut self, rtt: Span, segments: f64, gain: f64) {
        let rtt = rtt.as_secs_f64();
        let weight = (SAMPLES_A_WINDOW / segments.max(1.0)).min(gain);
        self.base = if self.average.is_some() { self.base.min(rtt) } else { rtt };
        self.average = Some(self.average.map_or(rtt, |old| old + weight * (rtt - old)));
    }

    /// Returns the average queueing delay in seconds, or zero before the first sample.
    pub(crate) fn queueing(&self) -> f64 {
        self.average.map_or(0.0, |average| (average - self.base).max(0.0))
    }

    /// Returns the ratio of the base RTT to the average RTT, or one before the first sample.
    fn ratio(&self) -> f64 {
        self.average.filter(|average| *average > 0.0).map_or(1.0, |average| (self.base / average).min(1.0))
    }
}

impl Fast {
    fn alpha(&mut self, segments: f64) -> f64 {
        if !self.tuning {
            return self.alpha;
        }
        let rate = self.delay.average.filter(|rtt| *rtt > 0.0).map_or(0.0, |rtt| segments / rtt);
        while TUNED.get(self.tuned + 1).is_some_and(|(_, above, _)| rate > *above) {
            self.tuned += 1;
        }
        while TUNED.get(self.tuned).is_some_and(|(_, _, below)| rate < *below) {
            self.tuned -= 1;
        }
        TUNED.get(self.tuned).map_or(self.alpha, |(alpha, _, _)| *alpha)
    }

    /// Computes the update `(1 - gamma) W + gamma (base / RTT W_old + alpha)`, at most twice the window. `W_old` is the
    /// amount in flight when the segment acknowledged now was sent, because that amount caused the current RTT.
    fn update(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        let mss = path.mss.as_f64();
        let w_old = ack.rate.map_or(window.cwnd, |rate| rate.tx_in_flight.as_f64().min(window.cwnd.max(mss)));
        let alpha = self.alpha(window.cwnd / mss) * mss;
        let gamma = self.gamma;
        let goal = (1.0 - gamma) * window.cwnd + gamma * (self.delay.ratio() * w_old + alpha);
        self.goal = goal.min(2.0 * window.cwnd).max(2.0 * mss);
        // An increase is spread over the ACKs of a window; a decrease takes effect at once.
        self.slope = ((self.goal - window.cwnd) / window.cwnd).max(0.0);
        window.cwnd = window.cwnd.min(self.goal);
        self.updated = Some(ack.now);
    }
}

impl Stage for Fast {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        if let Some(sample) = ack.rtt {
            self.delay.sample(sample.rtt, ack.prior_in_flight.segments(path.mss), self.rtt_gain);
        }
        true
    }
}

impl CongestionAvoidance for Fast {
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, window: &mut Window) {
        (self.goal, self.slope, self.settled) = (window.cwnd, 0.0, false);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        // Fast recovery holds the window. Recovery after a timeout takes longer with a small window, so the window must
        // be able to grow.
        let may_rise = matches!(ack.episode, Episode::None | Episode::Rto);
        if ack.round_start && ack.cwnd_limited && may_rise {
            let early = self.updated.is_some_and(|updated| ack.now.since(updated) < self.interval);
            let due = self.settled && !early;
            self.settled = !due;
            if due {
                self.update(ack, path, window);
            }
        }
        if window.cwnd < self.goal {
            window.cwnd = (window.cwnd + self.slope * grow.as_f64()).min(self.goal);
        }
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        (self.goal, self.slope, self.settled) = (0.0, 0.0, false);
        Target::multiplicative(event, BETA, path.mss)
    }
}

#[cfg(test)]
mod tests;

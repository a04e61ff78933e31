//! TCP-Illinois (Liu, Basar, Srikant): losses trigger decreases, and the delay sets the sizes of increase and
//! decrease.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Handoff, Reason, Stage, Target, Window, additive,
};
use longhaul_cc::estimate::RoundRtt;
use longhaul_cc::registry::{Entry, OptionSpec, Rule};
use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

/// NewReno's alpha and beta, for small windows and after a timeout.
const RENO: (f64, f64) = (1.0, 0.5);

/// Lower bound of the largest queueing delay, as a part of the minimum RTT: a smaller rise of the delay does not
/// indicate a queue (RFC 9406, section 4.2). Without a queue the largest delay is that of the flow's own bursts,
/// microseconds, which would otherwise determine both curves.
const FLOOR: f64 = 0.125;

pub(crate) static ENTRY: Entry = Entry::avoidance("illinois", |values| {
    Box::new(Illinois::new(IllinoisConfig::from_values(values)))
})
.described(
    "increases by 10 (no queue) to 0.3 segments per RTT (full queue); decreases by 1/8 to 1/2",
    "Liu, Basar, Srikant, TCP-Illinois, Valuetools 2006; Linux",
)
.with_options(IllinoisConfig::OPTIONS)
.tested_in(&[
    "illinois",
    "illinois(low-window=0,alpha-max=100,rise-part=0,least-part=0.5,most-part=0.5,floor=0,theta=1,ecn-beta=0.8)",
])
.internet_safe();

longhaul_cc::options! {
    /// Constants of TCP-Illinois, those of Linux except for `floor`.
    pub(crate) struct IllinoisConfig {
        alpha_min: f64 = OptionSpec::float("alpha-min", 0.1, 1.0, 0.3, "minimum increase per RTT, segments"),
        alpha_max: f64 = OptionSpec::float("alpha-max", 1.0, 100.0, 10.0, "maximum increase per RTT, segments"),
        beta_min: f64 = OptionSpec::float("beta-min", 0.06, 0.5, 0.125, "minimum decrease on a loss, as a fraction")
            .ruled(&[Rule::AtMost(&["beta-max"])]),
        /// Largest share given up; `beta_min` wins where it is larger.
        beta_max: f64 = OptionSpec::float("beta-max", 0.1, 0.9, 0.5, "maximum decrease on a loss, as a fraction"),
        low_window: f64 = OptionSpec::float("low-window", 0.0, 10_000.0, 15.0, "window below which NewReno is used, segments"),
        rise_part: f64 =
            OptionSpec::float("rise-part", 0.0, 0.9, 0.01, "fraction of the maximum delay up to which the increase is at its maximum"),
        least_part: f64 = OptionSpec::float(
            "least-part", 0.0, 1.0, 0.1,
            "fraction of the maximum delay up to which the decrease is at its minimum",
        ).ruled(&[Rule::AtMost(&["most-part"])]),
        most_part: f64 = OptionSpec::float(
            "most-part", 0.0, 1.0, 0.8,
            "fraction of the maximum delay from which the decrease is at its maximum",
        ),
        /// Lower bound of the largest queueing delay, as a part of the minimum RTT. Linux has none (0).
        floor: f64 = OptionSpec::float(
            "floor", 0.0, 1.0, FLOOR,
            "floor of the maximum delay, as a fraction of the minimum RTT",
        ),
        theta: u32 =
            OptionSpec::int("theta", 1, 1000, 5, "RTTs without a queue until the maximum increase is used again"),
        _ = ECN_BETA,
    }
}

impl IllinoisConfig {
    /// Returns the increase in segments per round trip at a queueing delay of `delay`, if `most` is the largest seen.
    /// The curve is a hyperbola from `alpha_max` at `rise_part` of `most` to `alpha_min` at `most`.
    pub(crate) fn rise(&self, delay: f64, most: f64) -> f64 {
        let first = self.rise_part * most;
        if delay <= first {
            return self.alpha_max;
        }
        let range = most - first;
        range * self.alpha_max / (range + (self.alpha_max / self.alpha_min - 1.0) * (delay - first))
    }

    /// Returns the share given up at a loss at that delay, linear between `least_part` and `most_part`.
    pub(crate) fn decrease(&self, delay: f64, most: f64) -> f64 {
        let (low, high) = (self.least_part * most, self.most_part * most);
        if delay <= low {
            self.beta_min
        } else if delay >= high {
            self.beta_max.max(self.beta_min)
        } else {
            self.beta_min + (self.beta_max.max(self.beta_min) - self.beta_min) * (delay - low) / (high - low)
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Illinois {
    config: IllinoisConfig,
    rounds: RoundRtt,
    alpha: f64,
    beta: f64,
    /// Whether there has been a queue since the increase was last largest, and for how many round trips there has
    /// been none.
    above: bool,
    good: u32,
}

impl Illinois {
    pub(crate) const fn new(config: IllinoisConfig) -> Self {
        Self { config, rounds: RoundRtt::new(), alpha: config.alpha_max, beta: RENO.1, above: false, good: 0 }
    }

    /// Sets increase and decrease for the round that begins, from the mean delay of the last round.
    fn judge(&mut self, segments: f64) {
        if segments < self.config.low_window {
            (self.alpha, self.beta) = RENO;
            return;
        }
        let (Some(round), Some(base), Some(max)) = (self.rounds.last(), self.rounds.base(), self.rounds.max()) else {
            return;
        };
        let base = base.as_secs_f64();
        let (delay, most) = ((round.mean() - base).max(0.0), (max.as_secs_f64() - base).max(self.config.floor * base));
        self.rise(delay, most);
        self.beta = self.config.decrease(delay, most);
    }

    fn rise(&mut self, delay: f64, most: f64) {
        if delay > self.config.rise_part * most {
            (self.above, self.good) = (true, 0);
            self.alpha = self.config.rise(delay, most);
            return;
        }
        self.good = self.good.saturating_add(1);
        if !self.above || self.good >= self.config.theta {
            (self.above, self.good) = (false, 0);
            self.alpha = self.config.alpha_max;
        }
    }
}

impl Stage for Illinois {
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.rounds.on_ack(ack);
        true
    }
}

impl CongestionAvoidance for Illinois {
    fn begin(&mut self, handoff: &Handoff, _path: &Path, _window: &mut Window) {
        if handoff.reason == Reason::Timeout {
            (self.alpha, self.beta) = RENO;
            (self.above, self.good) = (false, 0);
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        if ack.round_start {
            self.judge(window.cwnd / path.mss.as_f64());
        }
        additive(window, self.alpha, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, 1.0 - self.beta, path.mss)
    }
}

#[cfg(test)]
mod tests;

//! TCP-Illinois (Liu, Basar, Srikant): losses say when to decrease, delay says by how much and how fast to rise.

use longhaul_units::Bytes;

use super::{ECN_BETA, additive};
use crate::compose::{Cause, Handoff, Reason, Stage, Steady, SteadyStep, Target, Window};
use crate::describe::{Entry, Make, OptionSpec, Rule, Safety, Slot};
use crate::estimate::RoundRtt;
use crate::{Ack, Path};

/// NewReno's, for small windows and after a timeout.
const RENO: (f64, f64) = (1.0, 0.5);

/// The largest queueing delay counts as at least this part of the least round trip: a delay that rises by less is no queue (RFC 9406,
/// section 4.2). Without a queue the largest delay is that of the flow's own bursts, microseconds, and they would rule both curves.
const FLOOR: f64 = 0.125;

/// The law in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "illinois",
    slot: Slot::Steady,
    summary: "10 segments up without a queue, 0.3 with a full one; an eighth to a half down",
    reference: "Liu, Basar, Srikant, TCP-Illinois, Valuetools 2006; Linux",
    options: IllinoisConfig::OPTIONS,
    tested: &[
        "illinois",
        "illinois(low-window=0,alpha-max=100,rise-part=0,least-part=0.5,most-part=0.5,floor=0,theta=1,ecn-beta=0.8)",
    ],
    safety: Safety::Shared,
    make: Make::Steady(|values| Box::new(Illinois::new(IllinoisConfig::from_values(values)))),
};

crate::options! {
    /// TCP-Illinois' constants (Linux, but for `floor`).
    pub struct IllinoisConfig {
        /// Least segments up a round trip.
        alpha_min: f64 = OptionSpec::float("alpha-min", 0.1, 1.0, 0.3, "least segments up a round trip"),
        /// Most segments up a round trip.
        alpha_max: f64 = OptionSpec::float("alpha-max", 1.0, 100.0, 10.0, "most segments up a round trip"),
        /// Least share given up at a loss.
        beta_min: f64 = OptionSpec::float("beta-min", 0.06, 0.5, 0.125, "least share given up at a loss")
            .ruled(&[Rule::AtMost(&["beta-max"])]),
        /// Largest share given up; `beta_min` wins where it is larger.
        beta_max: f64 = OptionSpec::float("beta-max", 0.1, 0.9, 0.5, "largest share given up at a loss"),
        /// Segments below which the law is NewReno's.
        low_window: f64 = OptionSpec::float("low-window", 0.0, 10_000.0, 15.0, "segments below which it is NewReno"),
        /// The part of the largest queueing delay up to which the rise is largest, under 1.
        rise_part: f64 =
            OptionSpec::float("rise-part", 0.0, 0.9, 0.01, "part of the largest delay up to which the rise is largest"),
        /// The part of it up to which the decrease is least.
        least_part: f64 = OptionSpec::float(
            "least-part", 0.0, 1.0, 0.1,
            "part of the largest delay up to which the decrease is least",
        ).ruled(&[Rule::AtMost(&["most-part"])]),
        /// The part of it from which the decrease is largest.
        most_part: f64 = OptionSpec::float(
            "most-part", 0.0, 1.0, 0.8,
            "part of the largest delay from which the decrease is largest",
        ),
        /// The part of the least round trip that the largest queueing delay counts as at least; 0 is Linux.
        floor: f64 = OptionSpec::float(
            "floor", 0.0, 1.0, FLOOR,
            "part of the least round trip that the largest delay counts as at least",
        ),
        /// Round trips in a row without a queue after which the rise is largest again.
        theta: u32 =
            OptionSpec::int("theta", 1, 1000, 5, "round trips without a queue until the rise is largest again"),
        _ = ECN_BETA,
    }
}

impl IllinoisConfig {
    /// Segments up a round trip at a queueing delay of `delay` where `most` is the largest seen: a hyperbola from
    /// `alpha_max` at `rise_part` of that to `alpha_min` at the largest.
    #[must_use]
    pub fn rise(&self, delay: f64, most: f64) -> f64 {
        let first = self.rise_part * most;
        if delay <= first {
            return self.alpha_max;
        }
        let range = most - first;
        range * self.alpha_max / (range + (self.alpha_max / self.alpha_min - 1.0) * (delay - first))
    }

    /// The share given up at a loss at such a delay: linear between `least_part` and `most_part`.
    #[must_use]
    pub fn decrease(&self, delay: f64, most: f64) -> f64 {
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

/// TCP-Illinois' law.
#[derive(Clone, Debug)]
pub struct Illinois {
    config: IllinoisConfig,
    rounds: RoundRtt,
    alpha: f64,
    beta: f64,
    /// Whether there was a queue since the rise was largest, and for how many round trips there has been none.
    above: bool,
    good: u32,
}

impl Illinois {
    /// The law with `config`.
    #[must_use]
    pub const fn new(config: IllinoisConfig) -> Self {
        Self { config, rounds: RoundRtt::new(), alpha: config.alpha_max, beta: RENO.1, above: false, good: 0 }
    }

    /// Decides on the round that begins, by the mean delay of the last.
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

    fn phase(&self) -> &'static str {
        "congestion-avoidance"
    }
}

impl Steady for Illinois {
    fn begin(&mut self, handoff: &Handoff, _path: &Path, _window: &mut Window) {
        if handoff.reason == Reason::Timeout {
            (self.alpha, self.beta) = RENO;
            (self.above, self.good) = (false, 0);
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
        if ack.round_start {
            self.judge(window.cwnd / path.mss.as_f64());
        }
        additive(window, self.alpha, grow, path.mss);
        SteadyStep::Stay
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        Target::multiplicative(cause, 1.0 - self.beta, path.mss)
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;

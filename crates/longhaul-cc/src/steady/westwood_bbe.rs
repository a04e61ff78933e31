//! TCPW-BBE: Westwood whose decrease follows the congestion level, measured by the bottleneck's buffer.

use longhaul_units::{Bytes, Span, math};

use super::additive;
use super::westwood::ECN_BETA;
use crate::compose::{Cause, Handoff, Signal, Stage, Steady, SteadyStep, Target, Window};
use crate::estimate::{AchievedRate, Bandwidth, CongestionLevel};
use crate::registry::{Entry, Make, OptionSpec, Safety, Slot};
use crate::{Ack, Path};

/// What is kept at a loss by congestion: NewReno's half (Gerla et al., PFLDnet 2006, figure 7).
const HALF: f64 = 0.5;
/// The level of a full buffer.
const CONGESTED: f64 = 1.0;

/// The memory of the round trip at congestion, an option of the classifier, too.
pub(crate) const KEEP_CONG: OptionSpec =
    OptionSpec::float("keep", 0.0, 0.99, 0.85, "part of the round trip at congestion kept at a loss");

/// The law in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "westwood-bbe",
    slot: Slot::Steady,
    summary: "NewReno up; at a loss between Westwood and half, by the delay over that of a full buffer",
    reference: "Gerla et al., PFLDnet 2006; Shimonishi, Sanadidi, Gerla (policy reconstructed)",
    options: &[
        OptionSpec::choice(
            "policy",
            &["interpolate", "plain-ere", "adaptive-reno", "discriminate"],
            "what a loss leaves at a given congestion level",
        ),
        OptionSpec::float("threshold", 0.0, 1.0, 0.5, "level from which the policy discriminate halves"),
        OptionSpec::float("delta", 0.0, 100.0, 10.0, "how fast the estimate falls from BE to RE with the level"),
        KEEP_CONG,
        OptionSpec::int("tau", 1, 60_000, 1000, "time constant of BE's filter, ms"),
        OptionSpec::float("keep-re", 0.0, 0.99, 0.9, "part of RE kept a round trip"),
        ECN_BETA,
    ],
    tested: &[
        "westwood-bbe",
        "westwood-bbe(policy=plain-ere,delta=0)",
        "westwood-bbe(policy=adaptive-reno,keep=0)",
        "westwood-bbe(policy=discriminate,threshold=0.1)",
    ],
    safety: Safety::Shared,
    make: Make::Steady(|values| {
        Box::new(WestwoodBbe::new(WestwoodBbeConfig {
            policy: match values.choice("policy") {
                "plain-ere" => Policy::PlainEre,
                "adaptive-reno" => Policy::AdaptiveReno,
                "discriminate" => Policy::Discriminate { threshold: values.float("threshold") },
                _ => Policy::Interpolate,
            },
            delta: values.float("delta"),
            keep: values.float("keep"),
            tau: Span::from_millis(values.int("tau")),
            keep_re: values.float("keep-re"),
            ecn_beta: values.float("ecn-beta"),
        }))
    }),
};

/// What a loss leaves at a congestion level c of a window W, where the estimate fills E.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// `(1 - c) min(W, E) + c W/2`, within W/2 and W: Westwood without congestion, NewReno with a full buffer.
    Interpolate,
    /// `min(W, E)`: cannot halve where the buffer is a small part of the path.
    PlainEre,
    /// `W / (1 + c)`, as [`AdaptiveReno`](super::AdaptiveReno).
    AdaptiveReno,
    /// W/2 from a level on, `min(W, E)` below it.
    Discriminate {
        /// The level.
        threshold: f64,
    },
}

impl Policy {
    /// The window to go on with, in the unit of the others: after a loss at level `c` under a window of `cwnd`, half of
    /// `base` being what congestion would leave, where the estimate fills `eligible`.
    #[must_use]
    pub fn window(self, c: f64, cwnd: f64, base: f64, eligible: f64) -> f64 {
        let (kept, half) = (cwnd.min(eligible), HALF * base);
        match self {
            Self::Interpolate => ((1.0 - c) * kept + c * half).clamp(half.min(cwnd), cwnd),
            Self::PlainEre => kept,
            Self::AdaptiveReno => base / (1.0 + c),
            Self::Discriminate { threshold } if c >= threshold => half,
            Self::Discriminate { .. } => kept,
        }
    }
}

/// The constants of [`WestwoodBbe`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WestwoodBbeConfig {
    /// What a loss leaves.
    pub policy: Policy,
    /// `delta` in the weight `exp(-delta c)` of BE; 10.
    pub delta: f64,
    /// What of the round trip at congestion is kept at a loss, 0 to 1; 0.85.
    pub keep: f64,
    /// The time constant of BE; 1 s.
    pub tau: Span,
    /// What RE keeps a round trip, 0 to 1; 0.9.
    pub keep_re: f64,
    /// What is kept at a mark; 0.5.
    pub ecn_beta: f64,
}

impl Default for WestwoodBbeConfig {
    fn default() -> Self {
        Self {
            policy: Policy::Interpolate,
            delta: 10.0,
            keep: 0.85,
            tau: Span::from_secs(1),
            keep_re: 0.9,
            ecn_beta: 0.5,
        }
    }
}

/// The eligible rate at congestion level `c`: `be` without congestion, quickly `re` with it, `u be + (1 - u) re` with
/// `u = exp(-delta c)`.
#[must_use]
pub fn eligible(be: f64, re: f64, c: f64, delta: f64) -> f64 {
    let u = math::exp(-delta * c);
    u * be + (1.0 - u) * re
}

/// TCPW-BBE's law.
#[derive(Clone, Debug)]
pub struct WestwoodBbe {
    config: WestwoodBbeConfig,
    level: CongestionLevel,
    be: Bandwidth,
    re: AchievedRate,
    rtt_min: Option<Span>,
}

impl WestwoodBbe {
    /// The law with `config`.
    #[must_use]
    pub fn new(config: WestwoodBbeConfig) -> Self {
        Self {
            config,
            level: CongestionLevel::new(config.keep),
            be: Bandwidth::new(config.tau, true),
            re: AchievedRate::new(config.keep_re),
            rtt_min: None,
        }
    }

    /// The bytes that the estimate at level `c` fills without a queue; `None` while nothing is known.
    fn fills(&self, c: f64) -> Option<f64> {
        let rate = eligible(self.be.rate(), self.re.rate(), c, self.config.delta);
        Some(rate * self.rtt_min?.as_secs_f64()).filter(|fills| *fills > 0.0)
    }

    fn target(&self, cause: &Cause, c: f64) -> f64 {
        let fills = self.fills(c).unwrap_or(HALF * cause.base);
        let window = self.config.policy.window(c, cause.cwnd, cause.base, fills);
        if cause.signal == Signal::Ecn {
            return window.min(cause.base).min(self.config.ecn_beta * cause.base);
        }
        let severity = cause.verdict.severity.clamp(0.0, 1.0);
        window + (1.0 - severity) * (cause.cwnd - window).max(0.0)
    }
}

impl Stage for WestwoodBbe {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        let now = ack.rx_time.unwrap_or(ack.now);
        if let Some(sample) = ack.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(sample.rtt, |min| min.min(sample.rtt)));
        }
        self.level.on_ack(ack);
        self.be.on_ack(now, ack.delivered, path.latest_rtt);
        self.re.on_ack(now, ack.delivered, path.latest_rtt);
    }

    fn phase(&self) -> &'static str {
        "congestion-avoidance"
    }
}

impl Steady for WestwoodBbe {
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {}

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
        additive(window, 1.0, grow, path.mss);
        SteadyStep::Stay
    }

    /// A mark or a timeout is congestion beyond doubt. The level is asked before this loss moves it, and moved once an
    /// episode.
    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        let losses = matches!(cause.signal, Signal::Loss | Signal::LossAgain);
        let c = if losses { self.level.level(cause.cwnd / path.mss.as_f64()) } else { CONGESTED };
        if cause.signal == Signal::Loss {
            self.level.on_loss();
        }
        let target = Target::floored(self.target(cause, c), cause.signal, path.mss);
        Target { cwnd: target.cwnd.min(cause.cwnd), ..target }
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;

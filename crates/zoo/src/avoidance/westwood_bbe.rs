//! TCPW-BBE: Westwood with a decrease that follows the congestion level, measured by the delay of the bottleneck's
//! buffer.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, Signal, Stage, Target, Window, additive,
};
use longhaul_cc::internal::CongestionLevel;
use longhaul_cc::internal::{KEEP_CONG, RTT_MIN_WINDOW, expiry};
use longhaul_cc::registry::{Entry, OptionSpec, Rule, Value};
use longhaul_cc::{Ack, Estimate, Needs, Path, Quantity};
use longhaul_units::{Bytes, Span, math};

use super::westwood::{ECN_BETA, keeping};
use crate::estimate::RoundRate;

mod capacity;

use capacity::Capacity;
pub(crate) use capacity::CapacitySource;

/// Fraction of the window kept after a congestion loss, as in NewReno (Gerla et al., PFLDnet 2006, figure 7).
const HALF: f64 = 0.5;
/// Congestion level of a full buffer.
const CONGESTED: f64 = 1.0;

/// The policy `adaptive-reno` uses no estimate, and without `delta` RE is not used.
const ESTIMATED: &[Rule] = &[Rule::Without("policy", Value::Choice("adaptive-reno"))];
const RE: &[Rule] =
    &[Rule::Without("policy", Value::Choice("adaptive-reno")), Rule::Without("delta", Value::Float(0.0))];

pub(crate) static ENTRY: Entry =
    Entry::avoidance("westwood-bbe", |values| Box::new(WestwoodBbe::new(WestwoodBbeConfig::from_values(values))))
        .described(
            "NewReno's increase; decreases between Westwood's and half, by how full the buffer is",
            "Gerla et al., PFLDnet 2006; Shimonishi, Sanadidi, Gerla (policy reconstructed)",
        )
        .with_options(WestwoodBbeConfig::OPTIONS)
        .tested_in(&[
            "westwood-bbe",
            "westwood-bbe(policy=plain-ere,delta=0)",
            "westwood-bbe(policy=adaptive-reno,keep=0)",
            "westwood-bbe(policy=discriminate,threshold=0.1)",
            "westwood-bbe(capacity=pairs)",
            "westwood-bbe(capacity=fused)",
            "westwood-bbe(capacity=pairs,restart=on)",
            "westwood-bbe(rtt-min-window=1)",
        ])
        .internet_safe()
        .keeping_at_losses();

longhaul_cc::options! {
    /// Window after a loss at congestion level c, for a window W and an estimate that fills E.
    pub(crate) enum Policy {
        /// `(1 - c) min(W, E) + c W/2`, within W/2 and W: Westwood without congestion, NewReno with a full buffer.
        Interpolate = "interpolate",
        /// `min(W, E)`: this cannot halve the window if the buffer is small relative to the path.
        PlainEre = "plain-ere",
        /// `W / (1 + c)`, as in [`AdaptiveReno`](super::AdaptiveReno).
        AdaptiveReno = "adaptive-reno",
        /// W/2 if c reaches a threshold, `min(W, E)` below it.
        Discriminate = "discriminate",
    }
}

longhaul_cc::options! {
    pub(crate) struct WestwoodBbeConfig {
        policy: Policy = OptionSpec::choice("policy", Policy::NAMES, "decrease on a loss at a given congestion level"),
        threshold: f64 =
            OptionSpec::float("threshold", 0.0, 1.0, 0.5, "congestion level from which the policy `discriminate` halves")
                .ruled(&[Rule::With("policy", Value::Choice("discriminate"))]),
        delta: f64 =
            OptionSpec::float("delta", 0.0, 100.0, 10.0, "how fast the estimate changes from BE to RE with the congestion level")
                .ruled(ESTIMATED),
        capacity: CapacitySource = OptionSpec::choice(
            "capacity", CapacitySource::NAMES,
            "source of the capacity estimate: ACKs, flipped pairs, or both",
        ).ruled(ESTIMATED),
        restart: bool = OptionSpec::flag("restart", false, "slow start again up to the capacity if packet pairs show an increase")
            .ruled(&[Rule::With("capacity", Value::Choice("pairs"))]),
        keep: f64 = KEEP_CONG,
        tau: Span [Span::from_millis] =
            OptionSpec::int("tau", 1, 60_000, 1000, "time constant of the BE filter, ms").ruled(ESTIMATED),
        keep_re: f64 = OptionSpec::float("keep-re", 0.0, 0.99, 0.9, "weight of the old value in RE, per RTT").ruled(RE),
        rtt_min_window: Span [expiry] = RTT_MIN_WINDOW,
        ecn_beta: f64 = ECN_BETA,
    }
}

/// Returns the eligible rate at congestion level `c`: `u be + (1 - u) re` with `u = exp(-delta c)`. It is `be`
/// without congestion and falls quickly to `re` as the level rises.
pub(crate) fn eligible(be: f64, re: f64, c: f64, delta: f64) -> f64 {
    let u = math::exp(-delta * c);
    u * be + (1.0 - u) * re
}

impl WestwoodBbeConfig {
    /// Returns the window after a loss at level `c` and a window of `cwnd`, if congestion halves `base` and the
    /// estimate fills `eligible`. All windows have the same unit.
    pub(crate) fn window(&self, c: f64, cwnd: f64, base: f64, eligible: f64) -> f64 {
        let (kept, half) = (cwnd.min(eligible), HALF * base);
        match self.policy {
            Policy::Interpolate => ((1.0 - c) * kept + c * half).clamp(half.min(cwnd), cwnd),
            Policy::PlainEre => kept,
            Policy::AdaptiveReno => base / (1.0 + c),
            Policy::Discriminate if c >= self.threshold => half,
            Policy::Discriminate => kept,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct WestwoodBbe {
    config: WestwoodBbeConfig,
    level: CongestionLevel,
    capacity: Capacity,
    rises: u32,
    re: RoundRate,
    /// Congestion level at the last loss, for logs.
    at_loss: Option<f64>,
}

impl WestwoodBbe {
    pub(crate) fn new(config: WestwoodBbeConfig) -> Self {
        Self {
            config,
            level: CongestionLevel::new(config.keep).with_rtt_min_window(config.rtt_min_window),
            capacity: Capacity::new(config.capacity, config.tau),
            rises: 0,
            re: RoundRate::achieved(config.keep_re),
            at_loss: None,
        }
    }

    /// Returns the number of bytes that fill the path without a queue according to the estimate at level `c`, for a
    /// window of `cwnd`; `None` before the first estimate.
    ///
    /// A capacity from pairs depends on the peer's reports. It is therefore limited to cwnd / RTTmin, because a
    /// decrease never keeps more than the current window.
    fn fills(&self, c: f64, cwnd: f64) -> Option<f64> {
        let rtt_min = self.level.rtt_min()?.as_secs_f64();
        let capacity = self.capacity.rate();
        let capacity = if self.capacity.is_hearsay() { capacity.min(cwnd / rtt_min) } else { capacity };
        let rate = eligible(capacity, self.re.rate(), c, self.config.delta);
        Some(rate * rtt_min).filter(|fills| *fills > 0.0)
    }

    fn target(&self, event: &CongestionEvent, c: f64) -> f64 {
        let fills = self.fills(c, event.cwnd).unwrap_or(HALF * event.base);
        let window = self.config.window(c, event.cwnd, event.base, fills);
        if event.signal == Signal::Ecn {
            let most = self.config.ecn_beta * event.base;
            // The other policies keep half of the window at full congestion; after an ECN mark, `ecn-beta` replaces
            // this half.
            return if self.config.policy == Policy::PlainEre { window.min(most) } else { most };
        }
        window
    }
}

impl Stage for WestwoodBbe {
    fn needs(&self) -> Needs {
        self.config.capacity.needs()
    }

    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        self.level.on_ack(ack);
        self.capacity.observe(ack, path);
        self.re.observe(ack, path.latest_rtt);
        true
    }

    fn estimates(&self, tell: &mut dyn FnMut(Estimate)) {
        let capacity = if self.config.capacity == CapacitySource::Be { "be" } else { "capacity" };
        let rates = [Estimate::rate(capacity, self.capacity.rate()), Estimate::rate("re", self.re.rate())];
        rates.into_iter().flatten().for_each(&mut *tell);
        if let Some(level) = self.at_loss {
            tell(Estimate::new("level", Quantity::Number(level)));
        }
        if let Some(gap) = self.level.gap() {
            tell(Estimate::new("buffer", Quantity::Span(Span::from_secs_f64(gap))));
        }
    }
}

impl CongestionAvoidance for WestwoodBbe {
    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        additive(window, 1.0, grow, path.mss);
        if !self.config.restart || self.capacity.rises() == self.rises {
            return AvoidanceStep::Stay;
        }
        self.rises = self.capacity.rises();
        let fills = self.capacity.rate() * self.level.rtt_min().map_or(0.0, Span::as_secs_f64);
        if fills <= window.cwnd {
            return AvoidanceStep::Stay;
        }
        window.ssthresh = fills;
        AvoidanceStep::Grow
    }

    /// An ECN mark or a timeout counts as full congestion. The level is read before this loss updates it, and updated
    /// once per episode.
    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let losses = matches!(event.signal, Signal::Loss | Signal::LossAgain);
        let c = if losses { self.level.level(event.cwnd / path.mss.as_f64()) } else { CONGESTED };
        if event.signal == Signal::Loss {
            self.at_loss = Some(c);
            self.level.on_loss();
        }
        self.capacity.settle();
        self.re.settle();
        keeping(self.target(event, c), event, path.mss)
    }
}

#[cfg(test)]
mod tests;

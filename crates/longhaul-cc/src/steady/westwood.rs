//! TCP Westwood and its kin: at a loss the window becomes what the path was seen to carry, not half.

use longhaul_units::{Bytes, Span};

use super::additive;
use crate::compose::{Cause, Handoff, Reason, Signal, Stage, Steady, SteadyStep, Target, Window};
use crate::estimate::{AchievedRate, Bandwidth, RoundRate};
use crate::registry::{Entry, Make, OptionSpec, Safety, Slot, Values};
use crate::{Ack, Path};

/// What is kept while there is no estimate: NewReno's half.
const BLIND: f64 = 0.5;

pub(super) const ECN_BETA: OptionSpec =
    OptionSpec::float("ecn-beta", 0.1, 0.95, 0.5, "most of the window kept at a mark");
pub(super) const LEAST: OptionSpec = OptionSpec::int("least", 1, 10_000, 50, "least span of a sample, ms");
const TAU: OptionSpec = OptionSpec::int("tau", 1, 60_000, 1000, "time constant of the bandwidth filter, ms");
const SEED: OptionSpec = OptionSpec::flag("seed", true, "start the filter from the first round trip's rate");
const KEEP: OptionSpec = OptionSpec::float("keep", 0.0, 0.99, 0.9, "part of the rate estimate kept a round trip");

/// Westwood with the filtered bandwidth, in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "westwood",
    slot: Slot::Steady,
    summary: "NewReno up; at a loss down to the bandwidth estimate BE times the least round trip",
    reference: "Casetti, Gerla, Mascolo, Sanadidi, Wang, TCP Westwood, MobiCom 2001",
    options: &[TAU, SEED, ECN_BETA],
    tested: &["westwood", "westwood(tau=50,seed=off)"],
    safety: Safety::Shared,
    make: Make::Steady(|values| {
        Box::new(Westwood::new(Eligible::Bandwidth(bandwidth(values)), values.float("ecn-beta")))
    }),
};

/// Westwood RE in the registry.
pub(crate) static RE: Entry = Entry {
    name: "westwood-re",
    slot: Slot::Steady,
    summary: "Westwood with the rate achieved over a round trip, which ACK compression does not raise",
    reference: "Wang, Valla, Sanadidi, Ng, Gerla, Efficiency/Friendliness Tradeoffs in TCP Westwood, ISCC 2002",
    options: &[KEEP, ECN_BETA],
    tested: &["westwood-re", "westwood-re(keep=0)"],
    safety: Safety::Shared,
    make: Make::Steady(|values| {
        let re = AchievedRate::new(values.float("keep"));
        Box::new(Westwood::new(Eligible::Achieved(re), values.float("ecn-beta")))
    }),
};

/// Westwood CRB in the registry.
pub(crate) static CRB: Entry = Entry {
    name: "westwood-crb",
    slot: Slot::Steady,
    summary: "Westwood with RE where the window speaks of congestion, and BE where it does not",
    reference: "Wang, Valla, Sanadidi, Ng, Gerla, Efficiency/Friendliness Tradeoffs in TCP Westwood, ISCC 2002",
    options: &[
        TAU,
        SEED,
        KEEP,
        OptionSpec::float(
            "theta",
            1.0,
            10.0,
            1.4,
            "window over RE x least round trip above which congestion is presumed",
        ),
        ECN_BETA,
    ],
    tested: &["westwood-crb", "westwood-crb(theta=1)"],
    safety: Safety::Shared,
    make: Make::Steady(|values| {
        let (be, re) = (bandwidth(values), AchievedRate::new(values.float("keep")));
        let estimate = Eligible::Combined { be, re, theta: values.float("theta") };
        Box::new(Westwood::new(estimate, values.float("ecn-beta")))
    }),
};

/// Westwood+ in the registry.
pub(crate) static PLUS: Entry = Entry {
    name: "westwood-plus",
    slot: Slot::Steady,
    summary: "Westwood with one bandwidth sample a round trip, smoothed twice",
    reference: "Grieco, Mascolo, CCR 34(2), 2004; Linux",
    options: &[LEAST, ECN_BETA],
    tested: &["westwood-plus", "westwood-plus(least=1)"],
    safety: Safety::Shared,
    make: Make::Steady(|values| {
        let rate = RoundRate::new(Span::from_millis(values.int("least")));
        Box::new(Westwood::new(Eligible::Plus(rate), values.float("ecn-beta")))
    }),
};

fn bandwidth(values: &Values<'_>) -> Bandwidth {
    Bandwidth::new(Span::from_millis(values.int("tau")), values.flag("seed"))
}

/// Which rate a loss leaves a window for.
#[derive(Clone, Copy, Debug)]
pub enum Eligible {
    /// BE: Westwood as first published.
    Bandwidth(Bandwidth),
    /// RE: Westwood RE.
    Achieved(AchievedRate),
    /// Westwood CRB: RE if the window exceeds `theta` times what RE fills without a queue, BE if not.
    Combined {
        /// The filtered bandwidth.
        be: Bandwidth,
        /// The achieved rate.
        re: AchievedRate,
        /// The ratio above which a queue, and so congestion, is presumed.
        theta: f64,
    },
    /// Westwood+.
    Plus(RoundRate),
}

impl Eligible {
    fn on_ack(&mut self, ack: &Ack<'_>, rtt: Option<Span>) {
        let now = ack.rx_time.unwrap_or(ack.now);
        match self {
            Self::Bandwidth(be) => be.on_ack(now, ack.delivered, rtt),
            Self::Achieved(re) => re.on_ack(now, ack.delivered, rtt),
            Self::Combined { be, re, .. } => {
                be.on_ack(now, ack.delivered, rtt);
                re.on_ack(now, ack.delivered, rtt);
            }
            Self::Plus(rate) => rate.on_ack(now, ack.delivered, rtt),
        }
    }

    /// The window in bytes that fills the path without a queue, where `cwnd` bytes were allowed and `rtt_min` seconds is
    /// the least round trip; zero if nothing is known.
    fn window(&self, cwnd: f64, rtt_min: f64) -> f64 {
        match self {
            Self::Bandwidth(be) => be.rate() * rtt_min,
            Self::Achieved(re) => re.rate() * rtt_min,
            Self::Combined { be, re, theta } => {
                let achieved = re.rate() * rtt_min;
                if cwnd > theta * achieved { achieved } else { be.rate() * rtt_min }
            }
            Self::Plus(rate) => rate.rate() * rtt_min,
        }
    }

    /// Whether a timeout may mean another path, so that the least round trip is learnt anew (Westwood+ in Linux).
    const fn relearns(&self) -> bool {
        matches!(self, Self::Plus(_))
    }
}

/// Westwood's law over one of its estimates.
#[derive(Clone, Debug)]
pub struct Westwood {
    eligible: Eligible,
    ecn_beta: f64,
    rtt_min: Option<Span>,
}

impl Westwood {
    /// The law over `eligible`, which keeps at most `ecn_beta` of the window at a mark.
    #[must_use]
    pub const fn new(eligible: Eligible, ecn_beta: f64) -> Self {
        Self { eligible, ecn_beta, rtt_min: None }
    }

    /// The window to go on with after `cause`, bytes. A mark is congestion without a doubt, so that an estimate above
    /// the window is no reason to ignore it (RFC 3168, section 5).
    fn target(&self, cause: &Cause) -> f64 {
        let rtt_min = self.rtt_min.map_or(0.0, Span::as_secs_f64);
        let eligible = self.eligible.window(cause.cwnd, rtt_min);
        let eligible = if eligible > 0.0 { eligible } else { BLIND * cause.base };
        if cause.signal == Signal::Ecn {
            return eligible.min(self.ecn_beta * cause.base);
        }
        let severity = cause.verdict.severity.clamp(0.0, 1.0);
        eligible + (1.0 - severity) * (cause.cwnd - eligible).max(0.0)
    }
}

impl Stage for Westwood {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        if let Some(sample) = ack.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(sample.rtt, |min| min.min(sample.rtt)));
        }
        self.eligible.on_ack(ack, path.latest_rtt);
    }

    fn phase(&self) -> &'static str {
        "congestion-avoidance"
    }
}

impl Steady for Westwood {
    fn begin(&mut self, handoff: &Handoff, path: &Path, _window: &mut Window) {
        if handoff.reason == Reason::Timeout && self.eligible.relearns() {
            self.rtt_min = path.latest_rtt;
        }
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
        additive(window, 1.0, grow, path.mss);
        SteadyStep::Stay
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        let target = Target::floored(self.target(cause), cause.signal, path.mss);
        Target { cwnd: target.cwnd.min(cause.cwnd), ..target }
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;

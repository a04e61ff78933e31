//! TCP Westwood ABSE: at a loss down to what an estimate fills that adapts to congestion; and PNCD, which finds out that there
//! has been none for long.

use longhaul_units::{Bytes, Span};

use super::additive;
use super::westwood::ECN_BETA;
use crate::compose::{Cause, Handoff, Signal, Stage, Steady, SteadyStep, Target, Window};
use crate::estimate::eligible_rate::MOST_RECENT;
use crate::estimate::{EligibleRate, EligibleRateConfig};
use crate::registry::{Entry, Make, OptionSpec, Safety, Slot, Values};
use crate::{Ack, Path};

/// What is kept while there is no estimate: NewReno's half.
const BLIND: f64 = 0.5;
/// Segments that the rate expected now is short of the window's (an implementation of Agile Probing).
const SLACK: f64 = 1.5;
/// Round trips after a decrease in which nothing is concluded (an implementation of Agile Probing).
const QUIET_ROUNDS: u32 = 2;

/// The estimate's options, which the start-ups have, too.
pub(crate) const EPSILON: OptionSpec =
    OptionSpec::float("epsilon", 0.0, 0.99, 0.6, "part of the filtered throughput kept at an ACK");
pub(crate) const BETA: OptionSpec =
    OptionSpec::float("beta", 0.0, 0.99, 0.6, "part of the average change of samples kept at an ACK");
pub(crate) const N: OptionSpec =
    OptionSpec::float("n", 0.0, 100.0, 10.0, "round trips that the filter slows down by while samples change");
pub(crate) const RECENT: OptionSpec =
    OptionSpec::int("recent", 1, MOST_RECENT as u64, 10, "average changes that the largest is taken from");
pub(crate) const FLOOR: OptionSpec = OptionSpec::int("floor", 1, 100_000, 1000, "least window of a sample, us");

/// The estimate that these options describe.
pub(crate) fn eligible_rate(values: &Values<'_>) -> EligibleRate {
    EligibleRate::new(EligibleRateConfig {
        epsilon: values.float("epsilon"),
        beta: values.float("beta"),
        n: values.float("n"),
        recent: usize::try_from(values.int("recent")).unwrap_or(MOST_RECENT),
        floor: Span::from_micros(values.int("floor")),
    })
}

/// The law in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "abse",
    slot: Slot::Steady,
    summary: "Westwood with an estimate between bandwidth and achieved rate, chosen by the congestion",
    reference: "Wang, Valla, Sanadidi, Gerla, Adaptive bandwidth share estimation in TCP Westwood, Globecom 2002",
    options: &[
        EPSILON,
        BETA,
        N,
        RECENT,
        FLOOR,
        OptionSpec::flag("pncd", false, "ask for quick growth when there has been no congestion for long"),
        OptionSpec::float("expected", 0.0, 1.0, 0.6, "weight of the rate expected now in what pncd compares with"),
        ECN_BETA,
    ],
    tested: &["abse", "tcpw-a", "abse(n=0,epsilon=0,recent=1,floor=100000)", "slow-start+abse(pncd=on,expected=0)"],
    safety: Safety::Shared,
    make: Make::Steady(|values| {
        let pncd = values.flag("pncd").then(|| Pncd::new(values.float("expected")));
        Box::new(Abse::new(eligible_rate(values), pncd, values.float("ecn-beta")))
    }),
};

/// ABSE's law.
#[derive(Clone, Debug)]
pub struct Abse {
    estimate: EligibleRate,
    pncd: Option<Pncd>,
    ecn_beta: f64,
}

impl Abse {
    /// The law over `estimate`, which asks for quick growth as `pncd` says and keeps at most `ecn_beta` of the window at a
    /// mark.
    #[must_use]
    pub const fn new(estimate: EligibleRate, pncd: Option<Pncd>, ecn_beta: f64) -> Self {
        Self { estimate, pncd, ecn_beta }
    }

    /// The window to go on with after `cause`, bytes. A mark is congestion without a doubt.
    fn target(&self, cause: &Cause) -> f64 {
        let fills = self.estimate.fills();
        let eligible = if fills > 0.0 { fills } else { BLIND * cause.base };
        if cause.signal == Signal::Ecn {
            return eligible.min(self.ecn_beta * cause.base);
        }
        let severity = cause.verdict.severity.clamp(0.0, 1.0);
        eligible + (1.0 - severity) * (cause.cwnd - eligible).max(0.0)
    }
}

impl Stage for Abse {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        let now = ack.rx_time.unwrap_or(ack.now);
        self.estimate.on_ack(now, ack.delivered, ack.prior_in_flight, path.latest_rtt);
    }

    fn phase(&self) -> &'static str {
        "congestion-avoidance"
    }
}

impl Steady for Abse {
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {
        if let Some(pncd) = &mut self.pncd {
            pncd.begin();
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
        additive(window, 1.0, grow, path.mss);
        let Some(pncd) = &mut self.pncd else {
            return SteadyStep::Stay;
        };
        let filled = self.estimate.throughput() * path.min_rtt.map_or(0.0, Span::as_secs_f64);
        if pncd.on_ack(ack, filled, window, path.mss) { SteadyStep::Grow } else { SteadyStep::Stay }
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        let target = Target::floored(self.target(cause), cause.signal, path.mss);
        Target { cwnd: target.cwnd.min(cause.cwnd), ..target }
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

/// Persistent non-congestion detection (Wang, Yamada, Sanadidi, Gerla, TCP with sender-side intelligence to handle dynamic,
/// large, leaky pipes, JSAC 23(2), 2005; form and constants of an implementation).
///
/// While there is no congestion the achieved rate follows the window up. It is compared with a bound between the rate that the
/// threshold promised and the one that the window does now, all as windows over the least round trip:
///
/// ```text
/// RE RTTmin > expected (cwnd - 1.5) + (1 - expected) ssthresh
/// ```
///
/// Segments of ACKs for which that is so count up, others down. More than a window of them is persistent non-congestion.
#[derive(Clone, Copy, Debug)]
pub struct Pncd {
    expected: f64,
    rounds: u32,
    /// Segments.
    count: f64,
}

impl Pncd {
    /// A detection whose bound has the weight `expected` (0 to 1) on the rate expected now.
    #[must_use]
    pub const fn new(expected: f64) -> Self {
        Self { expected, rounds: 0, count: 0.0 }
    }

    /// Congestion avoidance begins.
    pub const fn begin(&mut self) {
        (self.rounds, self.count) = (0, 0.0);
    }

    /// An ACK came while the achieved rate times the least round trip was `filled` bytes. Returns whether there has been no
    /// congestion for long, once.
    pub fn on_ack(&mut self, ack: &Ack<'_>, filled: f64, window: &Window, mss: Bytes) -> bool {
        self.rounds = self.rounds.saturating_add(u32::from(ack.round_start));
        if self.rounds < QUIET_ROUNDS {
            self.count = 0.0;
            return false;
        }
        let now = window.cwnd - SLACK * mss.as_f64();
        let bound = self.expected * now + (1.0 - self.expected) * window.ssthresh.min(window.cwnd);
        let segments = ack.delivered.segments(mss);
        let step = if ack.cwnd_limited && filled > bound { segments } else { -segments };
        self.count = (self.count + step).max(0.0);
        let found = self.count > window.cwnd / mss.as_f64();
        if found {
            self.begin();
        }
        found
    }
}

#[cfg(test)]
mod tests;

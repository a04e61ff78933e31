//! BIC TCP (Xu, Harfoush, Rhee): a binary search for the window at which the last loss came.

use longhaul_units::Bytes;

use super::{ECN_BETA, additive};
use crate::compose::{Cause, Handoff, Reason, Stage, Steady, SteadyStep, Target, Window};
use crate::describe::{Entry, Make, OptionSpec, Rule, Safety, Slot};
use crate::{Ack, Path};

/// What is kept below the low window: NewReno's half.
const LOW_BETA: f64 = 0.5;

/// The law in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "bic",
    slot: Slot::Steady,
    summary: "a binary search towards the window of the last loss, and probing beyond",
    reference: "Xu, Harfoush, Rhee, Binary Increase Congestion Control, Infocom 2004; constants of Linux 2.6",
    options: BicConfig::OPTIONS,
    tested: &["bic", "bic(fast-convergence=off,low-window=0,beta=0.875,s-max=32,searchless=1,ecn-beta=0.9)"],
    safety: Safety::Shared,
    make: Make::Steady(|values| Box::new(Bic::new(BicConfig::from_values(values)))),
};

crate::options! {
    /// BIC's constants. The defaults are those of Linux 2.6; the paper has 32 for `s_max` and 0.875 for `beta`.
    pub struct BicConfig {
        /// Share of the window kept at a loss.
        beta: f64 = OptionSpec::float("beta", 0.1, 0.9, 819.0 / 1024.0, "share of the window kept at a loss"),
        /// Most segments up in a round trip.
        s_max: f64 = OptionSpec::float("s-max", 1.0, 1000.0, 16.0, "most segments up a round trip"),
        /// The search closes `1 / b` of the gap in a round trip.
        b: f64 = OptionSpec::float("b", 2.0, 64.0, 4.0, "part of the gap that a round trip closes: 1/b")
            .ruled(&[Rule::AtMost(&["s-max", "smooth-part"])]),
        /// Round trips that the rise by `b` segments takes around the last loss's window.
        smooth_part: f64 = OptionSpec::float(
            "smooth-part", 1.0, 1000.0, 20.0,
            "round trips it takes to rise by b segments at the last window",
        ),
        /// Segments up to which the law is NewReno's.
        low_window: f64 = OptionSpec::float("low-window", 0.0, 10_000.0, 14.0, "segments up to which it is NewReno"),
        /// Before any loss the window rises by at least a segment for so many acknowledged.
        searchless: f64 = OptionSpec::float(
            "searchless", 1.0, 1000.0, 20.0,
            "segments acknowledged for one up before any loss, at most",
        ),
        /// Whether a shrinking share lowers the search's goal.
        fast_convergence: bool = OptionSpec::flag("fast-convergence", true, "release bandwidth to newcomers"),
        _ = ECN_BETA,
    }
}

impl BicConfig {
    /// By how many segments a window of `w` segments rises in a round trip, where the last loss came at `last` segments;
    /// zero stands for no loss yet.
    #[must_use]
    pub fn increase(&self, w: f64, last: f64) -> f64 {
        let raised = if w <= self.low_window {
            1.0
        } else if w < last {
            self.search((last - w) / self.b)
        } else {
            self.probe(w - last)
        };
        if last == 0.0 { raised.max(w / self.searchless) } else { raised }
    }

    /// Below the last window, `step` of a `b`-th of the gap away.
    fn search(&self, step: f64) -> f64 {
        if step > 1.0 { step.min(self.s_max) } else { self.b / self.smooth_part }
    }

    /// `beyond` segments above the last window: slowly at first, then faster and faster.
    fn probe(&self, beyond: f64) -> f64 {
        if beyond < self.b {
            self.b / self.smooth_part
        } else if beyond < self.s_max * (self.b - 1.0) {
            beyond / (self.b - 1.0)
        } else {
            self.s_max
        }
    }
}

/// BIC's law.
#[derive(Clone, Debug)]
pub struct Bic {
    config: BicConfig,
    /// The window at the last loss in bytes, less under fast convergence; zero before the first.
    last: f64,
}

impl Bic {
    /// The law with `config`.
    #[must_use]
    pub const fn new(config: BicConfig) -> Self {
        Self { config, last: 0.0 }
    }
}

impl Stage for Bic {
    fn phase(&self) -> &'static str {
        "congestion-avoidance"
    }
}

impl Steady for Bic {
    /// After a timeout the search starts without a goal (Linux 2.6).
    fn begin(&mut self, handoff: &Handoff, _path: &Path, _window: &mut Window) {
        if handoff.reason == Reason::Timeout {
            self.last = 0.0;
        }
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
        let mss = path.mss.as_f64();
        let raised = self.config.increase(window.cwnd / mss, self.last / mss);
        additive(window, raised, grow, path.mss);
        SteadyStep::Stay
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        let config = &self.config;
        let fast = config.fast_convergence && cause.cwnd < self.last;
        self.last = if fast { cause.cwnd * (1.0 + config.beta) / 2.0 } else { cause.cwnd };
        let low = cause.base <= config.low_window * path.mss.as_f64();
        Target::multiplicative(cause, if low { LOW_BETA } else { config.beta }, path.mss)
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;

//! BIC TCP (Xu, Harfoush, Rhee): binary search for the window at which the last loss occurred.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Handoff, Reason, Stage, Target, Window, additive,
};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

/// Window in segments up to which NewReno is used (Linux 2.6), and the fraction of it that is kept after a loss.
const LOW_WINDOW: f64 = 14.0;
const LOW_BETA: f64 = 0.5;
/// Divisor of the gap that is closed per round trip (Linux 2.6).
const B: f64 = 4.0;
/// Number of round trips to increase by [`B`] segments at the last maximum (Linux 2.6).
const SMOOTH_PART: f64 = 20.0;

pub(crate) static ENTRY: Entry = Entry::avoidance("bic", |values| Box::new(Bic::from_values(values)))
    .described(
        "binary search towards the window of the last loss, then probing beyond it",
        "Xu, Harfoush, Rhee, Binary Increase Congestion Control, Infocom 2004; constants of Linux 2.6",
    )
    .with_options(Bic::OPTIONS)
    .tested_in(&["bic", "bic(fast-convergence=off,beta=0.875,s-max=32,searchless=1,ecn-beta=0.9)"])
    .internet_safe();

longhaul_cc::options! {
    /// BIC. The defaults are those of Linux 2.6; the paper has 32 for `s_max` and 0.875 for `beta`.
    pub(crate) struct Bic {
        beta: f64 = OptionSpec::float("beta", 0.1, 0.9, 819.0 / 1024.0, "fraction of the window kept on a loss"),
        s_max: f64 = OptionSpec::float("s-max", 1.0, 1000.0, 16.0, "maximum increase per RTT, segments"),
        /// Before the first loss, the window grows by at least one segment per this many acknowledged segments.
        searchless: f64 = OptionSpec::float(
            "searchless", 1.0, 1000.0, 20.0,
            "maximum segments acknowledged per segment of increase before the first loss",
        ),
        fast_convergence: bool = OptionSpec::flag("fast-convergence", true, "release bandwidth to new flows"),
        /// Window at the last loss in bytes, or less under fast convergence; zero before the first loss.
        last: f64 => 0.0,
        _ = ECN_BETA,
    }
}

impl Bic {
    /// Returns the increase in segments per round trip of a window of `w` segments, if the last loss occurred at
    /// `last` segments. A `last` of zero means that there was no loss yet.
    pub(crate) fn increase(&self, w: f64, last: f64) -> f64 {
        let raised = if w <= LOW_WINDOW {
            1.0
        } else if w < last {
            self.search((last - w) / B)
        } else {
            self.probe(w - last)
        };
        if last == 0.0 { raised.max(w / self.searchless) } else { raised }
    }

    /// Returns the increase below the last window, where `step` is `1 / b` of the gap.
    fn search(&self, step: f64) -> f64 {
        if step > 1.0 { step.min(self.s_max) } else { B / SMOOTH_PART }
    }

    /// Returns the increase `beyond` segments above the last window: small at first, then growing with the distance.
    fn probe(&self, beyond: f64) -> f64 {
        if beyond < B {
            B / SMOOTH_PART
        } else if beyond < self.s_max * (B - 1.0) {
            beyond / (B - 1.0)
        } else {
            self.s_max
        }
    }
}

impl Stage for Bic {}

impl CongestionAvoidance for Bic {
    /// After a timeout, the search starts without a target (Linux 2.6).
    fn begin(&mut self, handoff: &Handoff, _path: &Path, _window: &mut Window) {
        if handoff.reason == Reason::Timeout {
            self.last = 0.0;
        }
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        let mss = path.mss.as_f64();
        let raised = self.increase(window.cwnd / mss, self.last / mss);
        additive(window, raised, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let fast = self.fast_convergence && event.cwnd < self.last;
        self.last = if fast { event.cwnd * (1.0 + self.beta) / 2.0 } else { event.cwnd };
        let low = event.base <= LOW_WINDOW * path.mss.as_f64();
        Target::multiplicative(event, if low { LOW_BETA } else { self.beta }, path.mss)
    }
}

#[cfg(test)]
mod tests;

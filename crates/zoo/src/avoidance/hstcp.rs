//! HighSpeed TCP (RFC 3649): the larger the window, the larger the increase and the smaller the decrease.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Stage, Target, Window, additive,
};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path};
use longhaul_units::{Bytes, math};

/// `High_Window` in segments (RFC 3649, section 5).
const HIGH_WINDOW: f64 = 83_000.0;
/// Factor of the response function `p(w) = RESPONSE / w^1.2`. RFC 3649, section 5, prints 0.078, but the program in
/// its appendix B, which generated the table, has 1 / 12.8.
const RESPONSE: f64 = 1.0 / 12.8;
const RESPONSE_EXPONENT: f64 = 1.2;
/// Smallest decrease: the last row of the table in RFC 3649. The formula falls further and is negative above about
/// 567,000 segments.
const LEAST_DECREASE: f64 = 0.09;
/// Relative change of the window after which its increase is recomputed. The computation takes a power and a
/// logarithm, and a change of this size alters the increase by less than a thousandth.
const STALE: f64 = 1.0 / 1024.0;

pub(crate) static ENTRY: Entry = Entry::avoidance("hstcp", |values| Box::new(Hstcp::from_values(values)))
    .described("NewReno up to 38 segments; above, a larger window increases faster and decreases less", "RFC 3649")
    .with_options(Hstcp::OPTIONS)
    .tested_in(&[
        "hstcp",
        "hstcp(low-window=2,high-decrease=0.5,ecn-beta=0.8)",
        "swift-start+hstcp",
        "swift-start-hardened+hstcp",
    ]);

longhaul_cc::options! {
    /// HighSpeed TCP congestion avoidance, computed instead of looked up in the RFC's table.
    pub(crate) struct Hstcp {
        /// `Low_Window`: window in segments up to which the algorithm is NewReno.
        low_window: f64 = OptionSpec::float("low-window", 2.0, 10_000.0, 38.0, "window up to which NewReno is used, segments"),
        /// `High_Decrease`: fraction by which a loss reduces a window of 83,000 segments.
        high_decrease: f64 =
            OptionSpec::float("high-decrease", 0.01, 0.5, 0.1, "decrease on a loss at a window of 83,000 segments"),
        /// Window in segments for which `computed` is the increase.
        computed_for: f64 => 0.0,
        computed: f64 => 1.0,
        _ = ECN_BETA,
    }
}

impl Hstcp {
    /// Returns `b(w)`: the fraction by which a loss reduces a window of `w` segments (RFC 3649, section 5).
    pub(crate) fn decrease(&self, w: f64) -> f64 {
        if w <= self.low_window {
            return 0.5;
        }
        let way = math::ln(w / self.low_window) / math::ln(HIGH_WINDOW / self.low_window);
        (0.5 + (self.high_decrease - 0.5) * way).clamp(self.high_decrease.min(LEAST_DECREASE), 0.5)
    }

    /// Returns `a(w)`: the increase in segments per round trip of a window of `w` segments (RFC 3649, section 5). It
    /// is at least NewReno's one segment; the formula yields less just above `low_window`.
    pub(crate) fn increase(&self, w: f64) -> f64 {
        if w <= self.low_window { 1.0 } else { self.formula(w).max(1.0) }
    }

    fn cached_increase(&mut self, w: f64) -> f64 {
        if (w - self.computed_for).abs() > STALE * w {
            (self.computed_for, self.computed) = (w, self.increase(w));
        }
        self.computed
    }

    fn formula(&self, w: f64) -> f64 {
        let b = self.decrease(w);
        let p = RESPONSE / math::pow(w, RESPONSE_EXPONENT);
        w * w * p * 2.0 * b / (2.0 - b)
    }
}

impl Stage for Hstcp {}

impl CongestionAvoidance for Hstcp {
    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        let a = self.cached_increase(window.cwnd / path.mss.as_f64());
        additive(window, a, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let b = self.decrease(event.base / path.mss.as_f64());
        Target::multiplicative(event, 1.0 - b, path.mss)
    }
}

#[cfg(test)]
mod tests;

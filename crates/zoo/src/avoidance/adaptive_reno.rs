//! TCP Adaptive Reno (Shimonishi, Murase): the congestion level sets both the probing increase and the decrease.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Handoff, Signal, Stage, Target, Window,
};
use longhaul_cc::internal::CongestionLevel;
use longhaul_cc::internal::{RTT_MIN_WINDOW, expiry};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path};
use longhaul_units::{Bytes, Span, math};

use crate::estimate::{Bandwidth, BandwidthStart};

/// Alpha, which sets how quickly the increase falls with the congestion level (the value of ports to other systems).
const ALPHA: f64 = 10.0;
/// Time constant of the bandwidth filter.
const TAU: Span = Span::from_secs(1);

pub(crate) static ENTRY: Entry =
    Entry::avoidance("adaptive-reno", |values| Box::new(AdaptiveReno::from_values(values)))
        .described(
            "NewReno plus probing that depends on the congestion level c; decreases to W / (1 + c)",
            "Shimonishi, Murase, Improving efficiency-friendliness tradeoffs of TCP, Globecom 2005; ns-3 ports",
        )
        .with_options(AdaptiveReno::OPTIONS)
        .tested_in(&["adaptive-reno", "adaptive-reno(per-segment=0.1,keep=0,ecn-beta=0.8,rtt-min-window=1)"])
        .internet_safe()
        .keeping_at_losses();

longhaul_cc::options! {
    pub(crate) struct AdaptiveReno {
        /// Capacity in bytes/s per segment of the largest increase.
        per_segment: f64 [|megabits: f64| megabits * 1e6 / 8.0] = OptionSpec::float(
            "per-segment", 0.1, 10_000.0, 10.0,
            "capacity per segment of maximum increase, Mb/s",
        ),
        keep: f64 = OptionSpec::float("keep", 0.0, 0.99, 0.85, "weight of the old value in the average RTT at losses"),
        rtt_min_window: Span [expiry] = RTT_MIN_WINDOW,
        capacity: Bandwidth => Bandwidth::new(TAU, BandwidthStart::Rise),
        level: CongestionLevel => CongestionLevel::new(keep).with_rtt_min_window(rtt_min_window),
        /// Part of the window that probing has added, in bytes.
        probe: f64 => 0.0,
        /// Increase of this round trip in segments.
        rise: f64 => 1.0,
        _ = ECN_BETA,
    }
}

/// Returns the increase in segments per round trip at the congestion level `c`, with a scale of `most` segments:
/// about `1 + 0.8 most` on an idle path, one at `c = 1`, and one on average over all levels. `alpha`, which has to be
/// positive, sets how quickly it falls.
pub(crate) fn increase(c: f64, most: f64, alpha: f64) -> f64 {
    let (inverse, exp) = (1.0 / alpha, math::exp(-alpha));
    let slope = 2.0 * most * (inverse - (inverse + 1.0) * exp);
    let level = 1.0 - 2.0 * most * (inverse - (inverse + 0.5) * exp);
    most * math::exp(-alpha * c) + slope * c + level
}

impl Stage for AdaptiveReno {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        self.level.on_ack(ack);
        self.capacity.observe(ack, path.latest_rtt);
        true
    }
}

impl CongestionAvoidance for AdaptiveReno {
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {
        (self.probe, self.rise) = (0.0, 1.0);
    }

    /// The base window grows as in NewReno, and the probing window by the rest of the increase, which may be negative;
    /// the probing window does not fall below zero. The increase is computed once per round trip.
    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        let mss = path.mss.as_f64();
        let share = (grow.as_f64() / window.cwnd).min(1.0) * mss;
        if ack.round_start {
            let c = self.level.level(window.cwnd / mss);
            self.rise = increase(c, self.capacity.rate() / self.per_segment, ALPHA);
        }
        let probe = (self.probe + share * (self.rise - 1.0)).max(0.0);
        window.cwnd = (window.cwnd + share + probe - self.probe).max(mss);
        self.probe = probe;
        AvoidanceStep::Stay
    }

    /// An ECN mark or a timeout counts as full congestion.
    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let losses = matches!(event.signal, Signal::Loss | Signal::LossAgain);
        let c = if losses { self.level.level(event.cwnd / path.mss.as_f64()) } else { 1.0 };
        if event.signal == Signal::Loss {
            self.level.on_loss();
        }
        self.capacity.settle();
        self.probe = 0.0;
        Target::multiplicative(event, 1.0 / (1.0 + c), path.mss)
    }
}

#[cfg(test)]
mod tests;

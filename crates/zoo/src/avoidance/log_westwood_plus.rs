//! LogWestwood+ (Kliazovich, Granelli, Miorandi): Westwood+ with a logarithmic growth back to the last maximum window.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, Handoff, Stage, Target, Window, additive,
};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Episode, Path};
use longhaul_units::Bytes;

use super::westwood::{PlusOptions, Westwood};

/// Bounds of a dynamic alpha; the lower one is that of one implementation.
const LEAST_ALPHA: f64 = 0.01;
const MOST_ALPHA: f64 = 1000.0;

pub(crate) static ENTRY: Entry = Entry::avoidance("log-westwood-plus", |values| {
    Box::new(LogWestwoodPlus::from_values(values))
})
.described(
    "Westwood+ that closes half of the gap to the last maximum per RTT",
    "Kliazovich, Granelli, Miorandi, Logarithmic window increase for TCP Westwood+, Computer Networks 52(12), 2008",
)
.with_options(LogWestwoodPlus::OPTIONS)
.tested_in(&["log-westwood-plus", "log-westwood-plus(alpha=1,rtt=smoothed)", "log-westwood-plus(dynamic=on)"])
.keeping_at_losses();

longhaul_cc::options! {
    /// Westwood+'s decrease, and an increase that closes `1 / alpha` of the gap to the last maximum per round trip.
    ///
    /// A `dynamic` alpha starts from the given value, and again after each loss and each period of reordering. It is
    /// halved per segment of window increase, down to 0.01, and doubled by each ACK for a segment behind a hole.
    pub(crate) struct LogWestwoodPlus {
        start: f64 = OptionSpec::float("alpha", 1.0, MOST_ALPHA, 2.0, "divisor of the gap that is closed per RTT"),
        dynamic: bool = OptionSpec::flag(
            "dynamic", false,
            "halve alpha per segment of increase, double it during reordering",
        ),
        plus: PlusOptions,
        westwood: Westwood => plus.build(),
        alpha: f64 => start,
        /// Increase in segments since alpha was last halved.
        grown: f64 => 0.0,
        /// Whether segments arrive out of order.
        disorder: bool => false,
        /// Window at the last loss in bytes; zero before the first.
        w_max: f64 => 0.0,
    }
}

impl LogWestwoodPlus {
    const fn reset_alpha(&mut self) {
        (self.alpha, self.grown, self.disorder) = (self.start, 0.0, false);
    }

    /// If more was delivered than the cumulative ACK advanced by, there is a hole. When the hole closes, alpha is
    /// reset.
    fn on_order(&mut self, ack: &Ack<'_>) {
        if !self.dynamic || ack.episode != Episode::None {
            return;
        }
        if ack.delivered > ack.cumulative {
            self.disorder = true;
            self.alpha = (2.0 * self.alpha).min(MOST_ALPHA);
        } else if self.disorder && ack.cumulative > Bytes::ZERO {
            self.reset_alpha();
        }
    }

    fn on_growth(&mut self, segments: f64) {
        if !self.dynamic || self.disorder {
            return;
        }
        self.grown += segments;
        while self.grown >= 1.0 && self.alpha > LEAST_ALPHA {
            self.grown -= 1.0;
            self.alpha = (0.5 * self.alpha).max(LEAST_ALPHA);
        }
    }
}

impl Stage for LogWestwoodPlus {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        self.on_order(ack);
        self.westwood.observe(ack, path);
        true
    }
}

impl CongestionAvoidance for LogWestwoodPlus {
    fn begin(&mut self, handoff: &Handoff, path: &Path, window: &mut Window) {
        self.reset_alpha();
        self.westwood.begin(handoff, path, window);
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        let (per_byte, before) = (1.0 / path.mss.as_f64(), window.cwnd);
        let gap = (self.w_max - before) * per_byte;
        // The increase is at most that of slow start.
        let rise = (gap / self.alpha).max(1.0).min(before * per_byte);
        additive(window, rise, grow, path.mss);
        self.on_growth((window.cwnd - before) * per_byte);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        self.w_max = event.cwnd;
        self.westwood.reduce(event, path)
    }
}

#[cfg(test)]
mod tests;

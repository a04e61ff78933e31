//! LogWestwood+ (Kliazovich, Granelli, Miorandi): Westwood+ that returns to its last maximum logarithmically.

use longhaul_units::{Bytes, Span};

use super::additive;
use super::westwood::{ECN_BETA, Eligible, LEAST, Westwood};
use crate::compose::{Cause, Handoff, Stage, Steady, SteadyStep, Target, Window};
use crate::estimate::RoundRate;
use crate::registry::{Entry, Make, OptionSpec, Safety, Slot};
use crate::{Ack, Path};

/// The law in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "log-westwood-plus",
    slot: Slot::Steady,
    summary: "Westwood+ that closes half of the gap to the last maximum each round trip",
    reference: "Kliazovich, Granelli, Miorandi, Logarithmic window increase for TCP Westwood+, Computer Networks 52(12), 2008",
    options: &[
        OptionSpec::float("alpha", 1.0, 1000.0, 2.0, "part of the gap that a round trip closes: 1/alpha"),
        LEAST,
        ECN_BETA,
    ],
    tested: &["log-westwood-plus", "log-westwood-plus(alpha=1,least=1)"],
    safety: Safety::Shared,
    make: Make::Steady(|values| {
        let rate = RoundRate::new(Span::from_millis(values.int("least")));
        let westwood = Westwood::new(Eligible::Plus(rate), values.float("ecn-beta"));
        Box::new(LogWestwoodPlus::new(westwood, values.float("alpha")))
    }),
};

/// LogWestwood+'s law.
#[derive(Clone, Debug)]
pub struct LogWestwoodPlus {
    westwood: Westwood,
    alpha: f64,
    /// The window at the last loss, bytes; zero before the first.
    w_max: f64,
}

impl LogWestwoodPlus {
    /// The decrease of `westwood`, and an increase that closes `1 / alpha` of the gap to the last maximum a round trip.
    #[must_use]
    pub const fn new(westwood: Westwood, alpha: f64) -> Self {
        Self { westwood, alpha, w_max: 0.0 }
    }
}

impl Stage for LogWestwoodPlus {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        self.westwood.observe(ack, path);
    }

    fn phase(&self) -> &'static str {
        "congestion-avoidance"
    }
}

impl Steady for LogWestwoodPlus {
    fn begin(&mut self, handoff: &Handoff, path: &Path, window: &mut Window) {
        self.westwood.begin(handoff, path, window);
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
        let gap = (self.w_max - window.cwnd) / path.mss.as_f64();
        additive(window, (gap / self.alpha).max(1.0), grow, path.mss);
        SteadyStep::Stay
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        self.w_max = cause.cwnd;
        self.westwood.reduce(cause, path)
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;

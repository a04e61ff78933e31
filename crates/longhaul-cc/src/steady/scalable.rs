//! Scalable TCP (Kelly): the time between losses does not depend on the window.

use longhaul_units::Bytes;

use super::{ECN_BETA, additive};
use crate::compose::{Cause, Handoff, Stage, Steady, SteadyStep, Target, Window};
use crate::describe::{Entry, Make, OptionSpec, Safety, Slot};
use crate::{Ack, Path};

/// Registry entry. For controlled environments only: multiplicative increase with multiplicative decrease does not
/// converge to fair shares, and a flow with a large window takes bandwidth from all flows with smaller ones.
pub(crate) static ENTRY: Entry = Entry {
    name: "scalable",
    slot: Slot::Steady,
    summary: "a hundredth of what is acknowledged up, an eighth down",
    reference: "Kelly, Scalable TCP, CCR 33(2), 2003",
    options: ScalableConfig::OPTIONS,
    tested: &["scalable", "steady=scalable", "scalable(low-window=0,a=0.1,b=0.06,ecn-beta=0.95)"],
    safety: Safety::Private,
    make: Make::Steady(|values| Box::new(Scalable::new(ScalableConfig::from_values(values)))),
};

crate::options! {
    /// Scalable TCP's constants (Kelly, CCR 2003; quoted in RFC 3649, section 8).
    pub struct ScalableConfig {
        /// Increase in segments per segment acknowledged.
        a: f64 = OptionSpec::float("a", 0.001, 0.1, 0.01, "segments up for a segment acknowledged"),
        /// Share of the window given up at a loss.
        b: f64 = OptionSpec::float("b", 0.05, 0.5, 0.125, "share given up at a loss"),
        /// Legacy window in segments, up to which the algorithm is NewReno.
        low_window: f64 = OptionSpec::float("low-window", 0.0, 10_000.0, 16.0, "segments up to which it is NewReno"),
        _ = ECN_BETA,
    }
}

/// Scalable TCP congestion avoidance.
#[derive(Clone, Debug)]
pub struct Scalable(ScalableConfig);

impl Scalable {
    /// Creates the algorithm with `config`.
    #[must_use]
    pub const fn new(config: ScalableConfig) -> Self {
        Self(config)
    }
}

impl Stage for Scalable {
    fn phase(&self) -> &'static str {
        "congestion-avoidance"
    }
}

impl Steady for Scalable {
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {}

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
        if window.cwnd <= self.0.low_window * path.mss.as_f64() {
            additive(window, 1.0, grow, path.mss);
        } else {
            window.cwnd += self.0.a * grow.as_f64().min(window.cwnd);
        }
        SteadyStep::Stay
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        let low = cause.base <= self.0.low_window * path.mss.as_f64();
        Target::multiplicative(cause, if low { 0.5 } else { 1.0 - self.0.b }, path.mss)
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;

//! Scalable TCP (Kelly): the time between losses does not depend on the window.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Stage, Target, Window, additive,
};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

/// Registry entry. For controlled environments only: multiplicative increase with multiplicative decrease does not
/// converge to fair shares, and a flow with a large window takes bandwidth from all flows with smaller ones.
pub(crate) static ENTRY: Entry = Entry::avoidance("scalable", |values| Box::new(Scalable::from_values(values)))
    .described(
        "increases by a hundredth of the bytes acknowledged; decreases by an eighth",
        "Kelly, Scalable TCP, CCR 33(2), 2003",
    )
    .with_options(Scalable::OPTIONS)
    .tested_in(&["scalable", "avoidance=scalable", "scalable(low-window=0,a=0.1,b=0.06,ecn-beta=0.95)"]);

longhaul_cc::options! {
    /// Scalable TCP; the constants are Kelly's (CCR 2003; quoted in RFC 3649, section 8).
    pub(crate) struct Scalable {
        a: f64 = OptionSpec::float("a", 0.001, 0.1, 0.01, "increase per segment acknowledged, segments"),
        b: f64 = OptionSpec::float("b", 0.05, 0.5, 0.125, "decrease on a loss, as a fraction"),
        low_window: f64 = OptionSpec::float("low-window", 0.0, 10_000.0, 16.0, "window up to which NewReno is used, segments"),
        _ = ECN_BETA,
    }
}

impl Stage for Scalable {}

impl CongestionAvoidance for Scalable {
    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        if window.cwnd <= self.low_window * path.mss.as_f64() {
            additive(window, 1.0, grow, path.mss);
        } else {
            window.cwnd += self.a * grow.as_f64().min(window.cwnd);
        }
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let low = event.base <= self.low_window * path.mss.as_f64();
        Target::multiplicative(event, if low { 0.5 } else { 1.0 - self.b }, path.mss)
    }
}

#[cfg(test)]
mod tests;

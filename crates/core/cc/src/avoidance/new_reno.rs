//! NewReno congestion avoidance (RFC 5681): one segment up per round trip, half down at congestion.

use longhaul_units::Bytes;

use crate::compose::{AvoidanceStep, CongestionAvoidance, CongestionEvent, Handoff, Signal, Stage, Target, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Path};

pub(crate) static ENTRY: Entry = Entry::avoidance("new-reno", |values| Box::new(NewReno::from_values(values)))
    .described("increases by one segment per RTT; decreases by half", "RFC 5681 section 3.1, RFC 8511")
    .with_options(NewReno::OPTIONS)
    .tested_in(&["slow-start+new-reno", "slow-start=slow-start,avoidance=new-reno(ecn-beta=0.8)"])
    .internet_safe();

crate::options! {
    /// Additive increase and multiplicative decrease with byte counting.
    pub struct NewReno {
        /// Fraction of the window kept at a loss or timeout.
        beta: f64 = OptionSpec::float("beta", 0.1, 0.9, 0.5, "fraction of the window kept on a loss"),
        /// Fraction kept at a mark.
        ecn_beta: f64 =
            OptionSpec::float("ecn-beta", 0.1, 0.95, 0.5, "fraction kept on an ECN mark (RFC 8511 proposes 0.8)"),
        /// Bytes acknowledged since the last increase (the counting that RFC 5681 recommends).
        counted: f64 => 0.0,
    }
}

impl Stage for NewReno {}

impl CongestionAvoidance for NewReno {
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {
        self.counted = 0.0;
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        self.counted += grow.as_f64();
        if self.counted >= window.cwnd {
            // An ACK for more than a window still increases it by one segment only.
            self.counted = (self.counted - window.cwnd).min(window.cwnd);
            window.cwnd += path.mss.as_f64();
        }
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        self.counted = 0.0;
        let keep = if event.signal == Signal::Ecn { self.ecn_beta } else { self.beta };
        Target::multiplicative(event, keep, path.mss)
    }
}

#[cfg(test)]
mod tests;

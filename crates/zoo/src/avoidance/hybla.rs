//! TCP Hybla (Caini, Firrincieli): a flow with a long RTT achieves the throughput of a flow with a short RTT.

use longhaul_cc::compose::{AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Stage, Target, Window};
use longhaul_cc::registry::{Entry, OptionSpec, Rule};
use longhaul_cc::{Ack, Path};
use longhaul_units::{Bytes, Span};

/// Fraction of the window kept after a loss, as in NewReno.
const BETA: f64 = 0.5;

pub(crate) const RTT0: OptionSpec =
    OptionSpec::int("rtt0", 1, 1000, 25, "RTT of the reference flow, ms").ruled(&[Rule::Shared]);
pub(crate) const MAX_GAIN: OptionSpec =
    OptionSpec::float("max-gain", 1.0, 1000.0, 8.0, "maximum increase per segment acknowledged, segments");

/// Registry entry. For controlled environments only, because it takes the bandwidth of `rho^2` NewReno flows.
pub(crate) static ENTRY: Entry = Entry::avoidance("hybla", |values| Box::new(Hybla::from_values(values)))
    .described(
        "NewReno with the increase of a flow whose RTT is 25 ms",
        "Caini, Firrincieli, TCP Hybla, Int. J. Satellite Comm. 22(5), 2004; Linux",
    )
    .with_options(Hybla::OPTIONS)
    .tested_in(&["hybla", "avoidance=hybla", "hybla-start(rtt0=1)+hybla(rtt0=1,max-gain=1000,ecn-beta=0.8)"])
    .growing_beyond_acks();

longhaul_cc::options! {
    pub(crate) struct Hybla {
        rho: Rho [Rho::to_millis] = RTT0,
        max_gain: f64 = MAX_GAIN,
        _ = ECN_BETA,
    }
}

/// Hybla's normalised RTT: ratio of the connection's RTT to that of a reference flow, at least one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rho {
    reference: Span,
    least: Span,
    pub(crate) value: f64,
}

impl Rho {
    /// Creates the ratio to a reference of `millis` milliseconds (the paper's RTT0 is 25 ms).
    pub(crate) const fn to_millis(millis: u64) -> Self {
        Self { reference: Span::from_millis(millis), least: Span::MAX, value: 1.0 }
    }

    /// Updates the minimum RTT. SRTT is unsuitable, because it hardly decreases if other flows keep a queue.
    pub(crate) fn observe(&mut self, path: &Path) {
        if let Some(rtt) = path.min_rtt.filter(|rtt| *rtt < self.least) {
            let reference = self.reference.max(Span::from_nanos(1)).as_secs_f64();
            (self.least, self.value) = (rtt, (rtt.as_secs_f64() / reference).max(1.0));
        }
    }
}

impl Stage for Hybla {
    fn observe(&mut self, _ack: &Ack<'_>, path: &Path) -> bool {
        self.rho.observe(path);
        true
    }

    fn gain(&self) -> f64 {
        self.max_gain
    }
}

impl CongestionAvoidance for Hybla {
    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        let rho = self.rho.value;
        let gain = (rho * rho * path.mss.as_f64() / window.cwnd).min(self.max_gain);
        window.cwnd += gain * grow.as_f64().min(window.cwnd);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, BETA, path.mss)
    }
}

#[cfg(test)]
mod tests;

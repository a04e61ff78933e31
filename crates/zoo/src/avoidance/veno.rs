//! TCP Veno (Fu, Liew): NewReno that increases at half speed while it has a backlog.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Handoff, Stage, Target, Window, additive,
};
use longhaul_cc::registry::Entry;
use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

use crate::classify::veno::BACKLOG;
use crate::estimate::RoundRtt;

/// Increase in segments per round trip while there is a backlog: one segment every second round trip.
const CONGESTED: f64 = 0.5;
/// Fraction of the window kept after a loss. With the loss classifier `veno`, random losses keep 0.8.
const BETA: f64 = 0.5;

pub(crate) static ENTRY: Entry = Entry::avoidance("veno", |values| Box::new(Veno::from_values(values)))
    .described(
        "NewReno at half the increase with 3 or more segments queued; used with the classifier `veno`",
        "Fu, Liew, TCP Veno, JSAC 21(2), 2003; Linux",
    )
    .with_options(Veno::OPTIONS)
    .tested_in(&["veno", "slow-start=slow-start,avoidance=veno(backlog=0.5,ecn-beta=0.8)"])
    .internet_safe();

longhaul_cc::options! {
    pub(crate) struct Veno {
        /// The paper's beta.
        backlog: f64 = BACKLOG,
        rounds: RoundRtt => RoundRtt::default(),
        /// Increase of this round in segments.
        alpha: f64 => 1.0,
        _ = ECN_BETA,
    }
}

impl Veno {
    /// Sets the increase for the next round, from the samples of the last round. After too few samples it is NewReno's
    /// (Linux).
    fn judge(&mut self, segments: f64) {
        let round = self.rounds.last_of_enough();
        let backlog = round.map_or(0.0, |round| self.rounds.backlog(segments, round.min));
        self.alpha = if backlog < self.backlog { 1.0 } else { CONGESTED };
    }
}

impl Stage for Veno {
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.rounds.on_ack(ack);
        true
    }
}

impl CongestionAvoidance for Veno {
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {
        self.alpha = 1.0;
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        if ack.round_start {
            self.judge(window.cwnd / path.mss.as_f64());
        }
        additive(window, self.alpha, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, BETA, path.mss)
    }
}

#[cfg(test)]
mod tests;

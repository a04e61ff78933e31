//! TCP Vegas (Brakmo, Peterson): keeps two to four segments in the queue.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Handoff, Signal, Stage, Target, Window, additive,
};
use longhaul_cc::registry::{Entry, OptionSpec, Rule};
use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

use crate::estimate::RoundRtt;

/// Share of the window kept at a loss, as in NewReno and Linux. The authors' code keeps three quarters, which is
/// unfair to competing flows that halve.
const KEEP: f64 = 0.5;

pub(crate) static ENTRY: Entry = Entry::avoidance("vegas", |values| Box::new(Vegas::from_values(values)))
    .described(
        "one segment more or less per RTT, to keep 2 to 4 segments in the queue",
        "Brakmo, Peterson, TCP Vegas, JSAC 13(8), 1995; Linux",
    )
    .with_options(Vegas::OPTIONS)
    .tested_in(&["vegas", "slow-start+vegas", "vegas-start+vegas(alpha=0.1,beta=0.1,keep=0.75,ecn-beta=0.8)"])
    .internet_safe();

longhaul_cc::options! {
    pub(crate) struct Vegas {
        alpha: f64 = OptionSpec::float("alpha", 0.1, 1000.0, 2.0, "queued segments below which the window increases")
            .ruled(&[Rule::AtMost("beta")]),
        beta: f64 = OptionSpec::float("beta", 0.1, 10_000.0, 4.0, "queued segments above which the window decreases"),
        keep: f64 = OptionSpec::float("keep", 0.1, 0.95, KEEP, "fraction kept on a loss; the authors' code has 0.75"),
        rounds: RoundRtt => RoundRtt::default(),
        /// Increase of this round in segments.
        rise: f64 => 1.0,
        _ = ECN_BETA,
    }
}

impl Vegas {
    /// Sets the increase for the next round, from the samples of the last round. After too few samples it is NewReno's
    /// (Linux).
    fn judge(&mut self, path: &Path, window: &mut Window) {
        let Some(round) = self.rounds.last_of_enough() else {
            self.rise = 1.0;
            return;
        };
        let mss = path.mss.as_f64();
        let backlog = self.rounds.backlog(window.cwnd / mss, round.min);
        self.rise = if backlog < self.alpha { 1.0 } else { 0.0 };
        if backlog > self.beta.max(self.alpha) {
            window.cwnd = (window.cwnd - mss).max(2.0 * mss);
        }
    }
}

impl Stage for Vegas {
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.rounds.on_ack(ack);
        true
    }
}

impl CongestionAvoidance for Vegas {
    /// Grows as NewReno until the first complete round of congestion avoidance.
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {
        self.rise = 1.0;
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        // A window that was not fully used does not show how long a queue it would cause.
        if ack.round_start && ack.cwnd_limited {
            self.judge(path, window);
        }
        additive(window, self.rise, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let keep = self.keep;
        let keep = if event.signal == Signal::Timeout { keep.min(KEEP) } else { keep };
        Target::multiplicative(event, keep, path.mss)
    }
}

#[cfg(test)]
mod tests;

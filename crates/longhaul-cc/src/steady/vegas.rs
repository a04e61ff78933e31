//! TCP Vegas (Brakmo, Peterson): holds two to four segments in the queue.

use longhaul_units::Bytes;

use super::{ECN_BETA, additive};
use crate::compose::{Cause, Handoff, Signal, Stage, Steady, SteadyStep, Target, Window};
use crate::describe::{Entry, Make, OptionSpec, Rule, Safety, Slot};
use crate::estimate::RoundRtt;
use crate::{Ack, Path};

/// What is kept at a loss: NewReno's half, as in Linux. The authors' code keeps three quarters, which a shared network should not be
/// asked to bear beside flows that halve.
const KEEP: f64 = 0.5;

/// The law in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "vegas",
    slot: Slot::Steady,
    summary: "one segment up or down a round trip, to hold 2 to 4 segments in the queue",
    reference: "Brakmo, Peterson, TCP Vegas, JSAC 13(8), 1995; Linux",
    options: Options::OPTIONS,
    tested: &["vegas", "slow-start+vegas", "vegas-start+vegas(alpha=0.1,beta=0.1,keep=0.75,ecn-beta=0.8)"],
    safety: Safety::Shared,
    make: Make::Steady(|values| {
        let Options { alpha, beta, keep } = Options::from_values(values);
        Box::new(Vegas::new(alpha, beta).with_keep(keep))
    }),
};

crate::options! {
    /// The options of `vegas`.
    struct Options {
        alpha: f64 = OptionSpec::float("alpha", 0.1, 1000.0, 2.0, "segments in the queue below which the window rises")
            .ruled(&[Rule::AtMost(&["beta"])]),
        beta: f64 = OptionSpec::float("beta", 0.1, 10_000.0, 4.0, "segments in the queue above which it falls"),
        keep: f64 = OptionSpec::float("keep", 0.1, 0.95, KEEP, "share kept at a loss; the authors' code has 0.75"),
        _ = ECN_BETA,
    }
}

/// Vegas' law.
#[derive(Clone, Debug)]
pub struct Vegas {
    alpha: f64,
    beta: f64,
    keep: f64,
    rounds: RoundRtt,
    /// Segments up in this round.
    rise: f64,
}

impl Vegas {
    /// The law that holds between `alpha` and `beta` segments in the queue; where `beta` is less than `alpha`, the window
    /// falls above `alpha`.
    #[must_use]
    pub const fn new(alpha: f64, beta: f64) -> Self {
        Self { alpha, beta, keep: KEEP, rounds: RoundRtt::new(), rise: 1.0 }
    }

    /// The same that keeps the share `keep` (0 to 1) of the window at a loss.
    #[must_use]
    pub const fn with_keep(self, keep: f64) -> Self {
        Self { keep, ..self }
    }

    /// Decides on the round that begins, by the samples of the last; after too few the law is NewReno's (Linux).
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

    fn phase(&self) -> &'static str {
        "congestion-avoidance"
    }
}

impl Steady for Vegas {
    /// Until the first whole round of its own it rises as NewReno.
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {
        self.rise = 1.0;
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> SteadyStep {
        // A window that was not used up says nothing about the queue it would make.
        if ack.round_start && ack.cwnd_limited {
            self.judge(path, window);
        }
        additive(window, self.rise, grow, path.mss);
        SteadyStep::Stay
    }

    fn reduce(&mut self, cause: &Cause, path: &Path) -> Target {
        let keep = if cause.signal == Signal::Timeout { self.keep.min(KEEP) } else { self.keep };
        Target::multiplicative(cause, keep, path.mss)
    }

    fn clone_box(&self) -> Box<dyn Steady> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;

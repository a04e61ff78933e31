//! First recovery of Rapid Start (Oku): the window shrinks with delivered and lost data.

use longhaul_cc::compose::{Recovery, Stage, Step, Window};
use longhaul_cc::internal::Prr;
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Episode, Path, Sent};

/// `K` of the first versions of draft-kazuho-ccwg-rapid-start and of quicly.
const K_QUICLY: f64 = 11.0 / 18.0;
/// `K` of draft-kazuho-ccwg-rapid-start-02, appendix A.
const K_DRAFT_02: f64 = 2.0 / 3.0;
/// Largest ratio by which the window is assumed to have outgrown the path.
const OVERSHOOT: f64 = 3.0;

pub(crate) static ENTRY: Entry =
    Entry::recovery("rapid-start-recovery", |values| Box::new(RapidStartRecovery::from_values(values)))
        .described(
            "sizes the first decrease by deliveries and losses, to fit any overshoot; then PRR",
            "draft-kazuho-ccwg-rapid-start; quicly; RFC 9937",
        )
        .with_options(RapidStartRecovery::OPTIONS)
        .tested_in(&["cubic+rapid-start-recovery", "rapid-start+new-reno+rapid-start-recovery(factors=draft-02)"])
        .internet_safe();

longhaul_cc::options! {
    /// Rapid Start's recovery for the first episode of a connection, and PRR for all others.
    ///
    /// At the end the window is `beta` times what the path delivered in the round trip of the recovery, no matter by
    /// how much the window had exceeded that. It is at most the target of congestion avoidance, `beta` times the
    /// window before.
    pub(crate) struct RapidStartRecovery {
        /// Reduction factor from 0 to 1. The smaller it is, the longer nothing is sent.
        k: f64 [|factors: &str| if factors == "quicly" { K_QUICLY } else { K_DRAFT_02 }] = OptionSpec::choice(
            "factors", &["quicly", "draft-02"],
            "K of the reduction factors: 11/18 as in quicly and the first drafts, or 2/3 as in draft 02",
        ),
        state: State => State::Fresh,
        prr: Prr => Prr::default(),
    }
}

/// Reduction factors for a decrease to `beta`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factors {
    /// Fraction of the window that is kept at once, and reduction per lost byte.
    lost: f64,
    /// Reduction per byte delivered.
    acked: f64,
}

impl Factors {
    fn new(k: f64, beta: f64) -> Self {
        let acked = k * (1.0 - beta);
        Self { lost: beta + acked, acked }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct First {
    factors: Factors,
    /// Lower bound of the window in bytes.
    floor: f64,
    /// Upper bound of the window at the end of recovery, in bytes.
    target: f64,
    cwnd: f64,
    /// Bytes that were in flight at the start of the episode and are not yet known to be delivered or lost.
    unknown: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    /// No loss has occurred yet.
    Fresh,
    First(First),
    /// The first episode has ended; the threshold follows with the next ACK.
    Settling,
    /// All other episodes use PRR.
    Later,
}

impl RapidStartRecovery {
    fn begin(&self, target: f64, ack: &Ack<'_>, path: &Path, window: &Window) -> First {
        // The decrease starts from the bytes in flight, as in congestion avoidance.
        let before = window.cwnd.min(ack.flight_size.max(path.mss).as_f64());
        let beta = (target / before).clamp(0.0, 1.0);
        let least = 2.0 * path.mss.as_f64();
        let factors = Factors::new(self.k, beta);
        let floor = (before * beta / OVERSHOOT).max(least);
        First { factors, floor, target, cwnd: before * factors.lost, unknown: before }
    }
}

impl First {
    /// Applies the reduction for `ack`. Once all data in flight at the start is known to be delivered or lost, the
    /// window is final, because later retransmissions show nothing more about the overshoot.
    fn shrink(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let (acked, lost) = (ack.delivered.as_f64(), ack.newly_lost.as_f64());
        let share = (self.unknown / (acked + lost).max(1.0)).min(1.0);
        let less = share * (self.factors.acked * acked + self.factors.lost * lost);
        self.unknown -= share * (acked + lost);
        self.cwnd = (self.cwnd - less).max(self.floor.min(self.cwnd));
        window.cwnd = self.cwnd;
    }
}

impl Stage for RapidStartRecovery {
    /// A timeout ends the effects of the start-up phase.
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        if matches!((self.state, ack.episode), (State::Fresh, Episode::Rto)) {
            self.state = State::Later;
        }
        true
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        self.prr.on_sent(sent, path);
    }
}

impl Recovery for RapidStartRecovery {
    fn enter(&mut self, target: f64, ack: &Ack<'_>, path: &Path, window: &mut Window) {
        match &mut self.state {
            State::Fresh => {
                let mut first = self.begin(target, ack, path, window);
                first.shrink(ack, window);
                self.state = State::First(first);
            }
            // A retransmission was lost, so the lower target of congestion avoidance is the upper bound.
            State::First(first) => {
                first.target = first.target.min(target);
                first.shrink(ack, window);
            }
            State::Settling | State::Later => {
                self.state = State::Later;
                self.prr.enter(target, ack, path, window);
            }
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        match &mut self.state {
            State::First(first) => {
                first.shrink(ack, window);
                Step::Stay
            }
            // Otherwise slow start would continue up to the threshold of congestion avoidance, which is based on the
            // previous window.
            State::Settling => {
                self.state = State::Later;
                window.ssthresh = window.ssthresh.min(window.cwnd);
                Step::Done
            }
            State::Fresh | State::Later => self.prr.on_ack(ack, path, window),
        }
    }

    fn exit(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        let State::First(first) = &mut self.state else {
            return self.prr.exit(ack, path, window);
        };
        first.shrink(ack, window);
        window.cwnd = first.cwnd.min(first.target);
        self.state = State::Settling;
        Step::Stay
    }

    fn abort(&mut self) {
        self.state = State::Later;
        self.prr.abort();
    }
}

#[cfg(test)]
mod tests;

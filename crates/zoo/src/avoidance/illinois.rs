//! TCP-Illinois (Liu, Basar, Srikant): losses trigger decreases, and the delay sets the sizes of increase and
//! decrease.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Handoff, Reason, Stage, Target, Window, additive,
};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

use crate::estimate::RoundRtt;

/// NewReno's alpha and beta, for small windows and after a timeout.
const RENO: (f64, f64) = (1.0, 0.5);

/// Window in segments below which NewReno is used (Linux, as all constants here except for [`FLOOR`]).
const LOW_WINDOW: f64 = 15.0;
/// Smallest and largest increase per round trip, in segments.
const ALPHA: (f64, f64) = (0.3, 10.0);
/// Smallest and largest fraction by which a loss reduces the window.
const BETA: (f64, f64) = (0.125, 0.5);
/// Fraction of the largest delay up to which the increase is largest.
const RISE_PART: f64 = 0.01;
/// Fractions of the largest delay up to which the decrease is smallest, and from which it is largest.
const DECREASE_PARTS: (f64, f64) = (0.1, 0.8);
/// Number of round trips without a queue after which the largest increase is used again.
const THETA: u32 = 5;

/// Lower bound of the largest queueing delay, as a fraction of the minimum RTT: a smaller rise of the delay does not
/// indicate a queue (RFC 9406, section 4.2). Without a queue, the largest delay is caused by the flow's own bursts;
/// these few microseconds would otherwise determine both curves.
const FLOOR: f64 = 0.125;

pub(crate) static ENTRY: Entry = Entry::avoidance("illinois", |values| Box::new(Illinois::from_values(values)))
    .described(
        "increases by 10 (no queue) to 0.3 segments per RTT (full queue); decreases by 1/8 to 1/2",
        "Liu, Basar, Srikant, TCP-Illinois, Valuetools 2006; Linux",
    )
    .with_options(Illinois::OPTIONS)
    .tested_in(&["illinois", "illinois(floor=0,ecn-beta=0.8)"])
    .internet_safe();

longhaul_cc::options! {
    pub(crate) struct Illinois {
        /// Lower bound of the largest queueing delay; Linux has none (0).
        floor: f64 = OptionSpec::float(
            "floor", 0.0, 1.0, FLOOR,
            "floor of the maximum delay, as a fraction of the minimum RTT",
        ),
        rounds: RoundRtt => RoundRtt::default(),
        alpha: f64 => ALPHA.1,
        beta: f64 => RENO.1,
        /// Whether there has been a queue since the increase last had its maximum, and the number of round trips
        /// without one.
        above: bool => false,
        good: u32 => 0,
        _ = ECN_BETA,
    }
}

/// Returns the increase in segments per round trip at a queueing delay of `delay`, if `most` is the largest seen. The
/// curve is a hyperbola.
fn rise(delay: f64, most: f64) -> f64 {
    let first = RISE_PART * most;
    if delay <= first {
        return ALPHA.1;
    }
    let range = most - first;
    range * ALPHA.1 / (range + (ALPHA.1 / ALPHA.0 - 1.0) * (delay - first))
}

/// Returns the fraction by which a loss reduces the window at that delay, which is linear between the two fractions.
fn decrease(delay: f64, most: f64) -> f64 {
    let (low, high) = (DECREASE_PARTS.0 * most, DECREASE_PARTS.1 * most);
    if delay <= low {
        BETA.0
    } else if delay >= high {
        BETA.1
    } else {
        BETA.0 + (BETA.1 - BETA.0) * (delay - low) / (high - low)
    }
}

impl Illinois {
    /// Sets increase and decrease for the next round, from the mean delay of the last round.
    fn judge(&mut self, segments: f64) {
        if segments < LOW_WINDOW {
            (self.alpha, self.beta) = RENO;
            return;
        }
        let (Some(round), Some(base), Some(max)) = (self.rounds.last, self.rounds.base, self.rounds.max) else {
            return;
        };
        let base = base.as_secs_f64();
        let (delay, most) = ((round.mean() - base).max(0.0), (max.as_secs_f64() - base).max(self.floor * base));
        self.follow(delay, most);
        self.beta = decrease(delay, most);
    }

    fn follow(&mut self, delay: f64, most: f64) {
        if delay > RISE_PART * most {
            (self.above, self.good) = (true, 0);
            self.alpha = rise(delay, most);
            return;
        }
        self.good = self.good.saturating_add(1);
        if !self.above || self.good >= THETA {
            (self.above, self.good) = (false, 0);
            self.alpha = ALPHA.1;
        }
    }
}

impl Stage for Illinois {
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.rounds.on_ack(ack);
        true
    }
}

impl CongestionAvoidance for Illinois {
    fn begin(&mut self, handoff: &Handoff, _path: &Path, _window: &mut Window) {
        if handoff.reason == Reason::Timeout {
            (self.alpha, self.beta) = RENO;
            (self.above, self.good) = (false, 0);
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        if ack.round_start {
            self.judge(window.cwnd / path.mss.as_f64());
        }
        additive(window, self.alpha, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, 1.0 - self.beta, path.mss)
    }
}

#[cfg(test)]
mod tests;

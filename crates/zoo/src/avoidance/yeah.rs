//! YeAH-TCP (Baiocchi, Castellani, Vacirca): Scalable TCP while the queue is short, else NewReno with draining.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Signal, Stage, Target, Window,
};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

use crate::estimate::RoundRtt;

/// Largest decrease at a loss, as a part of the window.
const MOST_CUT: f64 = 0.5;
/// Initial value of the estimated NewReno window, at which draining stops at the latest, in segments.
const RENO_START: f64 = 2.0;

pub(crate) static ENTRY: Entry = Entry::avoidance("yeah", |values| Box::new(Yeah::from_values(values)))
    .described(
        "Scalable while the queue is short; NewReno, and drains the queue, while it is long",
        "Baiocchi, Castellani, Vacirca, YeAH-TCP, PFLDnet 2007; Linux",
    )
    .with_options(Yeah::OPTIONS)
    .tested_in(&["yeah", "yeah(queue=1,delay=0.01,epsilon=0.9,rise=1,delta=0.5,rho=1,zeta=1,ecn-beta=0.8)"])
    .internet_safe();

longhaul_cc::options! {
    /// YeAH congestion avoidance with Linux's constants. Windows are in segments.
    pub(crate) struct Yeah {
        queue: f64 = OptionSpec::float("queue", 1.0, 10_000.0, 80.0, "queued segments from which the queue is drained"),
        delay: f64 =
            OptionSpec::float("delay", 0.01, 10.0, 0.125, "queueing delay over base RTT from which the slow mode is used"),
        gamma: f64 = OptionSpec::float("gamma", 0.1, 100.0, 1.0, "divisor of the queue that is drained at once"),
        epsilon: f64 = OptionSpec::float("epsilon", 0.05, 0.9, 0.5, "maximum fraction of the window drained at once"),
        /// Increase in the fast mode in segments per segment acknowledged, as Scalable TCP's; at least one segment
        /// per round trip.
        rise: f64 = OptionSpec::float("rise", 0.0001, 1.0, 0.01, "increase per segment acknowledged in fast mode, segments"),
        /// Minimum decrease on a loss, at most 0.5.
        delta: f64 = OptionSpec::float("delta", 0.01, MOST_CUT, 0.125, "minimum decrease on a loss, as a fraction of the window"),
        /// Number of consecutive round trips in the slow mode from which a loss halves the window, because NewReno
        /// flows are assumed to compete.
        rho: u32 = OptionSpec::int("rho", 1, 1000, 16, "consecutive slow RTTs after which a loss halves the window"),
        zeta: u32 = OptionSpec::int("zeta", 1, 1000, 50, "fast RTTs after which the NewReno reference window is discarded"),
        rounds: RoundRtt => RoundRtt::default(),
        /// Queue measured in the last round, in segments.
        backlog: f64 => 0.0,
        /// Estimated window of a competing NewReno flow, at which draining stops.
        reno: f64 => RENO_START,
        /// Number of consecutive round trips in the slow mode; zero in the fast mode.
        slow_rounds: u32 => 0,
        fast_rounds: u32 => 0,
        _ = ECN_BETA,
    }
}

impl Yeah {
    /// Chooses the mode for the next round, from the minimum RTT sample of the last round. Returns the new window in
    /// segments.
    fn judge(&mut self, w: f64) -> f64 {
        let (Some(round), Some(base)) = (self.rounds.last_of_enough(), self.rounds.base) else {
            return w;
        };
        self.backlog = self.rounds.backlog(w, round.min);
        let late = round.min.as_secs_f64() - base.as_secs_f64() > self.delay * base.as_secs_f64();
        if self.backlog <= self.queue && !late {
            self.fast_round();
            return w;
        }
        let drained = self.drain(w);
        self.reno = if self.reno <= RENO_START { (drained / 2.0).max(RENO_START) } else { self.reno + 1.0 };
        self.slow_rounds = self.slow_rounds.saturating_add(1);
        drained
    }

    fn fast_round(&mut self) {
        self.slow_rounds = 0;
        self.fast_rounds += 1;
        if self.fast_rounds > self.zeta {
            (self.reno, self.fast_rounds) = (RENO_START, 0);
        }
    }

    fn drain(&self, w: f64) -> f64 {
        if self.backlog <= self.queue || w <= self.reno {
            return w;
        }
        (w - (self.backlog / self.gamma).min(w * self.epsilon)).max(self.reno)
    }

    fn keep(&self, w: f64) -> f64 {
        let share = self.backlog / w.max(1.0);
        let cut = if self.slow_rounds < self.rho { share.max(self.delta).min(MOST_CUT) } else { MOST_CUT };
        1.0 - cut
    }
}

impl Stage for Yeah {
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.rounds.on_ack(ack);
        true
    }
}

impl CongestionAvoidance for Yeah {
    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        let mss = path.mss.as_f64();
        if ack.round_start && ack.cwnd_limited {
            window.cwnd = self.judge(window.cwnd / mss) * mss;
        }
        let rise = if self.slow_rounds == 0 { (window.cwnd * self.rise).max(mss) } else { mss };
        window.cwnd += rise * (grow.as_f64() / window.cwnd).min(1.0);
        AvoidanceStep::Stay
    }

    /// A loss that ends slow start also drains the queue, which no round of congestion avoidance has measured yet.
    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let w = event.base / path.mss.as_f64();
        if let Some(round) = self.rounds.last.filter(|_| self.backlog <= 0.0) {
            self.backlog = self.rounds.backlog(w, round.min);
        }
        let keep = if event.signal == Signal::Timeout { MOST_CUT } else { self.keep(w) };
        self.fast_rounds = 0;
        self.reno = (self.reno / 2.0).max(RENO_START);
        Target::multiplicative(event, keep, path.mss)
    }
}

#[cfg(test)]
mod tests;

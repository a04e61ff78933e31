//! SUSS (Arghavani et al.): slow start that quadruples the window per round trip while short ACK trains indicate spare
//! capacity.

mod rounds;

use longhaul_cc::compose::{AckLimit, IW_OPTION, L_OPTION, Overlay, Reason, SlowStart, Stage, Step, Window, raise};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Pace, Path, Sent, initial_window, update};
use longhaul_units::{Bytes, Rate, Time};

use self::rounds::{Jump, Rounds};
use super::hystart::{Detect, Detector, ack_delay};
use super::pace;

pub(crate) static ENTRY: Entry = Entry::slow_start("suss", |values| Box::new(Suss::from_values(values)))
    .described("quadruples the window per RTT, pacing the additional data, while ACK trains and RTT allow it", "Arghavani, Zhang, Eyers, Arghavani, SUSS: improving TCP performance by speeding up slow-start, SIGCOMM 2024; its kernel patch")
    .with_options(Suss::OPTIONS)
    .tested_in(&["suss+cubic", "suss+new-reno", "suss(jumps=5,train=1000,l=2)+cubic"])
    .internet_safe()
    .growing_beyond_acks();

longhaul_cc::options! {
    /// SUSS on top of HyStart. The *blue* part of a round is the data that slow start sends, released by ACKs. The
    /// *red* part is the data that SUSS adds; it is paced, after the blue part was acknowledged.
    ///
    /// SUSS works once, from the first segment of the connection. In later slow starts, and after SUSS was refused in
    /// the second round, this is [HyStart](super::HyStart).
    pub(crate) struct Suss {
        initial_segments: u32 = IW_OPTION,
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
        /// `suss_max`: maximum number of rounds in which the window is quadrupled. The first such round is the second
        /// round of the connection.
        jumps: u32 = OptionSpec::int("jumps", 0, 5, 3, "maximum number of quadrupled RTTs"),
        train: f64 = OptionSpec::float(
            "train", 16.0, 1000.0, 64.0,
            "pace of the data released by ACKs, windows per RTT; the patch does not pace it",
        ),
        detector: Detector => Detector::from_the_first_ack(),
        /// Whether anything has been sent.
        sent: bool => false,
        /// Whether HyStart has ended slow start since it was last started.
        found: bool => false,
        rounds: Option<Rounds> => None,
        red: Option<Red> => None,
        blue: Option<Pace> => None,
    }
}

/// The additional (red) data of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Red {
    start: Time,
    pace: Pace,
    /// Window including the red data, and the previous window, in bytes.
    target: f64,
    before: f64,
    running: bool,
}

impl Suss {
    /// Returns whether slow start ends with this ACK. If so, the window is set.
    fn ends(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> bool {
        let Some(rounds) = &mut self.rounds else {
            return self.detector.ends(Detect::Both, ack, window.cwnd, path.paced);
        };
        // ACK-train detector. The blue train is a fraction of the round's whole train, which each quadrupled round
        // halves. If the whole train would exceed half of the RTT, slow start ends at a cap, which is the window at the
        // end of this round.
        if rounds.cap.is_none() && rounds.blue {
            let longest = self.detector.least.map(|least| (least + ack_delay(window.cwnd, least)) / 2);
            let train = self.detector.train(ack);
            if let (Some(train), Some(longest)) = (train, longest)
                && train.as_nanos().saturating_mul(1 << rounds.jumps) > longest.as_nanos()
            {
                rounds.cap = Some(window.cwnd + rounds.still_to_come());
                return self.detector.delayed() && Self::fall_back(rounds, ack, path, window);
            }
        }
        let capped = rounds.cap.is_some_and(|cap| window.cwnd > cap);
        let delayed = self.detector.delayed();
        (capped || delayed) && Self::fall_back(rounds, ack, path, window)
    }

    /// Sets the window at the end of slow start: if the window was quadrupled more than once, it is reduced to the
    /// bytes in flight. Always returns true.
    fn fall_back(rounds: &Rounds, ack: &Ack<'_>, path: &Path, window: &mut Window) -> bool {
        if rounds.jumps > 1 {
            window.cwnd = window.cwnd.min(ack.in_flight.max(path.mss * 2).as_f64());
        }
        true
    }

    fn jump(&mut self, jump: Jump, now: Time, window: &Window) {
        let pace = Pace::new(Rate::from_bytes_over(Bytes::from_f64(jump.red), jump.duration));
        if pace.rate > Rate::ZERO {
            let target = window.cwnd + jump.room;
            self.red = Some(Red { start: now + jump.guard, pace, target, before: window.cwnd, running: false });
        }
    }
}

impl Stage for Suss {
    fn on_sent(&mut self, _sent: &Sent, _path: &Path) {
        self.sent = true;
    }

    fn next_tick(&self) -> Option<Time> {
        self.red.filter(|red| !red.running).map(|red| red.start)
    }

    fn overlay(&self) -> Overlay {
        let red = self.red.filter(|red| red.running).map(|red| red.pace);
        update!(Overlay { pace: red.or(self.blue), ..Overlay::default() })
    }

    fn phase(&self) -> &'static str {
        match (&self.rounds, &self.red) {
            (None, _) => "slow-start",
            (_, Some(red)) if red.running => "suss-paced",
            _ => "suss",
        }
    }
}

impl SlowStart for Suss {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn begin(&mut self, reason: Reason, path: &Path, window: &Window) {
        if matches!(reason, Reason::NoLoss | Reason::Timeout) {
            self.detector = Detector::from_the_first_ack();
            self.found = false;
        }
        let fresh = reason == Reason::NoLoss && !self.sent && path.paced;
        self.rounds = fresh.then(|| Rounds::new(window.cwnd, self.jumps));
        self.red = None;
        self.blue = if fresh { pace(self.train, window, path) } else { None };
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        let bytes = self.limit.apply(grow, ack, path);
        if self.found {
            return raise(window, bytes);
        }
        if let Some(sample) = ack.rtt {
            let wide = self.detector.is_wide(window.cwnd, path.mss);
            let less = self.detector.least.is_none_or(|least| sample.rtt < least);
            self.detector.observe(ack, sample.rtt, wide);
            if let Some(rounds) = self.rounds.as_mut().filter(|_| less) {
                rounds.found_less();
            }
            if wide && self.ends(ack, path, window) {
                (self.found, self.rounds, self.red) = (true, None, None);
                self.blue = None;
                window.ssthresh = window.cwnd;
                return Step::Done;
            }
        }
        self.grow(ack, bytes, path, window)
    }

    /// During the red part, reduces the window to the bytes in flight before congestion avoidance decreases it, because
    /// unsent data says nothing about the path.
    fn on_congestion(&mut self, flight: Bytes, path: &Path, window: &mut Window) {
        if self.red.take().is_some_and(|red| red.running) {
            window.cwnd = window.cwnd.min(flight.max(path.mss * 2).as_f64());
        }
    }

    /// Begins the red part. The window allows all of it at once, and pacing spreads it.
    fn on_tick(&mut self, now: Time, _path: &Path, window: &mut Window) -> Step {
        if let Some(red) = self.red.as_mut().filter(|red| !red.running && red.start <= now) {
            red.running = true;
            window.cwnd = window.cwnd.max(red.target.min(window.ssthresh));
        }
        if window.below_threshold() { Step::Stay } else { Step::Done }
    }
}

impl Suss {
    fn grow(&mut self, ack: &Ack<'_>, bytes: f64, path: &Path, window: &mut Window) -> Step {
        let Some(rounds) = self.rounds.as_mut().filter(|rounds| rounds.cap.is_none()) else {
            self.red = None;
            return raise(window, bytes);
        };
        if rounds.begins(ack)
            && let Some(red) = self.red.take().filter(|red| red.running)
        {
            // Red data that was not sent in time must not be sent as a burst.
            window.cwnd = window.cwnd.min(ack.prior_in_flight.as_f64().max(red.before));
        }
        // ACKs of red data, and all ACKs during the red part, do not raise the window, because the window already
        // includes the red part.
        let tail = rounds.count(ack, path.mss);
        let red_ack = self.red.is_some_and(|red| red.running || rounds.is_red(ack));
        let step = raise(window, if red_ack { 0.0 } else { bytes });
        // The blue train has ended: decide whether this round is quadrupled.
        if tail {
            rounds.clock(ack.total_delivered + Bytes::from_f64(window.cwnd));
            match rounds.judge(ack, self.detector.least, self.detector.round_least()) {
                Ok(Some(jump)) => self.jump(jump, ack.now, window),
                Ok(None) => {}
                Err(rounds::Never) => self.rounds = None,
            }
        }
        self.blue = if self.rounds.is_some() { pace(self.train, window, path) } else { None };
        step
    }
}

#[cfg(test)]
mod tests;

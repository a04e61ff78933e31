//! Growth of the window until a queue stands.

use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

use super::drain::{Cause, KEPT};
use super::{ALONE, COMPETE_KEPT, Phase, Tide};

/// Round trips in which a flow that is alone fills the path again, and until growth accelerates.
const CYCLE: f64 = 8.0;
const PATIENCE: f64 = 16.0;
/// A round trip counts once per this time in seconds, and at most this often.
const LONG_ROUND: f64 = 0.1;
const MOST_ROUNDS: f64 = 8.0;
/// Factor per round trip by which growth accelerates, and the number of round trips up to which it does.
const FASTER: f64 = 1.25;
const MOST_FASTER: f64 = 30.0;
/// The window grows by at least this many segments per round trip.
const LEAST_STEP: f64 = 0.5;
/// Smallest window relative to what the path holds that counts in the root.
const LEAST_SHARE: f64 = 0.001;
/// The window is at most this multiple of what was delivered in a round trip, and some segments more.
const CEILING: (f64, f64) = (2.0, 4.0);
/// A capacity that has changed by this factor changes the window with it.
const CHANGED: f64 = 1.25;
/// A queue of this multiple of the threshold is too long at once.
const SUDDEN: f64 = 4.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// Round trips in which the window limited the flow.
    pub(super) rounds: u32,
    /// The shortest queue of this round trip, in seconds.
    least: f64,
}

impl Fill {
    pub(super) const fn new(rounds: u32, queueing: f64) -> Self {
        Self { rounds, least: queueing }
    }

    /// Processes an ACK, and returns whether the queue was longer than the threshold for a whole round trip, or suddenly is.
    fn on_ack(&mut self, ack: &Ack<'_>, base: f64, queueing: f64, threshold: f64) -> bool {
        if ack.round_start && ack.cwnd_limited {
            self.rounds = self.rounds.saturating_add((base / LONG_ROUND).clamp(1.0, MOST_ROUNDS) as u32);
        }
        self.least = self.least.min(queueing);
        let stands = ack.round_start && self.least > threshold;
        if ack.round_start {
            self.least = queueing;
        }
        (stands || queueing > SUDDEN * threshold) && self.rounds >= 1
    }
}

impl Tide {
    /// Returns the growth of the window per round trip in bytes.
    ///
    /// It is proportional to the root of the window, so that large flows grow by a smaller part of it, and the flows of
    /// a link together by more the more there are.
    fn step(&self, rounds: u32) -> f64 {
        let base = self.model.base().max(f64::MIN_POSITIVE);
        let part = (self.model.threshold / base + 1.0 - KEPT.0) / CYCLE;
        let (held, root) = match self.model.capacity.rate() {
            Some(capacity) => (capacity * base, (self.window / (capacity * base)).clamp(LEAST_SHARE, 1.0).sqrt()),
            None => (self.window, 1.0),
        };
        let has_room = self.model.capacity.rate().is_none() || self.window < held;
        let late = (f64::from(rounds) - PATIENCE).clamp(0.0, MOST_FASTER);
        let faster = if has_room && late > 0.0 { FASTER.powf(late) } else { 1.0 };
        (part * held * root).max(LEAST_STEP * self.model.mss) * faster
    }

    /// Keeps the share of a capacity that has changed.
    fn scale(&mut self) {
        let Some(capacity) = self.model.capacity.rate() else { return };
        let ratio = capacity / self.scaled.unwrap_or(capacity);
        if self.scaled.is_none() || !(1.0 / CHANGED..=CHANGED).contains(&ratio) {
            self.scaled = Some(capacity);
            // More capacity is taken as in slow start, since only what is delivered proves it.
            if ratio > 1.0 {
                self.grow_to = self.grow_to.max(ratio * self.window);
            } else {
                self.window *= ratio;
                self.bound();
            }
        }
    }

    pub(super) fn on_fill_ack(&mut self, mut fill: Fill, ack: &Ack<'_>, path: &Path) {
        let overflows = self.losses.on_ack(ack, false, &self.model);
        let mut are_many = false;
        if ack.round_start {
            are_many = self.losses.are_many(self.model.mss);
            self.hold = self.hold.and_then(|(window, rounds)| (rounds > 1).then_some((window, rounds - 1)));
            self.scale();
        }
        let stands = fill.on_ack(ack, self.model.base(), self.model.delays.queueing(), self.model.threshold);
        self.phase = Phase::Fill(fill);
        // A queue that is kept short with marks does not show others.
        let is_marked = ack.ecn_echo && self.model.share().is_none_or(|share| share <= ALONE);
        let is_policed = self.hold.is_some() && self.losses.are_back(self.model.mss);
        if self.config.compete && (is_policed || is_marked) {
            return self.compete(COMPETE_KEPT * self.window, is_policed, ack.now, path);
        }
        let is_shorter = self.update_base() && fill.rounds >= 1;
        let cause = match () {
            () if is_shorter => Some(Cause::Base),
            () if overflows => Some(Cause::Overflow),
            () if ack.ecn_echo => Some(Cause::Mark),
            () if stands => Some(Cause::Queue),
            () if are_many => Some(Cause::Losses),
            () => None,
        };
        match cause {
            Some(cause) => self.drain(cause, false),
            None => self.grow(fill.rounds, ack),
        }
    }

    fn grow(&mut self, rounds: u32, ack: &Ack<'_>) {
        if !ack.cwnd_limited || ack.delivered == Bytes::ZERO {
            return;
        }
        let (before, delivered) = (self.window, ack.delivered.as_f64());
        if self.window < self.grow_to {
            // Slow start up to a window that the path is known, or hoped, to hold.
            self.window += delivered;
            let held = self.model.capacity.rate().map_or(f64::INFINITY, |capacity| capacity * self.model.base());
            if self.window >= held.min(self.grow_to) {
                self.grow_to = 0.0;
                self.phase = Phase::Fill(Fill::new(0, self.model.delays.queueing()));
            }
        } else {
            self.window += (self.step(rounds) * delivered / self.window).min(delivered);
        }
        let ceiling = CEILING.0 * self.model.delivered() + CEILING.1 * self.model.mss;
        self.window = match self.hold {
            Some((held, _)) => self.window.min(ceiling).min(held),
            None => self.window.min(ceiling).max(before),
        };
        self.bound();
    }
}

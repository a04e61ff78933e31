//! Growth of the window until a queue stands.

use longhaul_units::Bytes;

use super::Tide;
use super::compete::OWN_OVERFLOW;
use super::drain::Cause;
use crate::Ack;

/// Round trips in which a flow that is alone fills the path again, and until growth accelerates.
const CYCLE: f64 = 8.0;
const PATIENCE: f64 = 16.0;
/// A round trip counts once per this time in seconds, and at most so often.
const LONG_ROUND: f64 = 0.1;
const MOST_ROUNDS: f64 = 8.0;
const FASTER: f64 = 1.25;
const MOST_FASTER: f64 = 30.0;
/// What a drain removes at most, as a part of what the path holds.
const DRAINED: f64 = 0.1;
/// A flow with the whole capacity fills at most this part of a queue that has overflowed before per round trip.
const OVERFLOW_PART: f64 = 0.25;
/// The window grows by at least this many segments per round trip, or less if it has fewer than four.
const LEAST_STEP: f64 = 0.5;
const SMALL: (f64, f64) = (4.0, 0.1);
/// Smallest window relative to what the path holds that counts in the root.
const LEAST_SHARE: f64 = 0.001;
/// The window is at most this multiple of what was delivered in a round trip, and some segments more.
const CEILING: (f64, f64) = (2.0, 4.0);
/// It grows only if this part of it is in use.
const USED: f64 = 0.75;
/// A queue of this multiple of the threshold is too long at once.
const SUDDEN: f64 = 4.0;

/// State of the growth.
#[derive(Clone, Copy, Debug, Default)]
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

    /// Returns whether the queue was longer than the threshold for a whole round trip, or suddenly is.
    fn stands(&mut self, ack: &Ack<'_>, base: f64, queueing: f64, threshold: f64) -> bool {
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
        let part = (self.threshold() / base + DRAINED) / CYCLE;
        let faster = FASTER.powf((f64::from(rounds) - PATIENCE).clamp(0.0, MOST_FASTER));
        let (step, has_room) = match self.model.capacity() {
            Some(capacity) => {
                let held = capacity * base;
                let root = (self.window / held).clamp(LEAST_SHARE, 1.0).sqrt();
                let most = self.losses.overflow().map_or(1.0, |overflow| OVERFLOW_PART * overflow / base);
                (part.min(most) * held * root, self.window < held)
            }
            None => (part * self.window, true),
        };
        let small = (self.window / (SMALL.0 * self.model.mss)).clamp(SMALL.1, 1.0);
        step.max(LEAST_STEP * small * self.model.mss) * if has_room { faster } else { 1.0 }
    }

    pub(super) fn on_fill_ack(&mut self, mut fill: Fill, ack: &Ack<'_>, path: &crate::Path) {
        let overflows = self.losses.on_ack(ack, false, &self.model);
        let many = ack.round_start && self.losses.are_many(self.model.mss);
        if ack.round_start {
            self.hold = self.hold.and_then(|(window, rounds)| (rounds > 1).then_some((window, rounds - 1)));
        }
        let stands = fill.stands(ack, self.model.base(), self.model.queueing(), self.threshold());
        self.phase = super::Phase::Fill(fill);
        let is_policed = self.hold.is_some() && self.losses.are_back(self.model.mss);
        let is_contested = is_policed || (overflows || ack.ecn_echo) && self.is_contested(ack.now);
        if is_contested && self.config.compete && self.model.share().is_none_or(|share| share <= OWN_OVERFLOW) {
            self.compete(super::COMPETE_KEPT * self.window, ack.now, path);
            if let super::Phase::Compete(mode) = &mut self.phase {
                mode.is_policed = is_policed;
            }
            return;
        }
        let base_fell = self.base_fell() && fill.rounds >= 1;
        let cause = match () {
            () if base_fell => Some(Cause::Base),
            () if overflows => Some(Cause::Overflow),
            () if ack.ecn_echo => Some(Cause::Mark),
            () if stands => Some(Cause::Queue),
            () if many => Some(Cause::Losses),
            () => None,
        };
        match cause {
            Some(cause) => self.drain(cause, false),
            None => self.grow(fill.rounds, ack),
        }
    }

    fn grow(&mut self, rounds: u32, ack: &Ack<'_>) {
        let in_use = ack.prior_in_flight.as_f64() + CEILING.1 * self.model.mss;
        if !ack.cwnd_limited || ack.delivered == Bytes::ZERO || in_use < USED * self.window {
            return;
        }
        let (before, delivered) = (self.window, ack.delivered.as_f64());
        if self.window < self.grow_to {
            // Slow start up to a window that the path is known, or hoped, to hold.
            self.window += delivered;
            let held = self.model.capacity().map_or(f64::INFINITY, |capacity| capacity * self.model.base());
            if self.window >= held.min(self.grow_to) {
                self.grow_to = 0.0;
                self.phase = super::Phase::Fill(Fill::new(0, self.model.queueing()));
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

//! Growth of the window until there is a standing queue.

use longhaul_cc::{Ack, Path};
use longhaul_units::Bytes;

use super::drain::{Cause, KEPT};
use super::{ALONE, COMPETE_KEPT, Phase, Tide};

/// Number of round trips in which a lone flow fills the path again, and number after which growth accelerates.
const CYCLE: f64 = 8.0;
const PATIENCE: f64 = 16.0;
/// Duration in seconds that counts as one round trip on long paths, and the maximum count per round trip.
const LONG_ROUND: f64 = 0.1;
const MOST_ROUNDS: f64 = 8.0;
/// Factor per round trip by which growth accelerates, and the maximum number of accelerated round trips.
const FASTER: f64 = 1.25;
const MOST_FASTER: f64 = 30.0;
/// Minimum window increase per round trip in segments.
const LEAST_STEP: f64 = 0.5;
/// Minimum ratio of the window to the bytes that the path holds, for the square root.
const LEAST_SHARE: f64 = 0.001;
/// Maximum window: a multiple of the bytes delivered in a round trip, plus a number of segments.
const CEILING: (f64, f64) = (2.0, 4.0);
/// Factor by which the capacity must change for the window to be scaled with it.
const CHANGED: f64 = 1.25;
/// Multiple of the threshold at which a queue is too long immediately.
const SUDDEN: f64 = 4.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// Number of round trips in which the window limited the flow.
    pub(super) rounds: u32,
    /// Shortest queue in this round trip, in seconds.
    least: f64,
}

impl Fill {
    pub(super) const fn new(rounds: u32, queueing: f64) -> Self {
        Self { rounds, least: queueing }
    }

    /// Processes an ACK. Returns whether the queue exceeded the threshold for a whole round trip, or exceeds it by far
    /// now.
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
    /// Returns the window increase per round trip in bytes.
    ///
    /// The increase is proportional to the square root of the window. Large flows therefore grow by a smaller fraction,
    /// and the total increase of the flows on a link rises with their number.
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

    /// Scales the window with a changed capacity, so that the flow keeps its share.
    fn scale(&mut self) {
        let Some(capacity) = self.model.capacity.rate() else { return };
        let ratio = capacity / self.scaled.unwrap_or(capacity);
        if self.scaled.is_none() || !(1.0 / CHANGED..=CHANGED).contains(&ratio) {
            self.scaled = Some(capacity);
            // Additional capacity is used as in slow start, because only delivered data proves it.
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
        // A queue that is kept short by ECN marks does not reveal other flows.
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
            // Slow start up to a window that the path is known or expected to hold.
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

//! Drain: a temporary window reduction that tests whether the queue drains with it.

use longhaul_cc::Ack;

use super::losses::Losses;
use super::model::Model;

/// Fraction of the bytes that the path holds without a queue to which the window is reduced. It is smaller on short
/// paths, where the threshold is a larger fraction of the RTT.
pub(super) const KEPT: (f64, f64) = (0.9, 0.96);
const KEPT_PART: f64 = 2.0;
/// With a longer queue, the window is reduced further, so that the queue drains within this number of round trips.
const EMPTY_ROUNDS: f64 = 2.0;
const MOST_EXTRA: f64 = 0.4;
/// Maximum length of a queue that overflowed, as a fraction of the RTT.
const MOST_OVERFLOW: f64 = 0.5;
/// After losses without a queue, the relative window reduction as a multiple of the loss rate.
const LOSS_FACTOR: f64 = 1.5;
/// Minimum of the reduced window as a fraction of the window, and the fraction in a test during competition.
const LEAST: f64 = 0.25;
const TEST: f64 = 0.1;
/// Maximum of the reduced window as a fraction of the window.
const MOST: f64 = 0.95;
/// Minimum window in segments. Below one segment, pacing maintains the rate.
pub(super) const TINY: f64 = 0.2;
/// Limit of the window in use: a multiple of the bytes delivered in a round trip, plus a number of segments.
const USED: (f64, f64) = (1.1, 4.0);
/// Fractions of its previous length and of the threshold at which the queue counts as drained.
const GONE: (f64, f64) = (0.25, 0.6);
/// Number of round trips without a decrease by a fifth after which the queue counts as remaining.
const STALLS: u32 = 4;
const SHORTER: f64 = 0.8;
/// Number of round trips until losses reflect the reduced window, and until enough of them have been counted.
const LOSS_ROUNDS: (u32, u32) = (2, 4);
/// Minimum number of round trips of a test during competition.
const TEST_ROUNDS: u32 = 2;

/// A delay is not caused by a queue if the flow's reduction exceeds this multiple of the noise, and the delay changes
/// by less than this fraction of the reduction.
const STILL: (f64, f64) = (2.0, 0.125);

/// Reason for a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A standing queue exceeds the threshold.
    Queue,
    Overflow,
    Mark,
    Losses,
    /// The RTT fell below all previous ones: a queue that was mistaken for path delay is becoming shorter, because
    /// other flows yield.
    Base,
}

/// Reduction of the window for several round trips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) cause: Cause,
    /// Whether CUBIC controlled the window before.
    pub(super) is_competing: bool,
    /// Window in use before the drain, and the part of it that the path holds without a queue.
    pub(super) window: f64,
    pub(super) held: f64,
    pub(super) lowered: f64,
    /// Delivery rate and queueing delay before the drain.
    pub(super) rate: f64,
    before: f64,
    /// Number of round trips of the preceding fill.
    pub(super) filled: u32,
    /// The longest queue since the first round trip.
    longest: f64,
    /// Shortest queue since the first round trip, over all complete round trips, in the last one, and in this one.
    least: f64,
    best: f64,
    last: f64,
    newest: f64,
    rounds: u32,
    stalls: u32,
}

impl Drain {
    pub(super) fn new(cause: Cause, is_competing: bool, window: f64, losses: &Losses, model: &Model) -> Self {
        let (lost, threshold) = (losses.rate(), model.threshold);
        let used = window.min(USED.0 * model.delivered() + USED.1 * model.mss);
        let mut held = model.without_queue(used) * (1.0 - lost);
        if cause == Cause::Overflow && !is_competing {
            // The lateness of the segments near the loss shows the length of the queue.
            held = held.min(used * (1.0 - model.part(losses.lateness()).clamp(0.0, MOST_OVERFLOW)));
        }
        let base = model.base().max(f64::MIN_POSITIVE);
        let kept = match cause {
            Cause::Losses => KEPT.0.min(1.0 - LOSS_FACTOR * lost),
            _ => {
                let least = (KEPT_PART * threshold / base).clamp(1.0 - KEPT.1, 1.0 - KEPT.0);
                1.0 - least - (model.delays.queueing() / (EMPTY_ROUNDS * base)).min(MOST_EXTRA)
            }
        };
        let lowered = if is_competing { TEST * window } else { (kept * held).clamp(LEAST * window, MOST * window) };
        Self {
            cause,
            is_competing,
            window: used,
            held,
            lowered: lowered.max(TINY * model.mss),
            rate: model.rate().max(1.0),
            before: model.delays.queueing(),
            filled: 0,
            longest: 0.0,
            least: f64::INFINITY,
            best: f64::INFINITY,
            last: f64::INFINITY,
            newest: f64::INFINITY,
            rounds: 0,
            stalls: 0,
        }
    }

    /// Returns whether losses already reflect the reduced window.
    pub(super) const fn shows_losses(&self) -> bool {
        self.rounds >= LOSS_ROUNDS.0
    }

    /// Processes an ACK with a queueing delay of `queueing` seconds. Returns whether the queue has drained, or `None`
    /// until this is known.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, queueing: f64, threshold: f64) -> Option<bool> {
        self.rounds += u32::from(ack.round_start);
        if self.rounds >= 1 {
            self.least = self.least.min(queueing);
            self.longest = self.longest.max(queueing);
        }
        self.newest = self.newest.min(queueing);
        if ack.round_start {
            self.stalls += u32::from(self.newest > SHORTER * self.best);
            self.best = self.best.min(self.newest);
            (self.last, self.newest) = (self.newest, queueing);
        }
        let shortest = if self.is_competing { self.newest.min(self.last) } else { self.least };
        let is_gone = shortest <= (GONE.0 * self.before).max(GONE.1 * threshold);
        let least = match self.cause {
            Cause::Losses => LOSS_ROUNDS.1,
            _ if self.is_competing => TEST_ROUNDS,
            _ => 1,
        };
        (self.rounds >= least && (is_gone || self.stalls >= STALLS)).then_some(is_gone)
    }

    /// Restarts with half of the reduced window, because the RTT has fallen below all previous ones.
    pub(super) fn on_shorter_base(&mut self, model: &Model) {
        self.cause = Cause::Base;
        self.lowered = (0.5 * self.lowered).max(TEST * self.window).max(TINY * model.mss);
        (self.rounds, self.stalls) = (0, 0);
        (self.least, self.best, self.newest) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    }

    /// Returns the part of the window that the path holds at the delivery rate before the drain, now that the RTT
    /// without a queue is known.
    pub(super) fn held_by(&self, model: &Model) -> f64 {
        let is_new = self.is_competing || self.cause == Cause::Base;
        if is_new { self.held.min(self.rate * model.base()) } else { self.held }
    }

    /// Returns the delay that did not change despite this flow's reduction, if `capacity` is known: it is not caused by
    /// a queue.
    pub(super) fn unmoved(&self, capacity: Option<f64>, noise: f64) -> Option<f64> {
        let taken = (self.window - self.lowered) / capacity?;
        let moved = self.before.max(self.longest) - self.least;
        (taken > STILL.0 * noise && moved < STILL.1 * taken).then_some(self.least)
    }

    pub(super) fn helped(&self) -> bool {
        self.least < 0.5 * self.before
    }
}

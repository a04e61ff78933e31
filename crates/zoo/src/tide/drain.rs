//! The experiment: give way, and see whether the queue follows.

use longhaul_cc::Ack;

use super::losses::Losses;
use super::model::Model;

/// Part of what the path holds without a queue to which the window is lowered. The part is less on short paths, where the
/// threshold is a larger part of the RTT,
pub(super) const KEPT: (f64, f64) = (0.9, 0.96);
const KEPT_PART: f64 = 2.0;
/// and with a longer queue, which is to be gone after this many round trips.
const EMPTY_ROUNDS: f64 = 2.0;
const MOST_EXTRA: f64 = 0.4;
/// A queue that overflowed is at most this part of the RTT.
const MOST_OVERFLOW: f64 = 0.5;
/// With losses without a queue, the window is lowered by this multiple of the loss rate.
const LOSS_FACTOR: f64 = 1.5;
/// The window is lowered at most to this part of it, and in a test beside others to this part.
const LEAST: f64 = 0.25;
const TEST: f64 = 0.1;
/// A lowered window is at most this part of it.
const MOST: f64 = 0.95;
/// Smallest window in segments. Below one segment, pacing keeps the rate.
pub(super) const TINY: f64 = 0.2;
/// The window in use, as a multiple of what was delivered in a round trip, and in segments more.
const USED: (f64, f64) = (1.1, 4.0);
/// The queue is gone at this part of its length before, or of the threshold.
const GONE: (f64, f64) = (0.25, 0.6);
/// The queue stays if it has not become shorter by a fifth in this many round trips.
const STALLS: u32 = 4;
const SHORTER: f64 = 0.8;
/// Round trips until losses show the effect of the window, and until they have been counted.
const LOSS_ROUNDS: (u32, u32) = (2, 4);
/// Least round trips of a test beside others.
const TEST_ROUNDS: u32 = 2;

/// A delay is no queue if the flow took away more than this multiple of the noise, and the delay changed by less than this
/// part of that.
const STILL: (f64, f64) = (2.0, 0.125);

/// Why the flow gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The queue stands above the threshold.
    Queue,
    Overflow,
    Mark,
    Losses,
    /// The RTT has become shorter than any before: a queue that was taken for the path becomes shorter, as others give way.
    Base,
}

/// A window that is lowered for some round trips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) cause: Cause,
    /// Whether CUBIC controlled the window before.
    pub(super) is_competing: bool,
    /// Window in use before, and what the path holds of it without a queue.
    pub(super) window: f64,
    pub(super) held: f64,
    pub(super) lowered: f64,
    /// Delivery rate and queueing delay before.
    pub(super) rate: f64,
    before: f64,
    /// Round trips of the fill before.
    pub(super) filled: u32,
    /// The longest queue since the first round trip.
    longest: f64,
    /// The shortest queue since the first round trip, of all complete round trips, of the last one and of this one.
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
            // The queue was as long as the segments near the loss say.
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

    /// Returns whether losses show the effect of the lowered window.
    pub(super) const fn shows_losses(&self) -> bool {
        self.rounds >= LOSS_ROUNDS.0
    }

    /// Processes an ACK with a queueing delay of `queueing` seconds, and returns whether the queue is gone once that is
    /// known.
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

    /// Continues, with half of the window, since the RTT has become shorter than any before.
    pub(super) fn on_shorter_base(&mut self, model: &Model) {
        self.cause = Cause::Base;
        self.lowered = (0.5 * self.lowered).max(TEST * self.window).max(TINY * model.mss);
        (self.rounds, self.stalls) = (0, 0);
        (self.least, self.best, self.newest) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    }

    /// Returns what the path holds of the window at the delivery rate before, now that the RTT without a queue is known.
    pub(super) fn held_by(&self, model: &Model) -> f64 {
        let is_new = self.is_competing || self.cause == Cause::Base;
        if is_new { self.held.min(self.rate * model.base()) } else { self.held }
    }

    /// Returns the delay that has not changed although this flow took a part away, if `capacity` is known: it is no queue.
    pub(super) fn unmoved(&self, capacity: Option<f64>, noise: f64) -> Option<f64> {
        let taken = (self.window - self.lowered) / capacity?;
        let moved = self.before.max(self.longest) - self.least;
        (taken > STILL.0 * noise && moved < STILL.1 * taken).then_some(self.least)
    }

    pub(super) fn helped(&self) -> bool {
        self.least < 0.5 * self.before
    }
}

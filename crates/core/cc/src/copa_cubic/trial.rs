//! Trial that finds the cause of a standing queueing delay: for two or more round trips, the window is the amount that
//! the path holds without a queue.
//!
//! The window becomes the delivery rate times the RTT without the queue. The sum of these windows over all flows equals
//! the path's capacity. If the flow is alone, or the other flows run the same trial, the queue drains. If other flows
//! fill the queue, it remains. If the delay does not change, and the flow is alone or nothing is lost, it is not a
//! queue: the route has become longer, or the link delays packets at random.

use crate::Ack;

/// Fraction of the path's capacity to which a trial reduces the window.
const KEEP: f64 = 0.9;
/// Minimum fraction of the window before the trial that is kept (RFC 5681, section 3.1).
const LEAST: f64 = 0.5;
/// Maximum fraction of the window before the trial that is kept.
const MOST: f64 = 0.9;
/// The queue has drained if at most this fraction of its delay remains.
const GONE: f64 = 0.25;
/// The delay is a queue if it decreases by at least this fraction of the delay removed by the smaller window.
const DECREASE: f64 = 0.25;
/// The expected decrease must exceed the variation of the delay by this factor, or its absence proves nothing.
const POWER: f64 = 4.0;

/// A trial in progress. Windows are in bytes, rates in bytes per second, delays in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// Window before the trial and during it, and the delivery rate before it.
    pub(super) window: f64,
    pub(super) lowered: f64,
    pub(super) rate: f64,
    /// Queueing delay before the trial.
    before: f64,
    /// Whether the flow had the whole link before the trial.
    is_alone: bool,
    /// Number of round trips begun since then, and the maximum.
    rounds: u32,
    most_rounds: u32,
    /// Minimum queueing delay from the second round trip on, in which the smaller window has an effect.
    least: f64,
    /// RTT without the queue, before the trial and now.
    base: (f64, f64),
    /// Minimum fraction of the window that is kept.
    keep: f64,
    /// Whether the trial only measures the RTT.
    pub(super) only_looks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cause {
    /// The delay, of this many seconds, is not a queue.
    NoQueue(f64),
    /// A queue of flows that have yielded, so that it has drained.
    Gone,
    /// A queue that other flows fill.
    Others,
}

impl Trial {
    /// Begins a trial with a window of `window` and a delivery rate of `rate`, over a path with an RTT of `base` and a
    /// queueing delay of `queueing`. `is_alone` states whether the flow has the whole link.
    pub(super) fn new(window: f64, rate: f64, base: f64, queueing: f64, is_alone: bool) -> Self {
        let mut trial = Self {
            window,
            lowered: window,
            rate,
            base: (base, base),
            before: queueing,
            keep: LEAST,
            is_alone,
            only_looks: false,
            rounds: 0,
            most_rounds: 2,
            least: f64::INFINITY,
        };
        trial.lower();
        trial
    }

    fn lower(&mut self) {
        self.lowered = (KEEP * self.rate * self.base.1).clamp(self.keep * self.window, MOST * self.window);
    }

    /// Waits for up to `rounds` round trips, at least two, for the queue to drain.
    pub(super) const fn waiting(mut self, rounds: u32) -> Self {
        self.most_rounds = rounds;
        self
    }

    /// Keeps at least the fraction `keep` of the window, instead of a half.
    pub(super) fn keeping(mut self, keep: f64) -> Self {
        self.keep = keep;
        self.lower();
        self
    }

    /// Only measures the RTT without a queue: the flow continues as before, regardless of the cause.
    pub(super) const fn looking(mut self) -> Self {
        self.only_looks = true;
        self
    }

    /// Processes an ACK with the current queueing delay and RTT without the queue. Returns whether the trial is over.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, queueing: f64, base: f64) -> bool {
        self.rounds += u32::from(ack.round_start);
        if base < self.base.1 {
            self.base.1 = base;
            self.lower();
        }
        if self.rounds >= 1 {
            self.least = self.least.min(queueing);
        }
        self.rounds >= 2 && (self.least <= GONE * self.before || self.rounds >= self.most_rounds)
    }

    /// Returns by how much the RTT without the queue fell, because the queue was longer than it seemed.
    pub(super) fn base_fell(&self) -> f64 {
        self.base.0 - self.base.1
    }

    /// Returns whether the queue has drained, up to a delay of `empty`.
    pub(super) fn is_gone(&self, empty: f64) -> bool {
        self.least <= (GONE * self.before).max(empty)
    }

    /// Returns the cause. `capacity` is the capacity of the link, if known, `empty` the delay of an empty queue, and
    /// `variation` the variation of the delay; `clean` states whether nothing has been lost for a long time. Without a
    /// capacity, a flow cannot know that it is alone.
    pub(super) fn cause(&self, capacity: Option<f64>, empty: f64, variation: f64, clean: bool) -> Cause {
        if self.is_gone(empty) {
            return Cause::Gone;
        }
        let Some(capacity) = capacity else { return Cause::Others };
        let removed = (self.window - self.lowered) / capacity;
        let expected = removed.min(self.before);
        let is_queue = self.before - self.least >= DECREASE * expected || expected < POWER * variation;
        // Other flows keep a queue at constant length only if it is full, which causes losses.
        let is_free = clean && expected > empty;
        if is_queue || !(self.is_alone || is_free) { Cause::Others } else { Cause::NoQueue(self.least) }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Time;

    use super::*;

    const MSS: f64 = 1448.0;
    /// 100 segments over 40 ms and 40 ms of queue: a rate of 1250 segments per second.
    const RATE: f64 = 1250.0 * MSS;

    fn trial(queueing: f64, is_alone: bool) -> Trial {
        let mut trial = Trial::new(100.0 * MSS, RATE, 0.04, 0.04, is_alone);
        let mut ack = Ack::new(Time::ZERO);
        // The delay of the first round trip does not count.
        assert!(!trial.on_ack(&ack, 0.0, 0.04));
        ack.round_start = true;
        assert!(!trial.on_ack(&ack, queueing, 0.04));
        assert!(trial.on_ack(&ack, queueing, 0.04));
        trial
    }

    /// 0.9 x 1250 segments/s x 40 ms are 45 segments, but at least half of the window remains. With a queue of a tenth,
    /// the pipe is 0.9 of the window.
    #[test]
    fn the_window_is_what_the_path_holds() {
        assert_eq!(trial(0.04, true).lowered, 50.0 * MSS);
        assert!((Trial::new(100.0, 2000.0, 0.045, 0.005, true).lowered - 81.0).abs() < 1e-9);
        assert_eq!(Trial::new(100.0, 2500.0, 0.04, 0.0001, true).lowered, 90.0);
    }

    /// The window follows an RTT that turns out to be shorter, down to what it keeps.
    #[test]
    fn the_window_follows_the_rtt() {
        let mut trial = Trial::new(100.0, 2000.0, 0.045, 0.005, false).keeping(0.1);
        assert!(!trial.on_ack(&Ack::new(Time::ZERO), 0.005, 0.02));
        assert!((trial.lowered - 36.0).abs() < 1e-9 && (trial.base_fell() - 0.025).abs() < 1e-9);
        assert!(!trial.on_ack(&Ack::new(Time::ZERO), 0.005, 0.001));
        assert!((trial.lowered - 10.0).abs() < 1e-9);
    }

    /// 50 segments fewer at 1250 per second remove 40 ms.
    #[test]
    fn the_cause_is_what_the_delay_does() {
        let cause = |queueing, is_alone| trial(queueing, is_alone).cause(Some(RATE), 0.001, 0.0, false);
        assert_eq!(cause(0.01, true), Cause::Gone);
        assert_eq!(cause(0.03, true), Cause::Others);
        assert_eq!(cause(0.031, true), Cause::NoQueue(0.031));
        assert_eq!(cause(0.031, false), Cause::Others, "with others, a full queue does not change either");
        let beside = |capacity, empty, clean| trial(0.0391, false).cause(capacity, empty, 0.0, clean);
        assert_eq!(beside(Some(10.0 * RATE), 0.001, true), Cause::NoQueue(0.0391), "a full queue would lose something");
        assert_eq!(beside(Some(10.0 * RATE), 0.001, false), Cause::Others);
        assert_eq!(
            beside(Some(10.0 * RATE), 0.004, true),
            Cause::Others,
            "the change is that of a queue of two segments"
        );
        assert_eq!(trial(0.0391, true).cause(None, 0.001, 0.0, true), Cause::Others, "who is alone is unknown");
    }

    /// A trial that waits ends with the second round trip if the queue is gone, and otherwise after its last one.
    #[test]
    fn a_trial_waits_for_the_others() {
        let mut ack = Ack::new(Time::ZERO);
        ack.round_start = true;
        for (queueing, rounds) in [(0.01, 2), (0.011, 6)] {
            let mut trial = Trial::new(100.0 * MSS, RATE, 0.04, 0.04, true).waiting(6);
            assert_eq!((1..10).find(|_| trial.on_ack(&ack, queueing, 0.04)), Some(rounds), "{queueing} s");
        }
    }

    /// A flow with a tenth of the link cannot change the delay by more than a tenth of that.
    #[test]
    fn a_small_share_expects_a_small_change() {
        let cause = |queueing, variation| trial(queueing, true).cause(Some(10.0 * RATE), 0.001, variation, false);
        assert_eq!(cause(0.0389, 0.0), Cause::Others);
        assert_eq!(cause(0.0391, 0.0), Cause::NoQueue(0.0391));
        assert_eq!(cause(0.0391, 0.0011), Cause::Others, "the delay varies by more");
    }
}

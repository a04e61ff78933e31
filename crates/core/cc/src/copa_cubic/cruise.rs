//! Cruise mode: additions to Copa while it controls the window.

use longhaul_units::{Bytes, Span, Time};

use super::trial::Trial;
use super::{ALONE, CopaCubic, HOST_DELAY, KEPT, LEVEL, Mode, UNTOUCHED};
use crate::{Ack, Episode, Path};

/// Number of round trips with a queue after which its cause is tested even if it is short.
const PATIENCE: u32 = 50;
/// Maximum window in segments for which a queue is not tested merely because the flow is new, as such a window has not
/// filled it.
const NEWCOMER_WINDOW: f64 = 20.0;
/// Number of round trips for which a trial waits for the queue to drain. Other `copa-cubic` flows begin their trials
/// within a few round trips.
const TRIAL_ROUNDS: u32 = 6;
/// Number of round trips for which the flow reduces its window to measure the RTT without a queue.
const LOOK_ROUNDS: u32 = 4;
/// Minimum number of round trips between two queues that are assumed to be the flow's own, without a trial.
const OWN_QUEUE_ROUNDS: u32 = 20;
/// Fraction of the path's capacity below which the link counts as unused.
const UNUSED: f64 = 0.8;
/// Fraction of the path's capacity up to which the window grows quickly.
const GROW_TO: f64 = 0.95;
/// Number of round trips with an empty queue after which the window grows quickly, in general, and if the flow has
/// recently been alone, which means that the link has become faster.
const UNUSED_ROUNDS: (u32, u32) = (10, 1);
const RECENT_ROUNDS: u32 = 8;
/// Maximum of the first number of [`UNUSED_ROUNDS`], which doubles each time a queue ends the growth early.
const MOST_PATIENCE: u32 = 640;
/// Maximum growth if the capacity is unknown.
const CAREFUL: f64 = 1.25;
/// Queueing delay that ends slow start if the capacity is unknown: fraction of the RTT and limits in seconds (RFC 9406,
/// section 4.3).
const HYSTART: (f64, f64, f64) = (0.125, 0.004, 0.016);
/// Minimum window in segments after a mark, and minimum limit of slow start after a timeout. With one segment in flight, each
/// loss is a timeout.
const LEAST_SEGMENTS: f64 = 2.0;
/// Number of round trips in which losses are attributed to slow start or a raised window.
pub(super) const OVERSHOOT_ROUNDS: u32 = 3;
/// Fraction of the window kept at a loss in a full queue (RFC 9438), and on an ECN mark (RFC 8511).
const KEEP: (f64, f64) = (0.7, 0.85);
/// Fraction of the RTT that the queue must exceed at such a loss if the capacity is unknown.
const LEAST_QUEUE: f64 = 1.0 / 16.0;
/// Time after competitive mode in which the flow returns to it if its rate falls below this fraction.
const REGRET: Span = Span::from_secs(5);
const LOST_OUT: f64 = 0.6;
/// Fraction of the RTT above which a queue is tested regardless of the rate.
const LONG: f64 = 0.5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cruise {
    /// The window in bytes when the queue was last nearly empty.
    pub(super) unfilled: f64,
    /// Delivery rate at that time.
    unfilled_rate: Option<f64>,
    /// Maximum queueing delay of this round trip in seconds, and the maximum delay above the minimum RTT.
    queueing: f64,
    raw: f64,
    /// Consecutive round trips in which the link was unused.
    unused: u32,
    /// Window in bytes at which slow start ends, and its value before the last timeout.
    grow_to: f64,
    before_timeout: f64,
    /// Consecutive round trips in which the link must be unused before the window grows quickly.
    patience: u32,
    /// Number of round trips since the flow had the whole link, and since a queue was assumed to be its own.
    since_alone: u32,
    since_own_queue: u32,
    /// Remaining round trips in which losses are attributed to slow start or a raised window.
    pub(super) overshoot: u32,
    /// Remaining round trips in which a queue is tested at once, because the flow has just begun.
    pub(super) newcomer: u32,
    /// Time at which competitive mode ended because other flows yielded, and the rate at that time.
    pub(super) competed: Option<(Time, f64)>,
    /// Total delivered bytes up to which marks belong to an earlier response.
    marked_until: Option<Bytes>,
}

impl Default for Cruise {
    fn default() -> Self {
        Self {
            unfilled: 0.0,
            unfilled_rate: None,
            queueing: 0.0,
            raw: 0.0,
            unused: 0,
            grow_to: f64::INFINITY,
            before_timeout: f64::INFINITY,
            patience: UNUSED_ROUNDS.0,
            since_alone: u32::MAX,
            since_own_queue: u32::MAX,
            overshoot: 0,
            newcomer: 0,
            competed: None,
            marked_until: None,
        }
    }
}

impl Cruise {
    /// Starts again on a route that may have changed.
    pub(super) const fn on_route(&mut self) {
        self.patience = UNUSED_ROUNDS.0;
    }

    /// Makes the queue alone end the next slow start.
    pub(super) const fn grow_without_limit(&mut self) {
        self.grow_to = f64::INFINITY;
    }

    /// Makes slow start after a timeout end at `window` bytes, which the path did not hold, but at no less than two
    /// segments. If the timeout occurred in such a slow start, the end is at no less than half of its limit. RFC 5681,
    /// section 3.1, resumes slow start up to a half.
    pub(super) fn on_timeout(&mut self, window: f64, in_slow_start: bool, mss: f64) {
        self.before_timeout = self.grow_to;
        let half = if in_slow_start && self.grow_to.is_finite() { self.grow_to / 2.0 } else { 0.0 };
        self.grow_to = window.max(half).max(LEAST_SEGMENTS * mss);
    }

    /// Restores the limit from before a spurious timeout.
    pub(super) const fn undo_timeout(&mut self) {
        self.grow_to = self.before_timeout;
    }
}

impl CopaCubic {
    pub(super) fn on_cruise_ack(&mut self, ack: &Ack<'_>, path: &Path) {
        // Copa moves the window.
        let (fraction, least, most) = HYSTART;
        let tolerated = (self.base().as_secs_f64() * fraction).clamp(least, most);
        self.copa.tolerated = if self.capacity.rate().is_some() { 0.0 } else { tolerated };
        let (grew, before) = (self.copa.slow_start, self.copa.cwnd);
        self.copa.decide(ack, path);
        if grew && !self.copa.slow_start {
            self.after_slow_start(ack);
        } else if grew && self.copa.cwnd >= self.cruise.grow_to {
            self.copa.take_over(self.cruise.grow_to, false);
        }
        // Losses caused by slow start or a raised window provide no information about the resulting window.
        if ack.round_start && self.cruise.overshoot > 0 {
            self.cruise.overshoot -= 1;
            self.copa.loss_bound.rest();
        }
        self.cruise.queueing = self.cruise.queueing.max(self.copa.delays.queueing());
        self.cruise.raw = self.cruise.raw.max(self.copa.delays.raw());
        if matches!(ack.episode, Episode::Enter | Episode::Again) {
            self.on_cruise_loss();
        }
        // All marks of a round trip are one signal (RFC 3168, section 6.1.2).
        self.cruise.marked_until.take_if(|until| ack.total_delivered >= *until);
        if ack.ecn_echo && self.cruise.marked_until.is_none() {
            (self.cruise.marked_until, self.cruise.unused) = (Some(ack.total_delivered + ack.in_flight), 0);
            let window = self.copa.cwnd;
            self.copa.kept = self.crowd.on_mark(window / self.mss.as_f64());
            self.copa.take_over((window * KEEP.1).max(window.min(LEAST_SEGMENTS * self.mss.as_f64())), false);
        }
        self.on_reach_ack(ack, before);
        if ack.round_start {
            self.on_cruise_round(ack, path);
        }
    }

    /// Sets the window to the path's capacity, so that the queue of slow start drains within a round trip. The delivery
    /// rate lags behind the window by a round trip, in which the window has doubled.
    fn after_slow_start(&mut self, ack: &Ack<'_>) {
        let window = self.copa.cwnd;
        // The window is below the capacity: the link was in use, or has less capacity than arrival times show.
        if self.held().is_some_and(|held| window < UNUSED * held) {
            self.cruise.patience = (2 * self.cruise.patience).min(MOST_PATIENCE);
        }
        let Some(sample) = ack.rate else { return };
        let held = self.window_for(sample.rate.as_bytes_per_sec() as f64);
        let least = if self.capacity.rate().is_some() { 0.0 } else { window / 2.0 };
        self.copa.take_over(window.min(held.max(least)), false);
        self.cruise.overshoot = OVERSHOOT_ROUNDS;
    }

    /// Responds to a loss if the flow is not alone and the queue is as long as at earlier losses. Other losses are
    /// random.
    fn on_cruise_loss(&mut self) {
        let (window, queueing) = (self.copa.cwnd, self.copa.delays.queueing());
        let level = self.level.level(window / self.mss.as_f64());
        self.level.on_loss();
        let share = self.share();
        let least = if share.is_some() { 0.0 } else { LEAST_QUEUE * self.base().as_secs_f64() };
        let is_alone = share.is_some_and(|share| share > ALONE);
        let is_long = queueing > self.usual_queueing().max(least);
        let is_congested = level >= LEVEL.1;
        if is_congested && !is_alone && share.is_some() {
            self.copa.kept = self.crowd.on_loss(window / self.mss.as_f64());
        }
        let is_full = is_congested && (is_long || share.is_some() && self.copa.loss_bound.is_on());
        if is_full && !is_alone && (share.is_some() || !self.copa.loss_bound.is_on()) {
            self.copa.take_over(window * KEEP.0, false);
        }
    }

    /// Returns twice the delay of the queue that Copa keeps at `rate`, in seconds.
    fn kept_queueing(&self, rate: Option<f64>) -> Option<f64> {
        rate.map(|rate| 2.0 * KEPT * self.mss.as_f64() / rate)
    }

    /// Returns [`kept_queueing`](Self::kept_queueing) for the current rate, or zero if that is unknown.
    fn usual_queueing(&self) -> f64 {
        self.kept_queueing(self.rounds.rate()).unwrap_or_default()
    }

    fn on_cruise_round(&mut self, ack: &Ack<'_>, path: &Path) {
        let (queueing, raw) = (self.cruise.queueing, self.cruise.raw);
        (self.cruise.queueing, self.cruise.raw) = (0.0, 0.0);
        let share = self.share();
        let is_alone = share.is_some_and(|share| share > ALONE);
        if is_alone {
            self.cruise.patience = UNUSED_ROUNDS.0;
        }
        self.cruise.since_alone = if is_alone { 0 } else { self.cruise.since_alone.saturating_add(1) };
        self.cruise.since_own_queue = self.cruise.since_own_queue.saturating_add(1);
        self.copa.kept = self.crowd.on_round(self.copa.cwnd / self.mss.as_f64());
        // The floor was part of every delay of the round trip.
        let floor = self.copa.delays.floor();
        self.copa.delays.set_floor(floor.min(Span::from_secs_f64(raw)));
        if self.config.compete && !self.copa.slow_start && self.is_crowded(share) {
            return self.begin_competition(self.copa.cwnd, ack.now, path);
        }
        if self.copa.loss_bound.is_on() {
            self.cruise.unused = 0;
            return;
        }
        if self.copa.competition.filled <= 1 {
            self.cruise.unfilled = self.copa.cwnd;
            self.cruise.unfilled_rate = self.rounds.rate();
        }
        let is_new = self.cruise.newcomer > 0
            && self.copa.cwnd > NEWCOMER_WINDOW * self.mss.as_f64()
            && queueing > self.empty()
            && share.is_some_and(|share| share < ALONE);
        self.cruise.newcomer = self.cruise.newcomer.saturating_sub(1);
        if let Some(rate) = self.has_lost_out(ack) {
            return self.begin_competition(self.window_for(rate), ack.now, path);
        }
        if ack.now.since(self.touched) > UNTOUCHED
            && let Some(rate) = self.rounds.rate()
        {
            self.touched = ack.now;
            let trial = Trial::new(self.copa.cwnd, rate, self.base().as_secs_f64(), queueing, false);
            self.mode = Mode::Trial(trial.looking().waiting(LOOK_ROUNDS));
        } else if self.copa.competition.is_on() || is_new {
            self.on_filled(share, is_new);
        } else {
            self.look_for_room(ack, queueing);
        }
    }

    /// Returns the rate that the flow had in competitive mode if it has lost much of it since then. This means that the
    /// other flows did not yield.
    fn has_lost_out(&mut self, ack: &Ack<'_>) -> Option<f64> {
        let (at, rate) = self.cruise.competed?;
        let is_over = ack.now.since(at) > REGRET;
        let has_lost = self.copa.competition.filled > 1 && self.rounds.rate().is_some_and(|now| now < LOST_OUT * rate);
        self.cruise.competed.take_if(|_| is_over || has_lost);
        (has_lost && !is_over).then_some(rate)
    }

    /// Returns the maximum queueing delay, in seconds, of a queue that Copa itself keeps. The rate used is that at the
    /// last empty queue if that was higher: if others fill the queue, the flow's rate decreases, and their queue would
    /// otherwise be attributed to Copa at that decreasing rate.
    pub(super) fn tested_queueing(&self) -> f64 {
        let before = self.kept_queueing(self.cruise.unfilled_rate).unwrap_or(f64::INFINITY);
        self.usual_queueing().min(before).min(LONG * self.base().as_secs_f64())
    }

    /// Finds the cause of a queue that remains. A queue that Copa itself keeps needs no cause, unless it remains for a
    /// long time.
    fn on_filled(&mut self, share: Option<f64>, is_new: bool) {
        let queueing = self.copa.delays.queueing();
        let is_due = is_new || queueing > self.tested_queueing() || self.copa.competition.filled > PATIENCE;
        let Some(rate) = self.rounds.rate().filter(|_| is_due) else { return };
        let window = self.copa.cwnd;
        if share.is_some_and(|share| share > ALONE) && self.cruise.since_own_queue > OWN_QUEUE_ROUNDS {
            // The flow's own queue, for instance because the link has become slower.
            self.cruise.since_own_queue = 0;
            return self.copa.take_over(window.min(self.window_for(rate)), false);
        }
        // If the flow does not have the whole link, a constant delay may be a full queue of other flows.
        let is_alone = share.is_some_and(|share| share > ALONE);
        let trial = Trial::new(window, rate, self.base().as_secs_f64(), queueing, is_alone);
        self.mode = Mode::Trial(trial.waiting(TRIAL_ROUNDS));
    }

    /// Returns the number of bytes that the path holds without a queue.
    pub(super) fn held(&self) -> Option<f64> {
        Some(self.capacity.rate()? * (self.base().as_secs_f64() + self.silence()))
    }

    /// Lets the window grow quickly while the link is unused. `queueing` is the maximum queueing delay of the last round
    /// trip.
    fn look_for_room(&mut self, ack: &Ack<'_>, queueing: f64) {
        let window = self.copa.cwnd;
        let may_grow = ack.cwnd_limited && !self.copa.slow_start;
        let Some(capacity) = self.capacity.rate() else {
            return self.count_unused(may_grow && queueing == 0.0, UNUSED_ROUNDS.0);
        };
        let held = self.held().unwrap_or_default();
        if self.copa.slow_start && window >= GROW_TO * held {
            self.copa.take_over(GROW_TO * held, false);
        }
        let is_empty = queueing <= 1.5 * self.mss.as_f64() / capacity + HOST_DELAY;
        let was_alone = self.cruise.since_alone <= RECENT_ROUNDS;
        let rounds = if was_alone { UNUSED_ROUNDS.1 } else { self.cruise.patience };
        self.count_unused(may_grow && is_empty && window < UNUSED * held, rounds);
    }

    fn count_unused(&mut self, is_unused: bool, rounds: u32) {
        self.cruise.unused = if is_unused { self.cruise.unused + 1 } else { 0 };
        if self.cruise.unused >= rounds {
            self.cruise.unused = 0;
            let window = self.copa.cwnd;
            self.cruise.grow_to = if self.capacity.rate().is_some() { f64::INFINITY } else { window * CAREFUL };
            self.copa.take_over(window, true);
        }
    }
}

//! Competition with flows that fill the queue: CUBIC, and tests whether they are still there.

use longhaul_units::{Span, Time};

use super::drain::Cause;
use super::{Phase, Tide};
use crate::{Ack, Controller, Episode, Path};

/// Shortest time between two tests, the factor by which failures lengthen it, and the longest one.
///
/// A test is due whenever a multiple of this time has passed on the clock. The flows of a host, and of hosts with the
/// same time, thus test together; one by one, the flows that fill a queue together would each find the queue of the others.
pub(super) const GAP: (Span, u64, Span) = (Span::from_secs(5), 4, Span::from_secs(80));
/// The flow is alone if it has this share of the capacity for so many round trips with a queue,
const ALONE: (f64, u32) = (0.92, 3);
/// and if there was no queue for so many: in a queue that is longer than the RTT, and in others.
const EMPTY: (u32, u32) = (2, 20);
/// With a share of more than this of the capacity, a loss halves the window.
const LARGE: f64 = 0.55;
const LARGE_KEPT: f64 = 0.5;
/// In a queue that overflows below this multiple of the threshold, others do not show by a drain.
const SHALLOW: f64 = 1.5;
/// In one that overflows below this part of the RTT, others may let it run empty; a second overflow within this time
/// shows them.
const EMPTIED: (f64, Span) = (0.6, Span::from_secs(10));
/// Share of the capacity from which a flow is alone where the queue overflows.
pub(super) const OWN_OVERFLOW: f64 = 0.85;

/// State of the competition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compete {
    tested: Time,
    /// Round trips that the flow was alone, and without a queue, so far; whether there was a queue in this one.
    alone: u32,
    empty: u32,
    is_filled: bool,
    /// Whether the losses of this episode are hidden from CUBIC.
    hides: bool,
    /// Whether losses without a delay, which went away with the rate, have come back: others share a policer.
    pub(super) is_policed: bool,
    /// Window that a large flow has after this episode.
    halved: Option<f64>,
}

impl Compete {
    fn on_round(&mut self, share: Option<f64>) {
        let is_alone = self.is_filled && share.is_some_and(|share| share > ALONE.0);
        self.alone = if is_alone { self.alone + 1 } else { 0 };
        self.empty = if self.is_filled { 0 } else { self.empty + 1 };
        self.is_filled = false;
    }
}

fn longer(gap: Span) -> Span {
    (gap * GAP.1).min(GAP.2)
}

/// Returns whether a test is due: when a multiple of `gap` has passed since the last one on the clock that is `shared`
/// by being so much ahead, or if there is none, when `gap` has passed.
pub(super) fn is_due(tested: Time, now: Time, gap: Span, shared: Option<Span>) -> bool {
    match shared {
        Some(ahead) => {
            let period = |at: Time| (at + ahead).as_nanos() / gap.as_nanos();
            period(now) != period(tested)
        }
        None => now.since(tested) > gap,
    }
}

impl Tide {
    /// Returns whether the queue has overflowed because of others.
    pub(super) fn is_contested(&mut self, now: Time) -> bool {
        let is_second = self.overflowed.is_some_and(|at| now.since(at) < EMPTIED.1);
        if !is_second {
            self.overflowed = Some(now);
        }
        if self.model.capacity().is_none() {
            return self.has_drained;
        }
        let overflow = self.losses.overflow().unwrap_or(0.0);
        let is_short = overflow < SHALLOW * self.model.wanted();
        let empties = is_second && overflow < EMPTIED.0 * self.model.base();
        self.has_drained && (is_short || empties)
    }

    /// Begins to compete with `window` bytes. If the flow has left this mode only recently, that was wrong, and tests
    /// become rarer.
    pub(super) fn compete(&mut self, window: f64, now: Time, path: &Path) {
        let was_wrong = self.left.is_some_and(|left| now.since(left) < self.gap * 2);
        self.gap = if was_wrong { longer(self.gap) } else { GAP.0 };
        self.continue_competing(now);
        self.cubic.take_over(window, now, path);
    }

    /// Continues to compete after a test that others have not passed.
    pub(super) fn resume_competing(&mut self, now: Time) {
        self.gap = longer(self.gap);
        self.continue_competing(now);
    }

    fn continue_competing(&mut self, now: Time) {
        self.model.set_expiry(false);
        self.phase = Phase::Compete(Compete { tested: now, ..Compete::default() });
    }

    pub(super) fn on_compete_ack(&mut self, mut mode: Compete, ack: &Ack<'_>, path: &Path) {
        let before = self.cubic.window().cwnd;
        // Losses of the link are hidden from CUBIC.
        let overflows = self.losses.on_ack(ack, false, &self.model);
        match ack.episode {
            Episode::Enter | Episode::Again => {
                let is_policed = mode.is_policed && self.losses.exceed_link();
                mode.hides = !overflows && !self.losses.are_many(self.model.mss) && !is_policed;
            }
            Episode::None => mode.hides = false,
            _ if self.losses.are_blurred(&self.model) => mode.hides = false,
            _ => {}
        }
        let ack = Ack { episode: if mode.hides { Episode::None } else { ack.episode }, ..*ack };
        self.cubic.on_ack(&ack, path);
        let share = self.model.share().filter(|_| ack.cwnd_limited);
        self.hold_large(&mut mode, share, before, &ack, path);

        let (queueing, threshold) = (self.model.queueing(), self.threshold());
        mode.is_filled |= queueing > threshold;
        if ack.round_start {
            mode.on_round(share);
        }
        self.phase = Phase::Compete(mode);
        let waited = ack.now.since(mode.tested) > self.gap;
        let is_deep = self.losses.overflow().is_some_and(|overflow| overflow > self.model.base());
        if mode.alone >= ALONE.1
            || is_deep && mode.empty >= EMPTY.0
            || waited && !mode.is_policed && mode.empty >= EMPTY.1
        {
            self.left = Some(ack.now);
            return self.fill(self.model.without_queue(self.cubic.window().cwnd), 0.0);
        }
        if is_due(mode.tested, ack.now, self.gap, self.shared_clock) {
            self.drain(Cause::Overflow, true);
        } else if self.base_fell() {
            self.drain(Cause::Base, true);
        }
    }

    /// Halves the window of a flow that has more than half of the link at a loss, where CUBIC would keep 0.7 of it.
    fn hold_large(&mut self, mode: &mut Compete, share: Option<f64>, before: f64, ack: &Ack<'_>, path: &Path) {
        if ack.episode == Episode::Enter && share.is_some_and(|share| share > LARGE) {
            mode.halved = Some(LARGE_KEPT * before);
        }
        if ack.episode == Episode::Exit
            && let Some(window) = mode.halved.take()
            && window < self.cubic.window().cwnd
        {
            self.cubic.take_over(window, ack.now, path);
        }
    }
}

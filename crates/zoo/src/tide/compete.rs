//! Competition with flows that fill the queue: CUBIC, with periodic tests for such flows.

use longhaul_cc::{Ack, Controller, Episode, Path, update};
use longhaul_units::{Span, Time};

use super::drain::Cause;
use super::{Phase, Tide};

/// Minimum time between two tests, the factor by which failed tests increase it, and its maximum.
///
/// A test is due whenever a multiple of this time has passed on the shared clock, so that the flows of a host, and of
/// hosts with synchronized clocks, test together. If they tested one at a time, each of several flows that fill a queue
/// together would find the queue of the others.
pub(super) const GAP: (Span, u64, Span) = (Span::from_secs(5), 4, Span::from_secs(80));
/// Share of the capacity, for this number of round trips with a queue, from which a flow counts as alone.
const SOLE: (f64, u32) = (0.92, 3);
/// Number of round trips without a queue after which the flow also counts as alone: if the queue can hold more than an
/// RTT, and otherwise.
const EMPTY: (u32, u32) = (2, 20);
/// Share of the capacity above which a loss halves the window.
const LARGE: f64 = 0.55;
const LARGE_KEPT: f64 = 0.5;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compete {
    tested: Time,
    /// Number of round trips so far in which the flow was alone, and without a queue; whether there was a queue in this
    /// one.
    alone: u32,
    empty: u32,
    is_filled: bool,
    /// Whether the losses of this episode are hidden from CUBIC.
    hides: bool,
    /// Whether losses that had ended at a lower rate have returned, because other flows share a policer.
    pub(super) is_policed: bool,
    /// Window of a large flow after this episode.
    halved: Option<f64>,
}

impl Compete {
    fn on_round(&mut self, share: Option<f64>) {
        let is_alone = self.is_filled && share.is_some_and(|share| share > SOLE.0);
        self.alone = if is_alone { self.alone + 1 } else { 0 };
        self.empty = if self.is_filled { 0 } else { self.empty + 1 };
        self.is_filled = false;
    }
}

fn longer(gap: Span) -> Span {
    (gap * GAP.1).min(GAP.2)
}

/// Returns whether a test is due: if a multiple of `gap` has passed since the last one on the shared clock, which is
/// ahead by `shared`, or, without a shared clock, if `gap` has passed.
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
    /// Begins to compete with `window` bytes. If the flow left this mode only recently, leaving was wrong, and tests
    /// become less frequent.
    pub(super) fn compete(&mut self, window: f64, is_policed: bool, now: Time, path: &Path) {
        let was_wrong = self.left.is_some_and(|left| now.since(left) < self.gap * 2);
        self.gap = if was_wrong { longer(self.gap) } else { GAP.0 };
        self.continue_competing(is_policed, now);
        (self.foreign, self.undo) = (0, None);
        self.cubic.take_over(window, now, path);
    }

    /// Continues to compete after a test in which the queue remained.
    pub(super) fn resume_competing(&mut self, now: Time) {
        self.gap = longer(self.gap);
        self.continue_competing(false, now);
    }

    fn continue_competing(&mut self, is_policed: bool, now: Time) {
        self.model.set_expiry(false);
        self.scaled = None;
        self.phase = Phase::Compete(Compete { tested: now, is_policed, ..Compete::default() });
    }

    pub(super) fn on_compete_ack(&mut self, mut mode: Compete, ack: &Ack<'_>, path: &Path) {
        let before = self.cubic.window().cwnd;
        // Losses caused by the link itself are hidden from CUBIC.
        let overflows = self.losses.on_ack(ack, false, &self.model);
        match ack.episode {
            Episode::Enter | Episode::Again => {
                let is_policed = mode.is_policed && self.losses.exceed_link();
                mode.hides = !overflows && !self.losses.are_many(self.model.mss) && !is_policed;
            }
            Episode::None | Episode::Rto => (mode.hides, mode.halved) = (false, None),
            _ => {}
        }
        let ack = update!(Ack { episode: if mode.hides { Episode::None } else { ack.episode }, ..*ack });
        self.cubic.on_ack(&ack, path);
        let share = self.model.share().filter(|_| ack.cwnd_limited);
        self.hold_large(&mut mode, share, before, &ack, path);

        mode.is_filled |= self.model.delays.queueing() > self.model.threshold;
        if ack.round_start {
            mode.on_round(share);
        }
        self.phase = Phase::Compete(mode);
        let waited = ack.now.since(mode.tested) > self.gap;
        let is_deep = self.losses.overflow().is_some_and(|overflow| overflow > self.model.base());
        if mode.alone >= SOLE.1
            || is_deep && mode.empty >= EMPTY.0
            || waited && !mode.is_policed && mode.empty >= EMPTY.1
        {
            self.left = Some(ack.now);
            return self.fill(self.model.without_queue(self.cubic.window().cwnd), 0.0);
        }
        if is_due(mode.tested, ack.now, self.gap, self.shared_clock) {
            self.drain(Cause::Overflow, true);
        } else if self.update_base() {
            self.drain(Cause::Base, true);
        }
    }

    /// At a loss, halves the window of a flow with more than half of the link, where CUBIC would keep 0.7 of it.
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

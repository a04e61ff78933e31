//! Competitive mode: what CUBIC lacks beside other flows, and when the mode ends.

use longhaul_units::{Span, Time, math};

use super::trial::Trial;
use crate::{Ack, Episode};

/// Share of the capacity above which the flow is alone,
const ALONE: f64 = 0.92;
/// and for how many round trips, before the mode ends.
const ALONE_ROUNDS: u32 = 3;
/// Round trips with an empty queue before the mode ends.
const EMPTY_ROUNDS: u32 = 20;
/// Time between two trials: at first, and the maximum if they fail.
const GAP: (Span, Span) = (Span::from_secs(5), Span::from_secs(40));
/// Share of the link above which the flow is held back. A flow with more than half is too aggressive for any number of
/// others.
const HALF: f64 = 0.55;
/// Fraction of the window kept at a loss above that share.
const KEEP: f64 = 0.5;
/// Weight of a round trip in the share.
const SHARE_GAIN: f64 = 0.25;
/// CUBIC's fraction of the window that a loss removes, and its constant C in segments per cubic second (RFC 9438).
const CUBIC: (f64, f64) = (0.3, 0.4);

/// State of the competitive mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Competition {
    /// Consecutive round trips in which the flow had the whole link and a queue.
    alone: u32,
    /// Round trips that began since the queue became empty, and the time of that.
    empty: u32,
    empty_since: Time,
    /// Whether there was a queue in this round trip.
    is_filled: bool,
    /// The largest window at a loss, in segments.
    at_loss: f64,
    /// The trial in progress, the time of the last one, and the time between two.
    trial: Option<Trial>,
    tried_at: Time,
    gap: Span,
    /// Moving average of the share of the capacity.
    share: f64,
    /// Window to keep after a loss with more than half of the link.
    halved: Option<f64>,
    /// The window at the beginning of this round trip.
    at_round: f64,
}

impl Competition {
    /// The mode begins at `now`.
    pub(super) const fn new(now: Time) -> Self {
        Self {
            alone: 0,
            empty: 0,
            empty_since: now,
            is_filled: true,
            at_loss: 0.0,
            trial: None,
            tried_at: now,
            gap: GAP.0,
            share: 0.0,
            halved: None,
            at_round: f64::INFINITY,
        }
    }

    /// Returns the upper limit of the window in bytes.
    pub(super) fn limit(&self) -> f64 {
        let trial = self.trial.map_or(f64::INFINITY, |trial| trial.lowered());
        trial.min(self.halved.unwrap_or(f64::INFINITY))
    }

    /// Returns whether a loss at `now` may begin a trial. Losses in a full queue occur to many flows in the same round
    /// trip, so that flows of this kind run their trials together.
    pub(super) fn may_try(&self, now: Time) -> bool {
        self.trial.is_none() && now.since(self.tried_at) >= self.gap
    }

    /// Begins `trial` at `now`.
    pub(super) const fn begin(&mut self, now: Time, trial: Trial) {
        (self.trial, self.tried_at) = (Some(trial), now);
    }

    /// Processes an ACK during a trial. If the queue is gone, up to a delay of `empty` seconds, returns the trial. If
    /// not, the next trial follows later.
    pub(super) fn on_trial_ack(&mut self, ack: &Ack<'_>, queueing: f64, empty: f64) -> Option<Trial> {
        let trial = self.trial.as_mut()?;
        if !trial.on_ack(ack, queueing) {
            return None;
        }
        let trial = self.trial.take().filter(|trial| trial.is_gone(empty));
        if trial.is_none() {
            self.gap = (self.gap * 2).min(GAP.1);
        }
        trial
    }

    /// Holds the flow to half of the link: with a larger share, the window grows by at most a segment per round trip,
    /// and a loss halves it. CUBIC's window was `before` bytes prior to this ACK, and is `window` now; `share` is the
    /// share of the capacity in the round trip that ends. Returns the window from which CUBIC has to begin again.
    pub(super) fn hold(
        &mut self,
        ack: &Ack<'_>,
        share: Option<f64>,
        before: f64,
        window: f64,
        mss: f64,
    ) -> Option<f64> {
        if let Some(share) = share {
            self.share += SHARE_GAIN * (share - self.share);
        }
        let is_more_than_half = self.share > HALF;
        match ack.episode {
            Episode::Enter if is_more_than_half && window < before => self.halved = Some(before * KEEP),
            Episode::None | Episode::Exit | Episode::Rto => {
                if let Some(halved) = self.halved.take() {
                    self.at_round = halved;
                    return Some(halved.min(window));
                }
            }
            _ => {}
        }
        if !ack.round_start {
            return None;
        }
        let grown = self.at_round + mss;
        let held = (is_more_than_half && ack.episode == Episode::None && window > grown).then_some(grown);
        self.at_round = held.unwrap_or(window);
        held
    }

    /// Processes an ACK with a window of `window` segments. `is_empty` is whether the queue is nearly empty, `share` the
    /// share of the capacity in the round trip that ends. Returns whether the mode ends: the flow has the whole link, or
    /// the queue stays empty for longer than a CUBIC flow would leave it empty.
    pub(super) fn is_over(&mut self, ack: &Ack<'_>, is_empty: bool, share: Option<f64>, window: f64) -> bool {
        if ack.newly_lost.0 > 0 {
            self.at_loss = self.at_loss.max(window);
        }
        self.is_filled |= !is_empty;
        if !ack.round_start {
            return false;
        }
        self.alone = if self.is_filled && share.is_some_and(|share| share > ALONE) { self.alone + 1 } else { 0 };
        (self.empty, self.empty_since) = if self.is_filled { (0, ack.now) } else { (self.empty + 1, self.empty_since) };
        self.is_filled = !is_empty;
        // CUBIC returns to the window of its last loss after K (RFC 9438, section 4.2).
        let k = Span::from_secs_f64(math::cbrt(CUBIC.0 * self.at_loss.max(window) / CUBIC.1));
        let is_empty_for_long = self.empty >= EMPTY_ROUNDS && ack.now.since(self.empty_since) >= k;
        self.alone >= ALONE_ROUNDS || is_empty_for_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: f64 = 1448.0;

    fn ack(now: u64, round_start: bool) -> Ack<'static> {
        let mut ack = Ack::new(Time::ZERO + Span::from_millis(now));
        ack.round_start = round_start;
        ack
    }

    /// K for 100 segments is cbrt(0.3 x 100 / 0.4) = 4.2 s, longer than twenty round trips of 40 ms.
    #[test]
    fn the_mode_ends_once_cubic_would_be_back() {
        let mut mode = Competition::new(Time::ZERO);
        let ends = (1..1000).find(|round| mode.is_over(&ack(round * 40, true), true, None, 100.0));
        // The first round trip began with a queue.
        let seconds = ends.expect("an end") as f64 * 0.04 - 0.04;
        assert!((seconds - 75_f64.cbrt()).abs() < 0.08, "{seconds}");
        let mut full = Competition::new(Time::ZERO);
        assert!((1..1000).all(|round| !full.is_over(&ack(round * 40, true), false, Some(0.5), 100.0)));
    }

    #[test]
    fn the_mode_ends_if_the_flow_has_the_link() {
        let mut mode = Competition::new(Time::ZERO);
        let over =
            [0.95, 0.95, 0.5, 0.95, 0.95, 0.95].map(|share| mode.is_over(&ack(0, true), false, Some(share), 9.0));
        assert_eq!(over, [false, false, false, false, false, true]);
    }

    /// Above the share, the window grows by a segment per round trip; below, as CUBIC decides.
    #[test]
    fn more_than_half_is_held() {
        let mut mode = Competition::new(Time::ZERO);
        for _ in 0..20 {
            let held = mode.hold(&ack(0, true), Some(0.5), 100.0 * MSS, 100.0 * MSS, MSS);
            assert_eq!(held, None);
        }
        assert_eq!(mode.hold(&ack(0, true), Some(0.5), 100.0 * MSS, 120.0 * MSS, MSS), None);
        for _ in 0..20 {
            mode.hold(&ack(0, true), Some(0.8), 120.0 * MSS, 120.0 * MSS, MSS);
        }
        let held = mode.hold(&ack(0, true), Some(0.8), 120.0 * MSS, 130.0 * MSS, MSS);
        assert_eq!(held, Some(121.0 * MSS));
        // A loss halves the window from the end of the episode on, and limits it at once.
        let mut loss = ack(0, false);
        loss.episode = Episode::Enter;
        assert_eq!(mode.hold(&loss, None, 120.0 * MSS, 84.0 * MSS, MSS), None);
        assert_eq!(mode.limit(), 60.0 * MSS);
        let end = mode.hold(&ack(0, false), None, 84.0 * MSS, 84.0 * MSS, MSS);
        assert_eq!((end, mode.limit()), (Some(60.0 * MSS), f64::INFINITY));
    }

    /// Trials are five seconds apart, and twice as long after each that fails.
    #[test]
    fn failing_trials_become_rare() {
        let mut mode = Competition::new(Time::ZERO);
        let at = |secs| Time::ZERO + Span::from_secs(secs);
        assert!(!mode.may_try(at(4)) && mode.may_try(at(5)));
        mode.begin(at(5), Trial::new(100.0, 1000.0, 0.05, 0.05, false));
        assert_eq!(mode.limit(), 50.0);
        for _ in 0..2 {
            assert!(mode.on_trial_ack(&ack(5000, true), 0.05, 0.001).is_none());
        }
        assert!(!mode.may_try(at(14)) && mode.may_try(at(15)));
        mode.begin(at(15), Trial::new(100.0, 1000.0, 0.05, 0.05, false));
        mode.on_trial_ack(&ack(15_000, true), 0.0, 0.001);
        assert!(mode.on_trial_ack(&ack(15_000, true), 0.0, 0.001).is_some());
    }
}

//! Competitive mode: additions to CUBIC in competition with other flows, and the end of the mode.

use longhaul_units::{Span, Time, math};

use super::dip::{Delay, Dips};
use super::trial::Trial;
use crate::{Ack, Episode};

/// Share of the capacity above which the flow is alone.
const ALONE: f64 = 0.92;
/// Number of consecutive round trips above [`ALONE`] before the mode ends.
const ALONE_ROUNDS: u32 = 3;
/// Number of round trips with an empty queue before the mode ends.
const EMPTY_ROUNDS: u32 = 20;
/// Multiple of K without a loss after which no flow fills the queue, in addition to the minimum gap between two trials.
const LOSSLESS: f64 = 1.5;
/// Time between two trials: initial value, and maximum if they fail.
pub(super) const GAP: (Span, Span) = (Span::from_secs(5), Span::from_secs(40));
/// Minimum fraction of the window that a trial keeps, and number of round trips for which it waits for the queue to
/// drain.
const TRIAL: (f64, u32) = (0.1, 6);
/// Share of the link above which the flow is restrained. A flow with more than half is too aggressive towards any
/// number of others.
const HALF: f64 = 0.55;
/// Fraction of the window kept at a loss above that share.
const KEEP: f64 = 0.5;
/// Weight of a round trip in the share.
const SHARE_GAIN: f64 = 0.25;
/// CUBIC's fraction of the window that a loss removes, and its constant C in segments per cubic second (RFC 9438).
const CUBIC: (f64, f64) = (0.3, 0.4);

#[derive(Clone, Copy, Debug)]
pub(super) struct Competition {
    /// Consecutive round trips in which the flow had the whole link and a queue.
    alone: u32,
    /// Number of round trips begun since the queue became empty, and the time at which it became empty.
    empty: u32,
    empty_since: Time,
    is_filled: bool,
    /// The largest window at a loss, in segments.
    at_loss: f64,
    lost_at: Time,
    dips: Dips,
    /// The trial in progress, the time of the last one, and the time between two trials.
    trial: Option<Trial>,
    tried_at: Time,
    pub(super) gap: Span,
    /// Moving average of the share of the capacity.
    share: f64,
    /// Window to keep after a loss with more than half of the link.
    halved: Option<f64>,
    /// The window at the beginning of this round trip.
    at_round: f64,
}

/// The path as observed by a flow in a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) is_empty: bool,
    /// Share of the capacity in the completed round trip.
    pub(super) share: Option<f64>,
    /// The window, and the data in flight of all flows, in segments.
    pub(super) window: f64,
    pub(super) held: f64,
}

impl Competition {
    /// Begins the mode at `now`, with at least `gap` between two trials.
    pub(super) fn new(now: Time, gap: Span) -> Self {
        Self {
            alone: 0,
            empty: 0,
            empty_since: now,
            is_filled: true,
            at_loss: 0.0,
            lost_at: now,
            dips: Dips::default(),
            trial: None,
            tried_at: now,
            gap,
            share: 0.0,
            halved: None,
            at_round: f64::INFINITY,
        }
    }

    pub(super) const fn has_lost(&self) -> bool {
        self.at_loss > 0.0
    }

    /// Returns the upper limit of the window in bytes.
    pub(super) fn limit(&self) -> f64 {
        let trial = self.trial.map_or(f64::INFINITY, |trial| trial.lowered);
        trial.min(self.halved.unwrap_or(f64::INFINITY)).min(self.dips.limit())
    }

    /// Forgets the last dip: the data in flight after a timeout provides no information about other flows.
    pub(super) fn on_timeout(&mut self) {
        self.dips = Dips::default();
    }

    /// Processes an ACK with an RTT of `rtt` seconds over a link of `capacity` bytes per second, during and after a dip.
    pub(super) fn on_dip_ack(&mut self, ack: &Ack<'_>, rtt: f64, capacity: Option<f64>) {
        self.dips.on_ack(ack, rtt, capacity);
    }

    /// Begins the trial that `trial` returns if the last dip has shown that the other flows are also `copa-cubic`.
    /// Otherwise, if the queue has just overflowed, begins a dip from a window of `window` bytes, together with the
    /// trial if the flow has more than half of the link.
    pub(super) fn on_queue(&mut self, ack: &Ack<'_>, delay: Delay, window: f64, trial: impl FnOnce() -> Option<Trial>) {
        let is_evidence = self.dips.take_evidence() && delay.queueing > 2.0 * delay.empty;
        if self.trial.is_some() {
            return;
        }
        let is_apart = ack.now.since(self.tried_at) >= self.gap;
        // After wrong evidence, the next evidence is not trusted for some time.
        let mut is_due = is_evidence && (is_apart || self.gap <= GAP.0);
        if is_due {
            self.dips.on_trial();
        } else if self.dips.has_overflowed(ack.episode == Episode::Enter, delay) {
            self.dips.begin(window);
            is_due = self.share > HALF && self.dips.was_long && is_apart;
        }
        if is_due {
            self.trial = trial().map(|trial| trial.keeping(TRIAL.0).waiting(TRIAL.1));
            self.tried_at = ack.now;
        }
    }

    /// Processes an ACK during a trial. If the queue has drained, up to a delay of `empty` seconds, returns the trial.
    /// Otherwise, the next trial follows later. A queue that seems to have drained only because the path's RTT turned
    /// out to be shorter does not count.
    pub(super) fn on_trial_ack(&mut self, ack: &Ack<'_>, queueing: f64, base: f64, empty: f64) -> Option<Trial> {
        let trial = self.trial.as_mut()?;
        if !trial.on_ack(ack, queueing, base) {
            return None;
        }
        let trial = self.trial.take().filter(|trial| trial.is_gone(empty) && trial.base_fell() <= empty);
        if trial.is_none() {
            self.gap = longer(self.gap);
        }
        trial
    }

    /// Limits the flow to half of the link: with a larger share, the window grows by at most a segment per round trip,
    /// and a loss halves it. CUBIC's window was `before` bytes prior to this ACK, and is `window` now; `share` is the
    /// share of the capacity in the completed round trip. Returns the window from which CUBIC has to start again.
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

    /// Processes an ACK. Returns whether the mode ends: the flow has the whole link, the others respond to delay, or
    /// the queue has remained empty or without loss for longer than CUBIC flows would allow.
    pub(super) fn is_over(&mut self, ack: &Ack<'_>, view: &View) -> bool {
        let View { is_empty, share, window, held } = *view;
        if ack.newly_lost.0 > 0 {
            self.lost_at = ack.now;
            self.at_loss = self.at_loss.max(window);
        }
        self.is_filled |= !is_empty;
        if !ack.round_start {
            return false;
        }
        self.alone = if self.is_filled && share.is_some_and(|share| share > ALONE) { self.alone + 1 } else { 0 };
        (self.empty, self.empty_since) = if self.is_filled { (0, ack.now) } else { (self.empty + 1, self.empty_since) };
        self.is_filled = !is_empty;
        let is_empty_for_long = self.empty >= EMPTY_ROUNDS
            && ack.now.since(self.empty_since) >= Span::from_secs_f64(k(self.at_loss.max(window)));
        let is_lossless = ack.now.since(self.lost_at) >= Span::from_secs_f64(LOSSLESS * k(held)) + GAP.0;
        self.alone >= ALONE_ROUNDS || is_empty_for_long || is_lossless || self.dips.others_give_way()
    }
}

/// Returns the next time between trials, twice as long as `gap`.
pub(super) fn longer(gap: Span) -> Span {
    (gap * 2).min(GAP.1)
}

/// Returns K in seconds: the time in which a CUBIC flow returns to a window of `window` segments (RFC 9438, section 4.2).
fn k(window: f64) -> f64 {
    math::cbrt(CUBIC.0 * window / CUBIC.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SendLimit;

    const MSS: f64 = 1448.0;

    fn ack(now: u64, round_start: bool) -> Ack<'static> {
        let mut ack = Ack::new(Time::ZERO + Span::from_millis(now));
        ack.round_start = round_start;
        ack
    }

    fn mode() -> Competition {
        Competition::new(Time::ZERO, GAP.0)
    }

    fn view(is_empty: bool, share: Option<f64>) -> View {
        View { is_empty, share, window: 100.0, held: 100.0 }
    }

    /// Returns the seconds after which the mode ends, in round trips of 40 ms, a loss `lossy` in each.
    fn ends(view: &View, lossy: bool) -> Option<f64> {
        let mut mode = mode();
        let is_over = |round: &u64| {
            let mut ack = ack(round * 40, true);
            ack.newly_lost.0 = u64::from(lossy);
            mode.is_over(&ack, view)
        };
        (1..1000).find(is_over).map(|round| round as f64 * 0.04)
    }

    /// K for 100 segments is cbrt(0.3 x 100 / 0.4) = 4.2 s, longer than twenty round trips of 40 ms.
    #[test]
    fn the_mode_ends_once_cubic_would_be_back() {
        // The first round trip began with a queue.
        let empty = ends(&view(true, None), true).expect("an end") - 0.04;
        assert!((empty - 75_f64.cbrt()).abs() < 0.08, "{empty}");
        assert_eq!(ends(&view(false, Some(0.5)), true), None);
        let lossless = ends(&view(false, Some(0.5)), false).expect("an end");
        assert!((lossless - 1.5 * 75_f64.cbrt() - 5.0).abs() < 0.08, "{lossless}");
    }

    #[test]
    fn the_mode_ends_if_the_flow_has_the_link() {
        let mut mode = mode();
        let over =
            [0.95, 0.95, 0.5, 0.95, 0.95, 0.95].map(|share| mode.is_over(&ack(0, true), &view(false, Some(share))));
        assert_eq!(over, [false, false, false, false, false, true]);
    }

    /// Above the share, the window grows by a segment per round trip; below, as CUBIC decides.
    #[test]
    fn more_than_half_is_held() {
        let mut mode = mode();
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

    /// If the others restore their windows after a dip, a trial begins at once; after one that failed, only when the gap
    /// has passed. It needs a queue of more than twice the delay of an empty one, and no timeout in between.
    #[test]
    fn others_of_this_kind_are_tried_at_once() {
        for (gap, tried, rtt, timeout, expected) in [
            (GAP.0, 9, 0.09, false, true),
            (GAP.0 * 2, 9, 0.09, false, false),
            (GAP.0 * 2, 0, 0.09, false, true),
            (GAP.0, 9, 0.0521, false, true),
            (GAP.0, 9, 0.0519, false, false),
            (GAP.0, 9, 0.09, true, false),
        ] {
            let mut mode = mode();
            (mode.gap, mode.tried_at) = (gap, Time::ZERO + Span::from_secs(tried));
            let round = |mode: &mut Competition, episode: Episode, in_flight: f64, rtt: f64| {
                let mut ack = Ack { limit: SendLimit::Cwnd, ..ack(10_000, true) };
                (ack.episode, ack.in_flight.0) = (episode, in_flight as u64);
                mode.on_dip_ack(&ack, rtt, Some(1e6));
                let delay = Delay { queueing: rtt - 0.05, rtt, empty: 0.001 };
                mode.on_queue(&ack, delay, 50_000.0, || Some(Trial::new(50_000.0, 5e5, 0.05, 0.05, false)));
                mode.trial.is_some()
            };
            for _ in 0..10 {
                assert!(!round(&mut mode, Episode::None, 5e4, 0.1));
            }
            assert!(!round(&mut mode, Episode::Enter, 5e4, 0.1));
            // The others halve their 50 kB, and restore them.
            for _ in 0..3 {
                assert!(!round(&mut mode, Episode::None, 2.5e4, 0.05));
            }
            if timeout {
                mode.on_timeout();
            }
            let began = [(); 3].map(|()| round(&mut mode, Episode::None, 1e4, rtt));
            assert_eq!(began, [false, false, expected], "{gap:?} {tried} {rtt} {timeout}");
        }
    }

    /// A flow with more than half of the link begins a trial at an overflow, five seconds after the last one, and later
    /// after each that fails.
    #[test]
    fn failing_trials_become_rare() {
        let mut mode = mode();
        mode.share = 0.8;
        let trial = || Some(Trial::new(100.0, 1000.0, 0.05, 0.05, false));
        let overflow = |mode: &mut Competition, secs: u64| {
            for _ in 0..20 {
                mode.on_dip_ack(&ack(0, true), 0.1, None);
            }
            let mut loss = ack(secs * 1000, false);
            loss.episode = Episode::Enter;
            mode.on_queue(&loss, Delay { queueing: 0.05, rtt: 0.1, empty: 0.001 }, 100.0, trial);
            mode.trial.is_some()
        };
        assert!(!overflow(&mut mode, 4) && overflow(&mut mode, 5));
        assert_eq!(mode.limit(), 45.0, "0.9 x 1000 x 0.05");
        for _ in 0..TRIAL.1 {
            assert!(mode.on_trial_ack(&ack(5000, true), 0.05, 0.05, 0.001).is_none());
        }
        assert!(!overflow(&mut mode, 14) && overflow(&mut mode, 15));
        mode.on_trial_ack(&ack(15_000, true), 0.0, 0.05, 0.001);
        assert!(mode.on_trial_ack(&ack(15_000, true), 0.0, 0.05, 0.001).is_some());
        // A queue that seems gone because the RTT without it was wrong is not gone.
        assert!(overflow(&mut mode, 40));
        mode.on_trial_ack(&ack(40_000, true), 0.0, 0.04, 0.001);
        assert!(mode.on_trial_ack(&ack(40_000, true), 0.0, 0.04, 0.001).is_none());
    }
}

//! Constant delay, as on a route that has become longer.

use longhaul_units::{Span, Time};

use super::{CopaCubic, MOST_KEPT, Mode, RTT_MIN_LIFETIME};
use crate::estimate::WindowedMax;

/// Number of round trips for which the RTT must be constant.
const ROUNDS: u32 = 8;
/// Fraction of the RTT by which the delay may vary during these round trips.
const VARIATION: f64 = 0.02;

/// Share of the capacity below which a constant delay is not a queue of this flow.
const SLOW: f64 = 0.75;
/// Fraction of the previous maximum rate that the flow uses on the longer route.
const RESTORED: f64 = 0.9;

/// Number of consecutive round trips with a constant RTT, and the range of their RTTs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Still {
    rounds: u32,
    least: Span,
    most: Span,
}

/// Maximum delivery rate of a round trip, in bytes per second, which replaces the capacity if jitter hides it.
pub(super) type MostRate = WindowedMax;

pub(super) fn most_rate() -> MostRate {
    WindowedMax::new(RTT_MIN_LIFETIME.as_nanos())
}

impl Still {
    /// Handles the end of a round trip with an RTT of `rtt`. Returns whether the RTT has been constant for long enough.
    pub(super) fn on_round(&mut self, rtt: Span) -> bool {
        let (least, most) = (self.least.min(rtt), self.most.max(rtt));
        *self = if self.rounds > 0 && most <= least.mul_f64(1.0 + VARIATION) {
            Self { rounds: self.rounds.saturating_add(1), least, most }
        } else {
            Self { rounds: 1, least: rtt, most: rtt }
        };
        self.rounds >= ROUNDS
    }
}

impl CopaCubic {
    /// Returns the window for nearly the previous maximum rate on a route that has become longer, at least `window`.
    pub(super) fn restored(&self, window: f64) -> f64 {
        self.most_rate.get().map_or(window, |rate| self.window_for(RESTORED * rate).max(window))
    }

    /// Ignores the delay that is present in both directions if the RTT is constant, nothing is lost, and the flow has
    /// less than three quarters of the link: the route has become longer. A queue of other flows is in one direction
    /// only, and delay up to the queue that Copa keeps counts as a queue. Competitive mode ends if that delay was its
    /// reason. If losses have occurred in this mode, there are other flows.
    pub(super) fn on_still_round(&mut self, now: Time, is_limited: bool) {
        let delays = self.copa.delays;
        // A constant delay is not jitter, although a silence before it looks like jitter.
        let jitter = delays.jitter();
        let queueing = delays.raw() - delays.floor().as_secs_f64();
        let (longer, reverse) = (delays.of_each_way(), delays.reverse());
        let rtt = delays.standing().unwrap_or_default();
        // The floor of the forward path may date from an earlier long route, and the floor of the reverse path may be
        // lower.
        let most = longer.max(self.reverse.queueing(reverse));
        let is_still = self.still.on_round(rtt);
        let most_rate = self.rounds.rate().map(|rate| self.most_rate.update(now.as_nanos(), rate));
        let share = self.rounds.share(self.capacity.rate().or(most_rate));
        let is_slow = is_limited && share.is_some_and(|share| share < SLOW);
        let kept = self.tested_queueing().min(MOST_KEPT * self.base().as_secs_f64());
        let has_lost = match &self.mode {
            Mode::Cruise => false,
            Mode::Compete(mode) => mode.has_lost(),
            Mode::Start | Mode::Trial(_) => return,
        };
        if !(self.config.floor && is_still && is_slow && queueing.min(most) > kept) {
            return;
        }
        let window = self.window();
        self.ignore_delay(longer - jitter);
        if !has_lost && self.copa.delays.queueing() <= kept {
            self.begin_cruise(self.restored(window), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the round trip, from one, in which an RTT has stood still for long enough.
    fn stands_still(rtts: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut still = Still::default();
        rtts.into_iter().position(|micros| still.on_round(Span::from_micros(micros))).map(|index| index + 1)
    }

    /// Eight round trips whose RTTs differ by at most 2 % in total. A step, or a slow rise, begins anew.
    #[test]
    fn a_delay_stands_still_for_eight_round_trips() {
        assert_eq!(stands_still([60_000; 9]), Some(8));
        assert_eq!(stands_still((0..9).map(|round| 60_000 + round % 2 * 1200)), Some(8));
        assert_eq!(stands_still((0..99).map(|round| 60_000 + round % 2 * 1201)), None);
        assert_eq!(stands_still([30_000; 5].into_iter().chain([60_000; 9])), Some(13));
        assert_eq!(stands_still((0..99).map(|round| 60_000 + round * 250)), None, "a slow rise");
    }
}

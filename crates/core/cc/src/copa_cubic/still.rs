//! Delay that stands still, as on a route that has become longer.

use longhaul_units::{Span, Time};

use super::{CopaCubic, MOST_KEPT, Mode, RTT_MIN_LIFETIME};
use crate::estimate::WindowedMax;

/// Number of round trips for which the RTT must stand still.
const ROUNDS: u32 = 8;
/// The fraction of it by which it may vary meanwhile.
const VARIATION: f64 = 0.02;

/// Share of the capacity below which a delay that stands still is no queue of this flow.
const SLOW: f64 = 0.75;
/// Part of the greatest rate before that the flow takes on the longer route.
const RESTORED: f64 = 0.9;

/// Consecutive round trips in which the RTT stood still, and the range of their RTTs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Still {
    rounds: u32,
    least: Span,
    most: Span,
}

/// The greatest delivery rate of a round trip, in bytes per second, which stands for the capacity where jitter hides it.
pub(super) type MostRate = WindowedMax;

pub(super) fn most_rate() -> MostRate {
    WindowedMax::new(RTT_MIN_LIFETIME.as_nanos())
}

impl Still {
    /// Handles the end of a round trip with an RTT of `rtt`. Returns whether the RTT has stood still for long enough.
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
    /// Returns the window of nearly the greatest rate before on a route that has become longer, at least `window`.
    pub(super) fn restored(&self, window: f64) -> f64 {
        self.most_rate.get().map_or(window, |rate| self.window_for(RESTORED * rate).max(window))
    }

    /// Ignores the delay that each of both directions has, if the RTT stands still while the window leaves the flow less
    /// than three quarters of the link and nothing is lost: the route has become longer. Other flows' queue is in one direction, and
    /// up to what Copa keeps, the delay is a queue. Competitive mode ends if that delay was its reason. If the mode has had
    /// losses, other flows are there.
    pub(super) fn on_still_round(&mut self, now: Time, is_limited: bool) {
        let delays = self.copa.delays;
        // What stands still is no jitter, although a silence before it looks like that.
        let jitter = delays.jitter();
        let queueing = delays.raw() - delays.floor().as_secs_f64();
        let (longer, reverse) = (delays.of_each_way(), delays.reverse());
        let rtt = delays.standing().unwrap_or_default();
        // The floor of the forward path may be that of an earlier long route, and that of the reverse path lower.
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

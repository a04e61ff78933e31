//! Copa's velocity: the speed of the window while it moves in one direction.

/// Number of round trips for which the direction must be the same before the velocity doubles. In the steady state, it
/// is the same for 2.5 round trips (section 2.1).
pub(super) const STEADY_ROUNDS: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Velocity {
    value: f64,
    up: bool,
    /// Number of round trips in the same direction.
    same: u32,
    /// The window at the beginning of the round trip.
    before: f64,
}

impl Velocity {
    pub(super) const fn new(cwnd: f64) -> Self {
        Self { value: 1.0, up: true, same: 0, before: cwnd }
    }

    /// Ends a round trip at a window of `cwnd`. The velocity doubles if the direction has been the same for `steady`
    /// round trips. If the window has not moved, because it was not used, there is no direction.
    pub(super) fn on_round(&mut self, cwnd: f64, avoidance: u32) {
        let up = cwnd > self.before;
        if cwnd == self.before || up != self.up {
            *self = Self { up, ..Self::new(cwnd) };
            return;
        }
        self.before = cwnd;
        self.same = self.same.saturating_add(1);
        if self.same >= avoidance {
            self.value *= 2.0;
        }
    }

    /// Returns the velocity of a step, up or down, from a window of `cwnd`; at most `most`, but at least 1.
    ///
    /// A step against the direction of a velocity above 1 resets it to 1. Otherwise, the velocity accumulated in one
    /// direction would move the window as far in the other one before the round trip ends (Meta's mvfst).
    pub(super) fn towards(&mut self, up: bool, cwnd: f64, most: f64) -> f64 {
        if up != self.up && self.value > 1.0 {
            *self = Self { up, ..Self::new(cwnd) };
        }
        self.value = self.value.min(most).max(1.0);
        self.value
    }
}

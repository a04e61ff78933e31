//! Copa's velocity: how fast the window moves while it moves in one direction.

/// Round trips that the direction must have stayed the same before the velocity doubles: in the steady state it does
/// for 2.5 (section 2.1).
pub(super) const STEADY_ROUNDS: u32 = 3;

/// The velocity and what decides on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Velocity {
    value: f64,
    up: bool,
    /// Round trips since which the direction is the same.
    same: u32,
    /// The window when the round began.
    before: f64,
}

impl Velocity {
    /// Velocity 1 at a window of `cwnd`.
    pub(super) const fn new(cwnd: f64) -> Self {
        Self { value: 1.0, up: true, same: 0, before: cwnd }
    }

    /// A round ends at a window of `cwnd`; the direction must have stayed for `steady` round trips. One in which nothing moved, because the window was not used, has no
    /// direction.
    pub(super) fn on_round(&mut self, cwnd: f64, steady: u32) {
        let up = cwnd > self.before;
        if cwnd == self.before || up != self.up {
            *self = Self { up, ..Self::new(cwnd) };
            return;
        }
        self.before = cwnd;
        self.same = self.same.saturating_add(1);
        if self.same >= steady {
            self.value *= 2.0;
        }
    }

    /// The velocity for a step, up or down, from a window of `cwnd`, which may not exceed `most`.
    ///
    /// A step against the direction of a velocity above 1 begins anew at 1: what was gathered on the way there would
    /// carry the window as far to the other side before the round ends (Meta's mvfst).
    pub(super) fn towards(&mut self, up: bool, cwnd: f64, most: f64) -> f64 {
        if up != self.up && self.value > 1.0 {
            *self = Self { up, ..Self::new(cwnd) };
        }
        self.value = self.value.min(most).max(1.0);
        self.value
    }
}

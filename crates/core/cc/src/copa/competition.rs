//! Copa's two modes: delta is constant, or decreases as long as other flows keep the queue filled.

/// Number of round trips without a nearly empty queue after which other flows are assumed to fill it (section 2.2).
pub(super) const PATIENCE: u32 = 5;
/// Increase of 1 / delta per round trip without a loss (section 2.2: like NewReno's window).
const RISE: f64 = 1.0;
/// Fraction of 1 / delta kept at a loss.
const KEEP: f64 = 0.5;

/// The current mode and its delta.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Competition {
    /// 1 / delta in the default mode, which is the minimum in the competitive mode.
    least: f64,
    /// Number of complete round trips without a nearly empty queue before the competitive mode.
    patience: u32,
    /// 1 / delta in the competitive mode.
    inverse: f64,
    /// Number of round trips begun since the queue was nearly empty.
    pub(crate) filled: u32,
    lost: bool,
}

impl Competition {
    pub(super) fn new(delta: f64, patience: u32) -> Self {
        let least = 1.0 / delta;
        Self { least, patience, inverse: least, filled: 0, lost: false }
    }

    pub(super) fn reset(&mut self) {
        *self = Self { inverse: self.least, filled: 0, lost: false, ..*self };
    }

    /// Returns whether the competitive mode is active: the queue has not been nearly empty for `patience` complete
    /// round trips.
    pub(crate) const fn is_on(&self) -> bool {
        self.filled > self.patience
    }

    pub(super) fn delta(&self) -> f64 {
        1.0 / if self.is_on() { self.inverse } else { self.least }
    }

    /// Processes an ACK; to be called after [`on_loss`](Self::on_loss).
    pub(super) fn on_ack(&mut self, round_start: bool, nearly_empty: bool) {
        if nearly_empty {
            return self.reset();
        }
        if round_start {
            let was_on = self.is_on();
            self.filled = self.filled.saturating_add(1);
            if was_on && !self.lost {
                self.inverse += RISE;
            }
            self.lost = false;
        }
    }

    /// Halves 1 / delta for a loss, at most once per round trip.
    pub(super) fn on_loss(&mut self) {
        if self.is_on() && !self.lost {
            self.inverse = (self.inverse * KEEP).max(self.least);
        }
        self.lost = true;
    }
}

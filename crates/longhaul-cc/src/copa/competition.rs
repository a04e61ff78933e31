//! Copa's two modes: delta is fixed, or falls as long as others keep the queue filled.

/// Round trips without a nearly empty queue after which others are taken to fill it (section 2.2).
pub(super) const PATIENCE: u32 = 5;
/// By how much 1 / delta rises each round trip without a loss (section 2.2: as NewReno's window).
const RISE: f64 = 1.0;
/// What is kept of 1 / delta at a loss.
const KEEP: f64 = 0.5;

/// Which mode it is, and its delta.
#[derive(Clone, Copy, Debug)]
pub(super) struct Competition {
    /// 1 / delta in the default mode, the least of the other.
    least: f64,
    /// Whole round trips without a nearly empty queue that the default mode bears.
    patience: u32,
    /// 1 / delta in the competitive mode.
    inverse: f64,
    /// Rounds begun since the queue was nearly empty.
    filled: u32,
    /// A loss was answered in this round.
    lost: bool,
}

impl Competition {
    pub(super) fn new(delta: f64, patience: u32) -> Self {
        let least = 1.0 / delta;
        Self { least, patience, inverse: least, filled: 0, lost: false }
    }

    /// Back to the default mode.
    pub(super) fn reset(&mut self) {
        *self = Self { inverse: self.least, filled: 0, lost: false, ..*self };
    }

    /// Whether the queue was not nearly empty for so many whole round trips as the default mode bears.
    pub(super) const fn is_on(&self) -> bool {
        self.filled > self.patience
    }

    pub(super) fn delta(&self) -> f64 {
        1.0 / if self.is_on() { self.inverse } else { self.least }
    }

    /// An ACK came; call after [`on_loss`](Self::on_loss).
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

    /// A loss: 1 / delta is halved, once a round trip.
    pub(super) fn on_loss(&mut self) {
        if self.is_on() && !self.lost {
            self.inverse = (self.inverse * KEEP).max(self.least);
        }
        self.lost = true;
    }
}

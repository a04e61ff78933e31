//! Lead time by which the timerfd expires before a deadline.

use longhaul_units::Span;

/// Maximum lead, longer than a wake-up takes on a machine that is not busy.
const MOST: Span = Span::from_micros(50);
/// Number of waits after which the minimum lateness of earlier waits is discarded.
const WAITS: u8 = 16;

/// Estimate of the lateness that all waits share: the kernel's wake-up and the runtime's scheduling take time even on
/// an idle machine (`docs/decisions/0052-timers-expire-early.md`).
///
/// The timerfd expires this long before a deadline. The lead is the minimum lateness of the last 16 to 32 waits, so
/// that the task is rarely woken before the deadline, in which case it waits once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lead {
    before: Span,
    least: Span,
    waits: u8,
}

impl Lead {
    pub(super) const fn new() -> Self {
        Self { before: Span::ZERO, least: Span::MAX, waits: 0 }
    }

    pub(super) fn get(&self) -> Span {
        self.before.min(self.least).min(MOST)
    }

    /// Records that a wait ended `late` after the time for which the timerfd was set.
    pub(super) fn waited(&mut self, late: Span) {
        (self.least, self.waits) = (self.least.min(late), self.waits + 1);
        if self.waits == WAITS {
            (self.before, self.least, self.waits) = (self.least, Span::MAX, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(waits: impl IntoIterator<Item = u64>) -> u64 {
        let mut lead = Lead::new();
        waits.into_iter().for_each(|late| lead.waited(Span::from_micros(late)));
        lead.get().as_nanos() / 1000
    }

    #[test]
    fn the_lead_is_what_every_wait_is_late_by() {
        assert_eq!(after([]), 0);
        assert_eq!(after([20; 15]), 0, "too few waits");
        assert_eq!(after([20; 16]), 20);
        assert_eq!(after((0..32).map(|wait| 20 + wait)), 36);
        assert_eq!(after([3_000; 100]), 50, "and no more than that");
        // One wait shows what is possible, until it is forgotten.
        assert_eq!(after([20; 40].into_iter().chain([12])), 12);
        assert_eq!(after([12].into_iter().chain([20; 31])), 20);
    }
}

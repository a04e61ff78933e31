//! Estimate of how late wake-ups are on this machine.

use longhaul_units::Span;

use super::Nanobytes;

/// Initial and minimum allowance: the timer granularity of common event loops.
const LEAST: Span = Span::from_millis(1);
/// Maximum allowance: above the 15.6 ms tick of a coarse system timer, and low enough for the burst to fit into
/// a queue.
const MOST: Span = Span::from_millis(20);
/// Number of consecutive late waits before more than [`LEAST`] is allowed.
const WAITS: u8 = 8;

/// Lateness allowance of the pacer.
///
/// If a machine's timer ticks every 15.6 ms, or its processor is permanently contended, *every* wait ends late, and a
/// fixed allowance would reduce the rate to a fraction of its value. On other machines, a late wait is an exception,
/// and the missed data should not be sent as a burst. Therefore the allowance is the minimum lateness of the last 8
/// to 16 waits plus one quantum (since the bucket may have contained up to one when the wait began), at least 1 ms
/// and at most 20 ms. A single punctual wait reduces it again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lateness {
    /// Constant allowance that the application has set.
    Fixed(Span),
    /// Allowance that follows the lateness of the recent waits.
    Learnt {
        /// Minimum lateness in the previous block of waits.
        before: Span,
        least: Span,
        waits: u8,
    },
}

impl Lateness {
    pub(super) const fn new() -> Self {
        Self::Learnt { before: Span::ZERO, least: Span::MAX, waits: 0 }
    }

    /// Records that a wait ended `late` after its due time.
    pub(super) fn waited(&mut self, late: Span) {
        let Self::Learnt { before, least, waits } = self else { return };
        (*least, *waits) = ((*least).min(late), *waits + 1);
        if *waits >= WAITS {
            (*before, *least, *waits) = (*least, Span::MAX, 0);
        }
    }

    /// Returns the credit that may exceed `quantum` if a wait is `late`; `flow` returns the bytes that the rate
    /// releases in a given time.
    pub(super) fn allows(&self, late: Span, quantum: Nanobytes, flow: impl Fn(Span) -> Nanobytes) -> Nanobytes {
        let earned = |most: Span| flow(late.min(most));
        match *self {
            Self::Fixed(lateness) => earned(lateness),
            Self::Learnt { before, least, .. } => {
                let usual = earned(before.min(least)).saturating_add(quantum);
                usual.max(earned(LEAST)).min(earned(MOST))
            }
        }
    }

    /// Returns how long credit left at the end of a wait stays valid.
    pub(super) const fn carry(&self) -> Span {
        match *self {
            Self::Fixed(lateness) => lateness,
            Self::Learnt { .. } => LEAST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(waits: impl IntoIterator<Item = u64>) -> u64 {
        let mut lateness = Lateness::new();
        waits.into_iter().for_each(|late| lateness.waited(Span::from_micros(late)));
        // 1 byte/us, and quanta of 100 bytes.
        lateness.allows(Span::from_secs(10), 100, |span| i128::from(span.as_nanos() / 1000)) as u64
    }

    #[test]
    fn what_every_wait_is_late_by_is_allowed_for() {
        assert_eq!(after([]), 1000);
        assert_eq!(after([15_000; 7]), 1000, "too few waits");
        assert_eq!(after([15_000; 8]), 15_100);
        assert_eq!(after([15_600, 14_000, 15_600, 15_600, 15_000, 15_000, 15_000, 15_000]), 14_100);
        assert_eq!(after([3_000_000; 100]), 20_000, "and no more than that");
        assert_eq!(after([10; 100]), 1000);
    }

    #[test]
    fn one_punctual_wait_takes_it_back_and_an_accident_does_not_give_it() {
        assert_eq!(after([15_000; 100].into_iter().chain([20])), 1000);
        assert_eq!(after((0..100).map(|k| if k % 8 == 3 { 20 } else { 15_000 })), 1000);
        // The punctual wait is forgotten after two blocks.
        assert_eq!(after([20].into_iter().chain([15_000; 15])), 15_100);
    }
}

//! How late wake-ups are on this machine.

use longhaul_units::Span;

use super::Nanobytes;

/// The allowance before anything is learnt, and the least: the granularity of timers in common event loops.
const LEAST: Span = Span::from_millis(1);
/// The most: above the 15.6 ms tick of a coarse system timer, and below what a shallow queue could never hold.
const MOST: Span = Span::from_millis(20);
/// Waits that have to be late, one like the other, before more than [`LEAST`] is allowed.
const WAITS: u8 = 8;

/// The allowance for lateness.
///
/// A machine whose timer ticks every 15.6 ms, or whose processor is wanted by others all the time, is late at *every*
/// wait, and at a fixed allowance would send a fraction of its rate. On a machine that is late now and then it is an
/// accident, and what it missed would leave as a burst. So the allowance is the least lateness of the last 8 to 16 waits and
/// a quantum (as that much of one may have been in the bucket when the wait began), if that is more than 1 ms, and no more
/// than 20 ms: one punctual wait takes it back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lateness {
    /// As somebody chose.
    Fixed(Span),
    /// As the waits were.
    Learnt {
        /// The least of the waits of the block before.
        before: Span,
        /// The least of this one.
        least: Span,
        /// How many this one has.
        waits: u8,
    },
}

impl Lateness {
    pub(super) const fn new() -> Self {
        Self::Learnt { before: Span::ZERO, least: Span::MAX, waits: 0 }
    }

    /// A wait ended so much later than it was due.
    pub(super) fn waited(&mut self, late: Span) {
        let Self::Learnt { before, least, waits } = self else { return };
        (*least, *waits) = ((*least).min(late), *waits + 1);
        if *waits >= WAITS {
            (*before, *least, *waits) = (*least, Span::MAX, 0);
        }
    }

    /// What may leave beyond the `quantum` of a wait that is now `late`, where `flow` is what the rate releases in a span.
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

    /// How long what a wait left is kept while the sender goes on.
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
        // A byte a microsecond, and quanta of 100.
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
        // Forgotten after two blocks.
        assert_eq!(after([20].into_iter().chain([15_000; 15])), 15_100);
    }
}

//! What two acknowledgments tell of a path, by a clock with ticks or without.

use longhaul_units::{Span, Time};

/// What the path holds by two acknowledgments `delta` apart of which the second covers `bytes`, over `gamma`:
/// `bytes x rtt / delta / gamma`, rounded down.
///
/// Both times are in one unit, whichever; a `delta` or `gamma` of zero counts as one.
#[must_use]
pub fn capacity_window(bytes: u64, rtt: u64, delta: u64, gamma: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(rtt);
    let window = product / u128::from(delta.max(1)) / u128::from(gamma.max(1));
    u64::try_from(window).unwrap_or(u64::MAX)
}

/// A clock that shows whole ticks, counted from the origin of all times; a tick of zero is one that runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickClock {
    /// The tick.
    pub tick: Span,
}

impl TickClock {
    /// A clock with ticks of so many milliseconds.
    pub(crate) fn from_millis(millis: f64) -> Self {
        Self { tick: Span::from_secs_f64(millis * 1e-3) }
    }

    /// Its step in nanoseconds.
    fn step(self) -> u64 {
        self.tick.as_nanos().max(1)
    }

    /// Whether it has ticks.
    #[must_use]
    pub const fn ticks(self) -> bool {
        !self.tick.is_zero()
    }

    /// The steps that it counts from `from` to `to`: ticks, or nanoseconds.
    #[must_use]
    pub fn steps(self, from: Time, to: Time) -> u64 {
        (to.as_nanos() / self.step()).saturating_sub(from.as_nanos() / self.step())
    }

    /// So many steps as a time.
    #[must_use]
    pub fn span(self, steps: u64) -> Span {
        Span::from_nanos(steps.saturating_mul(self.step()))
    }

    /// The first tick at `at` or after it.
    #[must_use]
    pub fn next(self, at: Time) -> Time {
        Time::from_nanos(at.as_nanos().div_ceil(self.step()).saturating_mul(self.step()))
    }

    /// The first tick after `at`.
    #[must_use]
    pub fn after(self, at: Time) -> Time {
        Time::from_nanos((at.as_nanos() / self.step()).saturating_add(1).saturating_mul(self.step()))
    }
}

#[cfg(test)]
mod tests;

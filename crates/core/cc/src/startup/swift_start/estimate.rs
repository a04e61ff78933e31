//! Capacity estimate from two ACKs, and a clock with or without ticks.

use longhaul_units::{Span, Time};

/// Returns the bytes that the path holds, divided by `gamma`, if two ACKs are `delta` apart and the second covers
/// `bytes`: `bytes * rtt / delta / gamma`, rounded down.
///
/// Both times have the same unit, which may be any; a `delta` or `gamma` of zero counts as one.
#[must_use]
pub fn capacity_window(bytes: u64, rtt: u64, delta: u64, gamma: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(rtt);
    let window = product / u128::from(delta.max(1)) / u128::from(gamma.max(1));
    u64::try_from(window).unwrap_or(u64::MAX)
}

/// Clock that shows whole ticks, counted from the origin of all times. With a tick of zero it is continuous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "no part of the public interface")]
pub struct TickClock {
    /// Duration of a tick.
    pub tick: Span,
}

impl TickClock {
    /// Returns a clock with ticks of `millis` milliseconds.
    #[must_use]
    pub fn from_millis(millis: f64) -> Self {
        Self { tick: Span::from_secs_f64(millis * 1e-3) }
    }

    /// Returns the clock's step in nanoseconds.
    fn step(self) -> u64 {
        self.tick.as_nanos().max(1)
    }

    /// Returns whether the clock has ticks.
    #[must_use]
    pub const fn ticks(self) -> bool {
        !self.tick.is_zero()
    }

    /// Returns the number of steps from `from` to `to`, in ticks or nanoseconds.
    #[must_use]
    pub fn steps(self, from: Time, to: Time) -> u64 {
        (to.as_nanos() / self.step()).saturating_sub(from.as_nanos() / self.step())
    }

    /// Converts steps to a duration.
    #[must_use]
    pub fn span(self, steps: u64) -> Span {
        Span::from_nanos(steps.saturating_mul(self.step()))
    }

    /// Returns the first tick at or after `at`.
    #[must_use]
    pub fn next(self, at: Time) -> Time {
        Time::from_nanos(at.as_nanos().div_ceil(self.step()).saturating_mul(self.step()))
    }

    /// Returns the first tick after `at`.
    #[must_use]
    pub fn after(self, at: Time) -> Time {
        Time::from_nanos((at.as_nanos() / self.step()).saturating_add(1).saturating_mul(self.step()))
    }
}

#[cfg(test)]
mod tests;

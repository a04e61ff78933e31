//! Points in time and durations, in integer nanoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

use crate::count::Count;
use crate::operators::{display_as_debug, saturating_operators};

/// Point in time, in nanoseconds since an epoch chosen by the caller (such as the start of the driver or simulation).
///
/// The clock is monotonic. The sans-IO crates never read a clock: their callers pass the current `Time`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Count);

/// Duration in nanoseconds, from zero to about 584 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(Count);

impl Time {
    /// Origin of the clock.
    pub const ZERO: Self = Self(Count::ZERO);
    /// The latest point in time, which stands for "never".
    pub const MAX: Self = Self(Count::MAX);

    /// Creates the point in time `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(Count::new(nanos))
    }

    /// Returns the nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get()
    }

    /// Returns the seconds since the epoch, for display and plots.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.as_nanos() as f64 / 1e9
    }

    /// Returns the duration since `earlier`, or zero if `earlier` is later than `self`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

impl Span {
    /// A duration of zero.
    pub const ZERO: Self = Self(Count::ZERO);
    /// The longest duration, which stands for "forever".
    pub const MAX: Self = Self(Count::MAX);

    /// Creates a duration of `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(Count::new(nanos))
    }

    /// Creates a duration of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros.saturating_mul(1_000))
    }

    /// Creates a duration of `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// Creates a duration of `secs` seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Creates a duration of `secs` seconds. Negative values and NaN give zero.
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self::from_nanos((secs * 1e9) as u64)
    }

    /// Returns the duration in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get()
    }

    /// Returns the duration in microseconds, rounded down.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.as_nanos() / 1_000
    }

    /// Returns the duration in milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.as_nanos() / 1_000_000
    }

    /// Returns the duration in seconds, for floating-point arithmetic and display.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.as_nanos() as f64 / 1e9
    }

    /// Returns whether the duration is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.as_nanos() == 0
    }

    /// Returns the duration multiplied by `factor`. Negative factors and NaN give zero; overflow gives the maximum.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self::from_nanos((self.as_nanos() as f64 * factor) as u64)
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, rhs: Span) -> Self {
        Self::from_nanos(self.as_nanos().saturating_add(rhs.as_nanos()))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, rhs: Span) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(rhs.as_nanos()))
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, rhs: Self) -> Span {
        self.since(rhs)
    }
}

saturating_operators!(Span, Span::from_nanos, Span::as_nanos);
display_as_debug!(Span);
display_as_debug!(Time);

impl From<Duration> for Span {
    fn from(value: Duration) -> Self {
        Self::from_nanos(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(value: Span) -> Self {
        Self::from_nanos(value.as_nanos())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Duration::from(*self), f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{:?}", Span(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::ZERO - Span::from_secs(1), Time::ZERO);
        assert_eq!(Time::MAX + Span::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO - Time::MAX, Span::ZERO);
        assert_eq!(Span::MAX + Span::MAX, Span::MAX);
        assert_eq!(Span::from_secs(1) / 0, Span::MAX);
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
    }

    #[test]
    fn conversions_round_down() {
        let span = Span::from_nanos(1_999_999);
        assert_eq!((span.as_millis(), span.as_micros()), (1, 1_999));
        assert_eq!(Span::from(Duration::from_millis(7)), Span::from_millis(7));
        assert_eq!(format!("{:?}", Time::from_nanos(1_500_000)), "t+1.5ms");
    }
}

//! Conversion from a stack's instants to the times of `longhaul-cc`.

use std::time::Instant;

use longhaul_units::{Span, Time};

/// Maps a stack's instants to times since the beginning of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Creates a clock that reads one second at `start`, so that earlier instants can be represented.
    #[must_use]
    pub const fn new(start: Instant) -> Self {
        Self(start)
    }

    /// Returns the time of `instant`.
    #[must_use]
    pub fn time(&self, instant: Instant) -> Time {
        let (zero, one) = (Time::ZERO, Span::from_secs(1));
        let nanos =
            |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        match instant.checked_duration_since(self.0) {
            Some(later) => zero + one + Span::from_nanos(nanos(later)),
            None => zero + (one - Span::from_nanos(nanos(self.0.duration_since(instant)))),
        }
    }
}

//! Timestamp clock (RFC 7323, section 5.4): tick length and offset.

use longhaul_units::{Span, Time};

/// Lifetime of a stored TS.Recent with millisecond ticks: PAWS ignores it after 24 days (RFC 7323, section 5.5).
const VALID_MILLIS: Span = Span::from_secs(24 * 86_400);
/// Lifetime with microsecond ticks: 2^30 ticks, because half of the number space is 35 minutes.
const VALID_MICROS: Span = Span::from_micros(1 << 30);

/// Clock for TSval. A connection that offers microseconds takes its first value from a clock of microseconds that all
/// connections between its addresses share, and continues in microseconds once both ends have agreed on them. Its
/// values are then those of the shared clock, so that PAWS can distinguish segments of earlier connections. Otherwise,
/// ticks are milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimestampClock {
    /// The value at `start`.
    first: u32,
    start: Time,
    pub(crate) micros: bool,
}

impl TimestampClock {
    /// Creates the clock of a connection that starts at `start` and may offer microseconds. `offset` is a keyed hash of
    /// its addresses (RFC 7323, section 5.4), which hides the uptime.
    pub(crate) fn new(offset: u32, start: Time, offers_micros: bool) -> Self {
        let tick = if offers_micros { 1_000 } else { 1_000_000 };
        Self::starting_with(offset.wrapping_add((start.as_nanos() / tick) as u32), start)
    }

    pub(crate) fn starting_with(first: u32, start: Time) -> Self {
        Self { first, start, micros: false }
    }

    pub(crate) fn tick(&self) -> Span {
        if self.micros { Span::from_micros(1) } else { Span::from_millis(1) }
    }

    pub(crate) fn value(&self, at: Time) -> u32 {
        let elapsed = (at - self.start).as_nanos() / self.tick().as_nanos();
        self.first.wrapping_add(elapsed as u32)
    }

    /// Returns how long before `at` the value `echo` was sent, or `None` if it is later than `at`.
    pub(crate) fn age(&self, at: Time, echo: u32) -> Option<Span> {
        let ticks = self.value(at).wrapping_sub(echo);
        (ticks <= u32::MAX / 2).then(|| self.tick() * u64::from(ticks))
    }

    /// Returns how long TS.Recent remains valid (PAWS).
    pub(crate) fn validity(&self) -> Span {
        if self.micros { VALID_MICROS } else { VALID_MILLIS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7323, section 5.5: a segment of an earlier connection is older than all segments of a later one, as long as
    /// half of the number space has not passed.
    #[test]
    fn a_later_connection_has_later_values() {
        let start = Time::from_nanos(5_000_000_000);
        for (micros, longest) in [(true, 2_000), (false, 2_000_000)] {
            for offset in [0, 7, u32::MAX - 10, 1 << 31] {
                for millis in [1, 30, 1_000, 1_000 * longest] {
                    let end = start + Span::from_millis(millis);
                    let mut old = TimestampClock::new(offset, start, micros);
                    if micros {
                        old.micros = true;
                    }
                    let new = TimestampClock::new(offset, end + old.tick(), micros);
                    assert!(
                        crate::seq::later(new.value(end + old.tick()), old.value(end)),
                        "{micros} {offset} {millis}"
                    );
                }
            }
        }
    }

    #[test]
    fn values_never_go_back_when_ticks_become_finer() {
        let start = Time::from_nanos(5_000_000_000);
        let mut clock = TimestampClock::new(u32::MAX - 2, start, true);
        let late = start + Span::from_millis(3_000);
        let syn = clock.value(late);
        clock.micros = true;
        let first = clock.value(late + Span::from_micros(20));
        assert!(crate::seq::later(first, syn));
        assert_eq!(first.wrapping_sub(clock.value(start)), 3_000_020);
        assert_eq!(clock.age(late + Span::from_micros(50), first), Some(Span::from_micros(30)));
        assert_eq!(clock.age(late, first), None, "not sent yet");
    }
}

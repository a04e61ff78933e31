//! Timestamp clock (RFC 7323, section 5.4): tick length and offset.

use longhaul_units::{Span, Time};

/// Lifetime of a stored TS.Recent with millisecond ticks: PAWS ignores it after 24 days (RFC 7323, section 5.5).
const VALID_MILLIS: Span = Span::from_secs(24 * 86_400);
/// Lifetime with microsecond ticks: 2^30 ticks, because half of the number space is 35 minutes.
const VALID_MICROS: Span = Span::from_micros(1 << 30);

/// Clock for TSval. Ticks are milliseconds until the peers have agreed on microseconds. Microsecond ticks count
/// from the millisecond value at the start of the connection, so that TSval never decreases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimestampClock {
    /// Keyed hash of the connection's addresses (RFC 7323, section 5.4), which hides the uptime.
    offset: u32,
    start: Time,
    micros: bool,
}

impl TimestampClock {
    pub(crate) fn new(offset: u32, start: Time) -> Self {
        // The time before the start is included, so that a later connection between the same addresses starts with
        // a later value (RFC 6191).
        let before = (start.as_nanos() / 1_000_000) as u32;
        Self { offset: offset.wrapping_add(before), start, micros: false }
    }

    pub(crate) fn use_microseconds(&mut self) {
        self.micros = true;
    }

    pub(crate) fn tick(&self) -> Span {
        if self.micros { Span::from_micros(1) } else { Span::from_millis(1) }
    }

    /// Returns the TSval of a segment sent at `at`.
    pub(crate) fn value(&self, at: Time) -> u32 {
        let elapsed = (at - self.start).as_nanos() / self.tick().as_nanos();
        self.offset.wrapping_add(elapsed as u32)
    }

    /// Returns how long before `at` the value `echo` was sent, or `None` if it is later than `at`.
    pub(crate) fn age(&self, at: Time, echo: u32) -> Option<Span> {
        let ticks = self.value(at).wrapping_sub(echo);
        (ticks <= u32::MAX / 2).then(|| self.tick() * u64::from(ticks))
    }

    /// Returns how long TS.Recent stays comparable (PAWS).
    pub(crate) fn validity(&self) -> Span {
        if self.micros { VALID_MICROS } else { VALID_MILLIS }
    }
}

/// Converts the peer's microsecond timestamp `recent` to milliseconds since its first value `first`. `passed` is
/// the time between both by our clock; it has to be accurate to 35 minutes only, to find the number of
/// wrap-arounds.
pub(crate) fn in_milliseconds(first: u32, recent: u32, passed: Span) -> u32 {
    let passed = passed.as_micros();
    let error = recent.wrapping_sub(first).wrapping_sub(passed as u32).cast_signed();
    let micros = passed.saturating_add_signed(error.into());
    first.wrapping_add((micros / 1000) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result equals that of a clock that always counted milliseconds, however often the microseconds wrap
    /// around.
    #[test]
    fn microseconds_convert_to_milliseconds() {
        let start = Time::from_nanos(5_000_000_000);
        for offset in [0, 7, u32::MAX - 10] {
            for seconds in [0, 1, 1_000, 4_000, 5_000, 1_000_000] {
                for jitter in [0, 300] {
                    let passed = Span::from_secs(seconds) + Span::from_millis(7);
                    let (coarse, mut fine) = (TimestampClock::new(offset, start), TimestampClock::new(offset, start));
                    fine.use_microseconds();
                    let now = start + passed;
                    let ours = passed + Span::from_millis(jitter);
                    let told = in_milliseconds(coarse.value(start), fine.value(now), ours);
                    assert_eq!(told, coarse.value(now), "{offset} {seconds} {jitter}");
                }
            }
        }
    }

    #[test]
    fn values_never_go_back_when_ticks_become_finer() {
        let start = Time::from_nanos(5_000_000_000);
        let mut clock = TimestampClock::new(u32::MAX - 2, start);
        let late = start + Span::from_millis(3_000);
        let syn = clock.value(late);
        clock.use_microseconds();
        let first = clock.value(late + Span::from_micros(20));
        assert!(crate::seq::later(first, syn));
        assert_eq!(first.wrapping_sub(clock.value(start)), 3_000_020);
        assert_eq!(clock.age(late + Span::from_micros(50), first), Some(Span::from_micros(30)));
        assert_eq!(clock.age(late, first), None, "not sent yet");
    }
}

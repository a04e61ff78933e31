//! Conversion of receive timestamps to the monotonic clock.
//!
//! The kernel takes receive timestamps from `CLOCK_REALTIME`, which an administrator or NTP may step at any time. A
//! [`ClockMap`] converts them to the monotonic clock, and discards timestamps that may be wrong because of a step.

use std::time::Duration;

/// Readings of both clocks at (nearly) the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// Monotonic clock in nanoseconds.
    pub monotonic: u64,
    /// Wall clock since the Unix epoch.
    pub realtime: Duration,
}

/// Largest difference between the movements of both clocks that is attributed to slewing.
///
/// If the wall clock moves by more than this relative to the monotonic clock between two batches, it was stepped. A
/// timestamp before or after the permitted range is clamped if it is outside by at most this, and discarded otherwise.
/// Slewing (at most 500 ppm by `adjtimex(2)`) takes 20 s to move the wall clock this far, and then only one batch loses
/// its timestamps.
pub const MAX_STEP: Duration = Duration::from_millis(10);

/// Converts wall-clock receive timestamps to monotonic time, batch by batch.
///
/// After each receive call that returns datagrams, the caller reads a [`ClockPair`] and passes it to
/// [`begin_batch`](Self::begin_batch). It then calls [`map`](Self::map) with the timestamps of the batch in the order
/// of receipt.
///
/// The results never decrease, and are never later than the batch's `monotonic` or earlier than the creation of the
/// map. If the wall clock was stepped, timestamps from before the step cannot be distinguished from those after it.
/// Therefore, all timestamps of the batch in which the step is detected are discarded, and so is each later timestamp
/// that appears to be older than that batch.
#[derive(Clone, Debug)]
pub struct ClockMap {
    pair: ClockPair,
    /// Time of creation or of the last detected step. Earlier timestamps are discarded.
    trusted_since: u64,
    previous: u64,
    stepped: bool,
}

impl ClockMap {
    /// Creates a map that accepts timestamps from `pair` on.
    #[must_use]
    pub fn new(pair: ClockPair) -> Self {
        Self { pair, trusted_since: pair.monotonic, previous: pair.monotonic, stepped: false }
    }

    /// Starts a batch that was received just before `pair` was read.
    pub fn begin_batch(&mut self, pair: ClockPair) {
        let elapsed = i128::from(pair.monotonic) - i128::from(self.pair.monotonic);
        let moved = nanos(pair.realtime) - nanos(self.pair.realtime);
        self.stepped = (moved - elapsed).abs() > nanos(MAX_STEP);
        self.pair = pair;
        if self.stepped {
            self.trusted_since = pair.monotonic;
            self.previous = self.previous.max(pair.monotonic);
        }
    }

    /// Converts a timestamp of the current batch to monotonic nanoseconds. Returns `None` if it is not trustworthy.
    pub fn map(&mut self, stamp: Duration) -> Option<u64> {
        if self.stepped {
            return None;
        }
        let age = nanos(self.pair.realtime) - nanos(stamp);
        let mapped = i128::from(self.pair.monotonic) - age;
        let slack = nanos(MAX_STEP);
        let trusted = mapped >= i128::from(self.trusted_since)
            && mapped >= i128::from(self.previous) - slack
            && mapped <= i128::from(self.pair.monotonic) + slack;
        if !trusted {
            return None;
        }
        let mapped = u64::try_from(mapped).ok()?;
        // Timestamps of different receive queues may be out of order by some microseconds.
        self.previous = mapped.max(self.previous).min(self.pair.monotonic);
        Some(self.previous)
    }
}

fn nanos(duration: Duration) -> i128 {
    // At most 2^64 * 10^9, which fits into an i128.
    duration.as_nanos() as i128
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const HOUR: u64 = 3_600_000 * MS;
    /// Difference between the wall clock and the monotonic clock in these tests.
    const EPOCH: u64 = 1_700_000_000_000 * MS;

    fn pair(monotonic: u64, offset: u64) -> ClockPair {
        ClockPair { monotonic, realtime: Duration::from_nanos(monotonic + offset) }
    }

    fn stamp(monotonic: u64, offset: u64) -> Duration {
        Duration::from_nanos(monotonic + offset)
    }

    #[test]
    fn steady_clocks_map_exactly() {
        let mut map = ClockMap::new(pair(5 * MS, EPOCH));
        map.begin_batch(pair(100 * MS, EPOCH));
        assert_eq!(map.map(stamp(98 * MS, EPOCH)), Some(98 * MS));
        assert_eq!(map.map(stamp(99 * MS, EPOCH)), Some(99 * MS));
    }

    #[test]
    fn timestamps_are_clamped_between_the_previous_one_and_now() {
        let mut map = ClockMap::new(pair(0, EPOCH));
        map.begin_batch(pair(100 * MS, EPOCH));
        assert_eq!(map.map(stamp(90 * MS, EPOCH)), Some(90 * MS));
        assert_eq!(map.map(stamp(89 * MS, EPOCH)), Some(90 * MS));
        assert_eq!(map.map(stamp(105 * MS, EPOCH)), Some(100 * MS));
        assert_eq!(map.map(stamp(111 * MS, EPOCH)), None);
        assert_eq!(map.map(stamp(80 * MS, EPOCH)), None);
    }

    #[test]
    fn timestamps_are_discarded_after_a_clock_step() {
        for (before, after) in [(EPOCH, EPOCH + HOUR), (EPOCH + HOUR, EPOCH)] {
            let mut map = ClockMap::new(pair(0, before));
            map.begin_batch(pair(10 * MS, before));
            assert_eq!(map.map(stamp(9 * MS, before)), Some(9 * MS));

            map.begin_batch(pair(2 * HOUR, after));
            assert_eq!(map.map(stamp(2 * HOUR - MS, before)), None);
            assert_eq!(map.map(stamp(2 * HOUR, after)), None);

            // These datagrams arrived before the step, but are received after it.
            map.begin_batch(pair(2 * HOUR + MS, after));
            assert_eq!(map.map(stamp(2 * HOUR - MS, before)), None);
            assert_eq!(map.map(stamp(2 * HOUR - 1, after)), None);
            assert_eq!(map.map(stamp(2 * HOUR + MS / 2, after)), Some(2 * HOUR + MS / 2));
        }
    }

    #[test]
    fn timestamps_from_before_the_map_are_discarded() {
        let mut map = ClockMap::new(pair(50 * MS, EPOCH));
        map.begin_batch(pair(51 * MS, EPOCH));
        assert_eq!(map.map(stamp(49 * MS, EPOCH)), None);
        assert_eq!(map.map(Duration::ZERO), None);
        assert_eq!(map.map(Duration::MAX), None);
    }

    fn ages() -> impl Strategy<Value = u64> {
        prop_oneof![0..MS, 0..50 * MS, 0..HOUR]
    }

    fn steps() -> impl Strategy<Value = i64> {
        let (small, large) = (20 * MS as i64, 2 * HOUR as i64);
        prop_oneof![3 => Just(0), 1 => -small..small, 1 => -large..large]
    }

    proptest! {
        /// For any movement of the clocks, results never decrease and are never in the future. While the wall clock is
        /// not stepped, their error is at most 10 ms.
        #[test]
        fn answers_stay_in_range(
            batches in prop::collection::vec(
                (ages(), steps(), prop::collection::vec(ages(), 0..4)),
                1..40,
            )
        ) {
            let (mut now, mut offset) = (0, EPOCH);
            let mut map = ClockMap::new(pair(now, offset));
            let mut last = 0;
            for (gap, step, ages) in batches {
                let begin = now;
                now += gap;
                let before = offset;
                offset = offset.saturating_add_signed(step);
                map.begin_batch(pair(now, offset));
                for age in ages {
                    let arrived = now.saturating_sub(age).max(begin);
                    let answer = map.map(stamp(arrived, before));
                    if let Some(at) = answer {
                        prop_assert!(at >= last && at <= now, "{at} not in {last}..={now}");
                        last = at;
                        prop_assert!(before != offset || at.abs_diff(arrived) <= 10 * MS, "{at} for {arrived}");
                    }
                }
            }
        }
    }
}

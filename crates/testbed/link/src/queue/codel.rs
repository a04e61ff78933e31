//! CoDel (RFC 8289): state and drop schedule, independent of the packets.

use longhaul_units::{Span, Time};

use super::Verdict;
use super::config::CoDelConfig;

/// If dropping resumes within this many intervals of the last drop, it continues at the previous rate (RFC 8289,
/// section 5.3).
const RESUME_INTERVALS: u64 = 16;

#[derive(Debug, Default)]
pub(crate) struct CoDel {
    config: CoDelConfig,
    /// Time at which the sojourn time will have been above target for an interval; `None` while it is below.
    above_from: Option<Time>,
    dropping: bool,
    /// Whether the last packet was dropped on schedule; the packet behind it decides whether dropping continues.
    just_dropped: bool,
    drop_next: Time,
    count: u64,
    last_count: u64,
    largest: u32,
}

impl CoDel {
    pub(crate) fn new(config: CoDelConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Decides whether to pass, mark or drop the packet at the head, which has waited for `sojourn`; `left` bytes wait
    /// behind it.
    pub(crate) fn departs(&mut self, now: Time, sojourn: Span, size: u32, left: u64, can_mark: bool) -> Verdict {
        self.largest = self.largest.max(size);
        let above = self.is_above(now, sojourn, left);
        let just_dropped = core::mem::take(&mut self.just_dropped);
        // Not in the dropping state: enter it after the sojourn time has been above target for an interval.
        if !self.dropping {
            return if above { self.begin(now, can_mark) } else { Verdict::Pass };
        }
        // In the dropping state: leave it once the sojourn time falls below target.
        if !above {
            self.dropping = false;
            return Verdict::Pass;
        }
        // Drop or mark on schedule; the schedule advances after a drop only if the next packet is also above target.
        if just_dropped {
            self.drop_next = self.control_law(self.drop_next);
        }
        if now < self.drop_next {
            return Verdict::Pass;
        }
        self.count += 1;
        if can_mark {
            self.drop_next = self.control_law(self.drop_next);
            return Verdict::Mark;
        }
        self.just_dropped = true;
        Verdict::Drop
    }

    pub(crate) fn ran_empty(&mut self) {
        self.above_from = None;
        if core::mem::take(&mut self.just_dropped) {
            self.dropping = false;
        }
    }

    fn is_above(&mut self, now: Time, sojourn: Span, left: u64) -> bool {
        if sojourn < self.config.target || left <= u64::from(self.largest) {
            self.above_from = None;
            return false;
        }
        now >= *self.above_from.get_or_insert(now + self.config.interval)
    }

    fn begin(&mut self, now: Time, can_mark: bool) -> Verdict {
        self.dropping = true;
        let since_last = self.count.saturating_sub(self.last_count);
        let recent = now - self.drop_next < self.config.interval * RESUME_INTERVALS;
        self.count = if since_last > 1 && recent { since_last } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        if can_mark { Verdict::Mark } else { Verdict::Drop }
    }

    fn control_law(&self, from: Time) -> Time {
        from + Span::from_nanos((self.config.interval.as_nanos() as f64 / (self.count as f64).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * MS)
    }

    /// Passes one packet per millisecond with the given sojourn time, and returns when packets were dropped.
    fn drops(codel: &mut CoDel, millis: core::ops::Range<u64>, sojourn: Span) -> Vec<u64> {
        let mut dropped = Vec::new();
        for now in millis {
            while codel.departs(at(now), sojourn, 1500, 100_000, false) == Verdict::Drop {
                dropped.push(now);
            }
        }
        dropped
    }

    #[test]
    fn drops_follow_the_square_root_law() {
        let mut codel = CoDel::new(CoDelConfig::default());
        let dropped = drops(&mut codel, 0..2_000, Span::from_millis(20));
        // The first drop comes after one interval above target, and the n-th is 100 ms / sqrt(n) after its
        // predecessor.
        let mut expected = vec![100];
        let mut next = 100.0;
        for n in 1.. {
            next += 100.0 / f64::from(n).sqrt();
            if next > 1_999.0 {
                break;
            }
            expected.push(next.ceil() as u64);
        }
        assert_eq!(dropped, expected);
    }

    #[test]
    fn below_target_or_with_one_packet_left_nothing_is_dropped() {
        let mut codel = CoDel::new(CoDelConfig::default());
        assert!(drops(&mut codel, 0..1_000, Span::from_micros(4_999)).is_empty());
        for now in 1_000..2_000 {
            assert_eq!(codel.departs(at(now), Span::from_secs(1), 1500, 1500, false), Verdict::Pass);
        }
        // A single packet below target restarts the interval.
        assert!(drops(&mut codel, 2_000..2_100, Span::from_millis(6)).is_empty());
        assert_eq!(codel.departs(at(2_100), Span::ZERO, 1500, 9_000, false), Verdict::Pass);
        assert!(drops(&mut codel, 2_101..2_201, Span::from_millis(6)).is_empty());
        assert_eq!(drops(&mut codel, 2_201..2_202, Span::from_millis(6)), [2_201]);
    }

    #[test]
    fn dropping_resumes_at_the_old_rate_if_soon() {
        let mut codel = CoDel::new(CoDelConfig::default());
        let first = drops(&mut codel, 0..1_000, Span::from_millis(20)).len() as u64;
        drops(&mut codel, 1_000..1_050, Span::ZERO);
        let again = drops(&mut codel, 1_050..1_250, Span::from_millis(20));
        // The count when dropping resumes: the drops of the previous dropping state, without the first.
        let count = (first - 1) as f64;
        assert_eq!(again[..2], [1_150, 1_150 + (100.0 / count.sqrt()).ceil() as u64]);
        // Much later, the count restarts at 1.
        drops(&mut codel, 1_250..1_251, Span::ZERO);
        assert_eq!(drops(&mut codel, 9_000..9_201, Span::from_millis(20)), [9_100, 9_200]);
    }

    #[test]
    fn capable_packets_are_marked_on_the_same_schedule() {
        let mut codel = CoDel::new(CoDelConfig::default());
        let marked: Vec<u64> = (0..400)
            .filter(|&now| codel.departs(at(now), Span::from_millis(20), 1500, 100_000, true) == Verdict::Mark)
            .collect();
        assert_eq!(marked, [100, 200, 271, 329, 379]);
    }
}

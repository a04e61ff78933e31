//! The cumulative count of delivered bytes over the last round trips, for sums over windows of any length.

use longhaul_units::{Bytes, Span, Time};

/// How many points of the curve are kept.
const KNOTS: usize = 128;
/// What [`Delivered::record`] is to be told as the least width, as a part of the longest window that will be asked for:
/// then the points span two of those windows.
pub(crate) const RESOLUTION: u64 = 64;

/// A point of the curve.
#[derive(Clone, Copy, Debug)]
struct Knot {
    at: Time,
    /// All bytes until then; only differences count, so that it may wrap.
    total: u64,
}

/// The count as a curve, straight between ACKs. ACKs closer to each other than a least width share a line, so that the
/// memory is bounded; the count at its ends is exact.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    knots: [Knot; KNOTS],
    /// Where the oldest is, and how many there are.
    first: usize,
    len: usize,
}

impl Delivered {
    pub(crate) const fn new() -> Self {
        Self { knots: [Knot { at: Time::ZERO, total: 0 }; KNOTS], first: 0, len: 0 }
    }

    /// The `index`-th point from the oldest on.
    const fn knot(&self, index: usize) -> Knot {
        self.knots[(self.first + index) % KNOTS]
    }

    /// `delivered` bytes arrived by `now`. Lines shorter than `width` are prolonged.
    pub(crate) fn record(&mut self, now: Time, delivered: Bytes, width: Span) {
        if self.len == 0 {
            self.push(Knot { at: now, total: delivered.0 });
            return;
        }
        let newest = self.knot(self.len - 1);
        let next = Knot { at: now.max(newest.at), total: newest.total.wrapping_add(delivered.0) };
        let short = self.len > 1 && newest.at.since(self.knot(self.len - 2).at) < width;
        if short || next.at == newest.at {
            self.knots[(self.first + self.len - 1) % KNOTS] = next;
        } else {
            self.push(next);
        }
    }

    fn push(&mut self, knot: Knot) {
        self.knots[(self.first + self.len) % KNOTS] = knot;
        if self.len < KNOTS {
            self.len += 1;
        } else {
            self.first = (self.first + 1) % KNOTS;
        }
    }

    /// The bytes delivered in the last `span` before the newest ACK, and the part of `span` in seconds that is known: nothing
    /// is, of the time before the first ACK and before the oldest point.
    pub(crate) fn over(&self, span: Span) -> (f64, f64) {
        if self.len == 0 {
            return (0.0, 0.0);
        }
        let newest = self.knot(self.len - 1);
        let begin = newest.at - span;
        let since = |knot: Knot| newest.total.wrapping_sub(knot.total) as f64;
        let after = self.first_after(begin);
        if after == 0 {
            let oldest = self.knot(0);
            return (since(oldest), newest.at.since(oldest.at).as_secs_f64());
        }
        if after == self.len {
            return (0.0, 0.0);
        }
        let (left, right) = (self.knot(after - 1), self.knot(after));
        let line = right.at.since(left.at).as_secs_f64();
        let inside = right.at.since(begin).as_secs_f64() / line;
        (since(right) + (since(left) - since(right)) * inside, newest.at.since(begin).as_secs_f64())
    }

    /// How many points are at `time` or before.
    const fn first_after(&self, time: Time) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.knot(middle).at.as_nanos() <= time.as_nanos() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(7_000_000_000) + Span::from_micros(micros)
    }

    /// The whole list of ACKs, microseconds since the first and bytes, asked the same question.
    fn naive(acks: &[(u64, u64)], span: u64) -> (f64, f64) {
        let end = acks.last().map_or(0, |ack| ack.0);
        let begin = end.saturating_sub(span);
        let part = |pair: &[(u64, u64)]| {
            let (from, to) = (pair[0].0.max(begin), pair[1].0);
            if to <= begin { 0.0 } else { pair[1].1 as f64 * (to - from) as f64 / (to - pair[0].0) as f64 }
        };
        (acks.windows(2).map(part).sum(), (end - begin) as f64 * 1e-6)
    }

    proptest! {
        /// ACKs that are not closer than the width: as if all were kept, while the window is within the points' span.
        #[test]
        fn windows_are_those_of_the_whole_list(
            acks in prop::collection::vec((1_u64..500, 1_u64..10_000), 1..400),
            span in 1_u64..128,
        ) {
            let mut delivered = Delivered::new();
            let mut all = vec![(0, 1000)];
            delivered.record(at(0), Bytes(1000), Span::ZERO);
            for (gap, bytes) in acks {
                let now = all.last().map_or(0, |ack: &(u64, u64)| ack.0) + gap;
                all.push((now, bytes));
                delivered.record(at(now), Bytes(bytes), Span::ZERO);
                let (bytes, secs) = delivered.over(Span::from_micros(span));
                let (expected, known) = naive(&all, span);
                prop_assert!((bytes - expected).abs() < 1e-6 * expected.max(1.0), "{} {}", bytes, expected);
                prop_assert!((secs - known).abs() < 1e-9);
            }
        }

        /// However dense the ACKs: two windows long, and off by no more than what the two lines at its edge hold.
        #[test]
        fn dense_acks_share_lines(
            acks in prop::collection::vec((0_u64..10, 1_u64..100), 1000..2000),
            span in 100_u64..1000,
        ) {
            let mut delivered = Delivered::new();
            let (mut all, mut now) = (vec![(0, 0)], 0);
            delivered.record(at(0), Bytes(0), Span::ZERO);
            let width = Span::from_micros(1000 / RESOLUTION);
            for (gap, bytes) in acks {
                now += gap;
                all.push((now, bytes));
                delivered.record(at(now), Bytes(bytes), width);
            }
            let (bytes, secs) = delivered.over(Span::from_micros(span));
            let count = |after: u64| all.iter().filter(|ack| ack.0 > after).map(|ack| ack.1).sum::<u64>() as f64;
            let edge = 2 * (10 + 1000 / RESOLUTION);
            let begin = now.saturating_sub(span);
            prop_assert!((secs - span as f64 * 1e-6).abs() < 1e-9);
            prop_assert!(bytes <= count(begin.saturating_sub(edge)) && bytes >= count(begin + edge), "{}", bytes);
        }
    }

    #[test]
    fn nothing_is_known_before_the_first_ack() {
        let mut delivered = Delivered::new();
        assert_eq!(delivered.over(Span::from_secs(1)), (0.0, 0.0));
        delivered.record(at(0), Bytes(5000), Span::ZERO);
        assert_eq!(delivered.over(Span::from_secs(1)), (0.0, 0.0));
        delivered.record(at(1000), Bytes(500), Span::ZERO);
        assert_eq!(delivered.over(Span::from_secs(1)), (500.0, 0.001));
        delivered.record(at(500), Bytes(100), Span::ZERO);
        assert_eq!(delivered.over(Span::from_secs(1)), (600.0, 0.001), "time that goes back stands still");
    }
}

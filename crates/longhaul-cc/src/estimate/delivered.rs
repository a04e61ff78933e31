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
    /// When the newest of them had left, if that is known.
    sent: Option<Time>,
}

/// A window that ends with the newest ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Part {
    /// Bytes delivered in it.
    pub(crate) bytes: f64,
    /// As much of it as is known, seconds.
    pub(crate) secs: f64,
    /// How long the sender had taken for these bytes, seconds; zero if that is not known.
    pub(crate) sent: f64,
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
        Self { knots: [Knot { at: Time::ZERO, total: 0, sent: None }; KNOTS], first: 0, len: 0 }
    }

    /// The `index`-th point from the oldest on.
    const fn knot(&self, index: usize) -> Knot {
        self.knots[(self.first + index) % KNOTS]
    }

    /// `delivered` bytes arrived by `now`, of which the newest had left at `sent`. Lines shorter than `width` are
    /// prolonged.
    pub(crate) fn record(&mut self, now: Time, sent: Option<Time>, delivered: Bytes, width: Span) {
        if self.len == 0 {
            self.push(Knot { at: now, total: delivered.0, sent });
            return;
        }
        let newest = self.knot(self.len - 1);
        let total = newest.total.wrapping_add(delivered.0);
        let next = Knot { at: now.max(newest.at), total, sent: sent.max(newest.sent) };
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

    /// What was delivered in the last `span` before the newest ACK, of which only that is known which came after the first
    /// ACK and the oldest point.
    pub(crate) fn over(&self, span: Span) -> Part {
        if self.len == 0 {
            return Part::default();
        }
        let newest = self.knot(self.len - 1);
        let begin = newest.at - span;
        let since = |knot: Knot| newest.total.wrapping_sub(knot.total) as f64;
        let sent = |knot: Knot| knot.sent.zip(newest.sent).map_or(0.0, |(from, to)| to.since(from).as_secs_f64());
        let after = self.first_after(begin);
        if after == 0 {
            let oldest = self.knot(0);
            return Part { bytes: since(oldest), secs: newest.at.since(oldest.at).as_secs_f64(), sent: sent(oldest) };
        }
        if after == self.len {
            return Part::default();
        }
        let (left, right) = (self.knot(after - 1), self.knot(after));
        let line = right.at.since(left.at).as_secs_f64();
        let inside = right.at.since(begin).as_secs_f64() / line;
        let part = |of: &dyn Fn(Knot) -> f64| of(right) + (of(left) - of(right)) * inside;
        Part { bytes: part(&since), secs: newest.at.since(begin).as_secs_f64(), sent: part(&sent) }
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
            delivered.record(at(0), None, Bytes(1000), Span::ZERO);
            for (gap, bytes) in acks {
                let now = all.last().map_or(0, |ack: &(u64, u64)| ack.0) + gap;
                all.push((now, bytes));
                delivered.record(at(now), None, Bytes(bytes), Span::ZERO);
                let Part { bytes, secs, .. } = delivered.over(Span::from_micros(span));
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
            delivered.record(at(0), None, Bytes(0), Span::ZERO);
            let width = Span::from_micros(1000 / RESOLUTION);
            for (gap, bytes) in acks {
                now += gap;
                all.push((now, bytes));
                delivered.record(at(now), None, Bytes(bytes), width);
            }
            let Part { bytes, secs, .. } = delivered.over(Span::from_micros(span));
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
        let over = |delivered: &Delivered| {
            let part = delivered.over(Span::from_secs(1));
            (part.bytes, part.secs)
        };
        assert_eq!(over(&delivered), (0.0, 0.0));
        delivered.record(at(0), None, Bytes(5000), Span::ZERO);
        assert_eq!(over(&delivered), (0.0, 0.0));
        delivered.record(at(1000), None, Bytes(500), Span::ZERO);
        assert_eq!(over(&delivered), (500.0, 0.001));
        delivered.record(at(500), None, Bytes(100), Span::ZERO);
        assert_eq!(over(&delivered), (600.0, 0.001), "time that goes back stands still");
    }

    /// Sent 2 ms apart and acknowledged in bunches of four, a microsecond apart: over any window the bytes were sent at their
    /// own rate. A time of sending that is not known, or goes back, stands still.
    #[test]
    fn how_long_the_bytes_took_to_send() {
        let mut delivered = Delivered::new();
        for k in 0..100 {
            delivered.record(at(k / 4 * 8000 + k % 4), Some(at(2000 * k)), Bytes(1000), Span::ZERO);
        }
        for span in [1, 3, 100, 8000, 20_000, 100_000] {
            let part = delivered.over(Span::from_micros(span));
            assert!((part.bytes / part.sent / 5e5 - 1.0).abs() < 1e-9, "{span}: {part:?}");
        }
        delivered.record(at(300_000), None, Bytes(1000), Span::ZERO);
        delivered.record(at(300_001), Some(at(7)), Bytes(1000), Span::ZERO);
        assert_eq!(delivered.over(Span::from_micros(1)).sent, 0.0);
    }
}

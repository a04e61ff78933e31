//! Cumulative count of delivered bytes over the last round trips, for sums over windows of any length.

use longhaul_units::{Bytes, Span, Time};

/// Number of points of the curve that are stored.
const KNOTS: usize = 128;
/// Divisor of the longest window of interest that yields the width passed to [`Delivered::record`], so that the
/// points span two such windows.
pub(crate) const RESOLUTION: u64 = 64;

/// Point of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Knot {
    at: Time,
    /// Total of bytes up to this time. It may wrap, because only differences are used.
    total: u64,
    /// Send time of the newest of the delivered bytes, if known.
    sent: Option<Time>,
}

/// Window that ends with the newest ACK. All values are multiples of `unit`: a rate needs only the ratio of two values
/// and thus a single division.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) bytes: f64,
    /// Length of the part of the window that is covered by records, in nanoseconds.
    pub(crate) nanos: f64,
    /// Time in nanoseconds in which these bytes were sent, or zero if unknown.
    pub(crate) sent: f64,
    pub(crate) unit: f64,
}

impl Part {
    const NONE: Self = Self { bytes: 0.0, nanos: 0.0, sent: 0.0, unit: 1.0 };
}

/// Start of a window in the last query. Windows of the same kind move little from one ACK to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cursor(u64);

/// The count as a curve, linear between ACKs. ACKs closer to each other than a given width share a line, so that the
/// memory is bounded; the count at its ends is exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Delivered {
    knots: [Knot; KNOTS],
    /// Numbers of the oldest and of the next point, counted from the first one ever.
    first: u64,
    end: u64,
}

impl Delivered {
    pub(crate) const fn new() -> Self {
        Self { knots: [Knot { at: Time::ZERO, total: 0, sent: None }; KNOTS], first: 0, end: 0 }
    }

    const fn knot(&self, number: u64) -> &Knot {
        &self.knots[(number % KNOTS as u64) as usize]
    }

    /// Records that `delivered` bytes arrived by `now`, the newest of which were sent at `sent`. A line segment shorter
    /// than `width` is extended.
    pub(crate) fn record(&mut self, now: Time, sent: Option<Time>, delivered: Bytes, width: Span) {
        if self.end == 0 {
            self.push(Knot { at: now, total: delivered.0, sent });
            return;
        }
        let newest = self.knot(self.end - 1);
        let total = newest.total.wrapping_add(delivered.0);
        let next = Knot { at: now.max(newest.at), total, sent: sent.max(newest.sent) };
        let short = self.end - self.first > 1 && newest.at.since(self.knot(self.end - 2).at) < width;
        if short || next.at == newest.at {
            self.end -= 1;
        }
        self.push(next);
    }

    const fn push(&mut self, knot: Knot) {
        self.knots[(self.end % KNOTS as u64) as usize] = knot;
        self.end += 1;
        if self.end - self.first > KNOTS as u64 {
            self.first += 1;
        }
    }

    /// Returns the data delivered in the last `span` before the newest ACK. Data from before the first ACK or the
    /// oldest point is not included.
    pub(crate) fn over(&self, span: Span, cursor: &mut Cursor) -> Part {
        if self.end == 0 {
            return Part::NONE;
        }
        let newest = self.knot(self.end - 1);
        let begin = newest.at - span;
        let since = |knot: &Knot| newest.total.wrapping_sub(knot.total) as f64;
        let sent = |knot: &Knot| match (knot.sent, newest.sent) {
            (Some(from), Some(to)) => to.since(from).as_nanos() as f64,
            _ => 0.0,
        };
        let after = self.first_after(begin, cursor);
        if after == self.first {
            let oldest = self.knot(after);
            return Part { bytes: since(oldest), nanos: nanos(oldest.at, newest.at), sent: sent(oldest), unit: 1.0 };
        }
        if after == self.end {
            return Part::NONE;
        }
        let (left, right) = (self.knot(after - 1), self.knot(after));
        let (unit, inside) = (nanos(left.at, right.at), nanos(begin, right.at));
        let part = |left: f64, right: f64| right * unit + (left - right) * inside;
        let bytes = part(since(left), since(right));
        Part { bytes, nanos: nanos(begin, newest.at) * unit, sent: part(sent(left), sent(right)), unit }
    }

    fn first_after(&self, time: Time, cursor: &mut Cursor) -> u64 {
        let mut number = cursor.0.clamp(self.first, self.end);
        while number < self.end && self.knot(number).at <= time {
            number += 1;
        }
        while number > self.first && self.knot(number - 1).at > time {
            number -= 1;
        }
        cursor.0 = number;
        number
    }
}

fn nanos(from: Time, to: Time) -> f64 {
    to.since(from).as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(7_000_000_000) + Span::from_micros(micros)
    }

    /// The same query on the complete list of ACKs, given as microseconds since the first and bytes.
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
        /// ACKs at least the width apart yield the same result as the complete list, while the window is within the
        /// span of the points.
        #[test]
        fn windows_are_those_of_the_whole_list(
            acks in prop::collection::vec((1_u64..500, 1_u64..10_000), 1..400),
            span in 1_u64..128,
        ) {
            let mut delivered = Delivered::new();
            let (mut all, mut cursor) = (vec![(0, 1000)], Cursor::default());
            delivered.record(at(0), None, Bytes(1000), Span::ZERO);
            for (gap, bytes) in acks {
                let now = all.last().map_or(0, |ack: &(u64, u64)| ack.0) + gap;
                all.push((now, bytes));
                delivered.record(at(now), None, Bytes(bytes), Span::ZERO);
                let part = delivered.over(Span::from_micros(span), &mut cursor);
                let (expected, known) = naive(&all, span);
                let bytes = part.bytes / part.unit;
                prop_assert!((bytes - expected).abs() < 1e-6 * expected.max(1.0), "{} {}", bytes, expected);
                prop_assert!((part.nanos / part.unit * 1e-9 - known).abs() < 1e-9);
                // The result does not depend on where the search starts.
                for start in [0, cursor.0 / 2, u64::MAX] {
                    prop_assert_eq!(delivered.over(Span::from_micros(span), &mut Cursor(start)), part);
                }
            }
        }

        /// With dense ACKs the points still span two windows, and the error is at most the data of the two lines at
        /// the window's edge.
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
            let part = delivered.over(Span::from_micros(span), &mut Cursor::default());
            let (bytes, nanos) = (part.bytes / part.unit, part.nanos / part.unit);
            let count = |after: u64| all.iter().filter(|ack| ack.0 > after).map(|ack| ack.1).sum::<u64>() as f64;
            let edge = 2 * (10 + 1000 / RESOLUTION);
            let begin = now.saturating_sub(span);
            prop_assert!((nanos - span as f64 * 1e3).abs() < 1.0);
            prop_assert!(bytes <= count(begin.saturating_sub(edge)) && bytes >= count(begin + edge), "{}", bytes);
        }
    }

    #[test]
    fn nothing_is_known_before_the_first_ack() {
        let mut delivered = Delivered::new();
        let over = |delivered: &Delivered| {
            let part = delivered.over(Span::from_secs(1), &mut Cursor::default());
            (part.bytes / part.unit, part.nanos / part.unit)
        };
        assert_eq!(over(&delivered), (0.0, 0.0));
        delivered.record(at(0), None, Bytes(5000), Span::ZERO);
        assert_eq!(over(&delivered), (0.0, 0.0));
        delivered.record(at(1000), None, Bytes(500), Span::ZERO);
        assert_eq!(over(&delivered), (500.0, 1e6));
        delivered.record(at(500), None, Bytes(100), Span::ZERO);
        assert_eq!(over(&delivered), (600.0, 1e6), "time that goes back stands still");
    }

    /// Data sent every 2 ms is acknowledged in bunches of four, a microsecond apart. Over any window the bytes have
    /// their own send rate. An unknown or decreasing send time does not advance it.
    #[test]
    fn how_long_the_bytes_took_to_send() {
        let mut delivered = Delivered::new();
        for k in 0..100 {
            delivered.record(at(k / 4 * 8000 + k % 4), Some(at(2000 * k)), Bytes(1000), Span::ZERO);
        }
        for span in [1, 3, 100, 8000, 20_000, 100_000] {
            let part = delivered.over(Span::from_micros(span), &mut Cursor::default());
            assert!((part.bytes / part.sent / 5e-4 - 1.0).abs() < 1e-9, "{span}: {part:?}");
        }
        delivered.record(at(300_000), None, Bytes(1000), Span::ZERO);
        delivered.record(at(300_001), Some(at(7)), Bytes(1000), Span::ZERO);
        assert_eq!(delivered.over(Span::from_micros(1), &mut Cursor::default()).sent, 0.0);
    }
}

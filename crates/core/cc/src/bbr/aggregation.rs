//! Aggregation on links and at the receiver: by how much the data acknowledged at once exceeds the bandwidth
//! estimate.

use longhaul_units::Time;

/// Counts the acknowledged data while it arrives at least as fast as the bandwidth estimate (draft-ietf-ccwg-bbr,
/// `BBRUpdateACKAggregation`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    since: Time,
    acked: f64,
}

impl Aggregation {
    pub(super) const fn new(now: Time) -> Self {
        Self { since: now, acked: 0.0 }
    }

    /// Returns the excess of this episode in bytes, after `acked` more bytes at a bandwidth of `bw` bytes/s. An
    /// episode ends when the data is no more than expected, or reaches `reset`.
    pub(super) fn excess(&mut self, now: Time, bw: f64, acked: f64, reset: f64) -> f64 {
        let mut expected = bw * (now - self.since).as_secs_f64();
        if self.acked <= expected || self.acked + acked >= reset {
            *self = Self::new(now);
            expected = 0.0;
        }
        self.acked += acked;
        self.acked - expected
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Span;

    use super::*;

    /// At 10 kB/s expected, 5 kB at once exceed it by 5 kB, and after half a second without data the excess is zero.
    #[test]
    fn a_burst_counts_beyond_what_the_rate_explains() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut aggregation = Aggregation::new(at(0));
        assert_eq!(aggregation.excess(at(100), 10_000.0, 5000.0, 1e9), 5000.0);
        assert_eq!(aggregation.excess(at(200), 10_000.0, 1000.0, 1e9), 5000.0);
        assert_eq!(aggregation.excess(at(300), 10_000.0, 0.0, 1e9), 4000.0);
        assert_eq!(aggregation.excess(at(900), 10_000.0, 700.0, 1e9), 700.0);
        assert_eq!(aggregation.excess(at(901), 10_000.0, 400.0, 1000.0), 400.0);
    }
}

//! Aggregation on links and at the receiver: by how much the data acknowledged at once exceeds the bandwidth
//! estimate.

use longhaul_units::{Span, Time};

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

/// Maximum excess of the last five to ten rounds (Linux: two buckets of five rounds each).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Buckets {
    rounds: u32,
    newest: f64,
    older: f64,
}

impl Buckets {
    const ROUNDS: u32 = 5;

    pub(super) const fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= Self::ROUNDS {
            *self = Self { rounds: 0, newest: 0.0, older: self.newest };
        }
    }

    pub(super) const fn add(&mut self, excess: f64) {
        self.newest = self.newest.max(excess);
    }

    pub(super) const fn greatest(&self) -> f64 {
        self.newest.max(self.older)
    }
}

/// An episode ends after this many segments at the latest, as in Linux.
pub(super) const RESET_SEGMENTS: f64 = 1_048_576.0;

/// The longest aggregation that version 1 takes into account.
pub(super) const MAX_SPAN: Span = Span::from_millis(100);

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_bucket_lasts_for_five_to_ten_rounds() {
        let mut buckets = Buckets::default();
        buckets.add(7.0);
        for _ in 0..9 {
            buckets.on_round();
            assert_eq!(buckets.greatest(), 7.0);
        }
        buckets.on_round();
        assert_eq!(buckets.greatest(), 0.0);
    }
}

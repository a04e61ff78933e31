//! How much more is acknowledged at once than the bandwidth explains: aggregation on links and at the receiver.

use longhaul_units::{Span, Time};

/// Counts what is acknowledged while it comes at least as fast as the bandwidth estimate says (draft-ietf-ccwg-bbr,
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

    /// The excess of this episode, bytes: `acked` more bytes came, under a bandwidth of `bw` bytes/s. An episode ends
    /// when what came is no more than expected, or reaches `reset`.
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

/// The greatest excess of the last five to ten rounds (Linux: two buckets of five rounds).
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

/// An episode ends after so many segments, however fast they came, as in Linux.
pub(super) const RESET_SEGMENTS: f64 = 1_048_576.0;

/// The longest aggregation that version 1 allows for.
pub(super) const MAX_SPAN: Span = Span::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 kB/s expected; 5 kB at once are 5 kB too many, and after half a second of nothing they were none.
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

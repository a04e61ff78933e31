//! Token-bucket policer.

use longhaul_units::Time;

use crate::config::Policer;

/// Tokens are kept in billionths of a byte, so that no fraction is lost to rounding.
const SCALE: u128 = 1_000_000_000;

/// Token bucket. It fills at a rate up to its depth, and each packet takes as many tokens as it has bytes.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: u128,
    brim: u128,
    tokens: u128,
    filled: Time,
}

impl TokenBucket {
    pub(crate) fn new(config: Policer) -> Self {
        let brim = u128::from(config.burst) * SCALE;
        Self { rate: u128::from(config.rate.as_bytes_per_sec()), brim, tokens: brim, filled: Time::ZERO }
    }

    /// Returns whether a packet of `size` bytes conforms. If so, its tokens are taken.
    pub(crate) fn admits(&mut self, now: Time, size: u32) -> bool {
        let fresh = u128::from((now - self.filled).as_nanos()) * self.rate;
        self.filled = self.filled.max(now);
        self.tokens = (self.tokens + fresh).min(self.brim);
        let price = u128::from(size) * SCALE;
        let conforms = self.tokens >= price;
        if conforms {
            self.tokens -= price;
        }
        conforms
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Rate, Span};
    use proptest::prelude::*;

    use super::*;

    fn bucket(rate: u64, burst: u64) -> TokenBucket {
        TokenBucket::new(Policer { rate: Rate::from_bytes_per_sec(rate), burst })
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut bucket = bucket(1_000_000, 10_000);
        assert_eq!((0..20).filter(|_| bucket.admits(Time::ZERO, 1_000)).count(), 10);
        // 1000 bytes are available again after 1 ms, and not a nanosecond earlier.
        assert!(!bucket.admits(Time::from_nanos(999_999), 1_000));
        assert!(bucket.admits(Time::from_nanos(1_000_000), 1_000));
        assert!(!bucket.admits(Time::from_nanos(1_000_000), 1));
        // The bucket never holds more than its depth.
        assert!(bucket.admits(Time::ZERO + Span::from_secs(100), 10_000));
        assert!(!bucket.admits(Time::ZERO + Span::from_secs(100), 1));
    }

    proptest! {
        /// In any interval, at most the burst plus the rate times its length passes.
        #[test]
        fn no_interval_passes_more_than_burst_and_rate(packets in prop::collection::vec((0u64..3_000_000, 1u32..2_000), 1..200)) {
            let (rate, burst) = (333_333, 5_000);
            let mut bucket = bucket(rate, burst);
            let mut now = Time::ZERO;
            let mut passed: Vec<(Time, u64)> = Vec::new();
            for (gap, size) in packets {
                now += Span::from_nanos(gap);
                if bucket.admits(now, size) {
                    passed.push((now, u64::from(size)));
                }
            }
            for from in 0..passed.len() {
                let mut bytes = 0;
                for to in from..passed.len() {
                    bytes += passed[to].1;
                    let nanos = u128::from((passed[to].0 - passed[from].0).as_nanos());
                    prop_assert!(u128::from(bytes) * SCALE <= u128::from(burst) * SCALE + nanos * u128::from(rate));
                }
            }
        }
    }
}

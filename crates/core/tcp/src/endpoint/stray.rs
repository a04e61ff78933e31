//! Rate limit of resets to unknown senders.

use longhaul_units::{Span, Time};

/// Burst size of a bucket, and the time in which it regains one token.
const BURST: u16 = 16;
const REFILL: Span = Span::from_millis(20);

/// Token buckets, one per group of addresses. The assignment of addresses to groups is secret, so that an attacker
/// cannot infer replies to other hosts from a shared limit (CVE-2016-5696).
#[derive(Debug)]
pub(super) struct Buckets(Vec<(Time, u16)>);

impl Buckets {
    pub(super) const COUNT: usize = 256;

    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn take(&mut self, now: Time, bucket: usize) -> bool {
        if self.0.is_empty() {
            self.0 = vec![(now, BURST); Self::COUNT];
        }
        let Some((since, tokens)) = self.0.get_mut(bucket) else { return false };
        let earned = (now - *since).as_nanos().checked_div(REFILL.as_nanos()).unwrap_or(0);
        if earned > 0 {
            *tokens = tokens.saturating_add(earned.min(u64::from(BURST)) as u16).min(BURST);
            *since = now;
        }
        let Some(left) = tokens.checked_sub(1) else { return false };
        *tokens = left;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_burst_and_then_50_per_second() {
        let mut buckets = Buckets::new();
        let taken = |b: &mut Buckets, at: Time| (0..100).filter(|_| b.take(at, 3)).count();
        assert_eq!(taken(&mut buckets, Time::ZERO), 16);
        assert_eq!(taken(&mut buckets, Time::ZERO + Span::from_millis(19)), 0);
        assert_eq!(taken(&mut buckets, Time::ZERO + Span::from_millis(60)), 3);
        assert!(buckets.take(Time::ZERO, 4), "other groups are not affected");
    }
}

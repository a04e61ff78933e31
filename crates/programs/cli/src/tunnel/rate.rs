//! Rate limits of streams: token buckets that streams share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_units::Rate;
use tokio::time::{Instant, sleep_until};

use crate::sync::lock;

/// Depth of a bucket as a time. After an idle period of this length, streams may send the corresponding amount at once.
const BURST: Duration = Duration::from_millis(50);
/// Turns per second. Streams that share a bucket take turns, and each waits for all others.
const TURNS: u64 = 50;
/// Minimum number of bytes per turn.
const MIN_QUANTUM: u64 = 1400;

/// A token bucket for one direction. Streams that share it take turns in the order of their requests.
#[derive(Debug)]
pub(crate) struct Bucket {
    bytes_per_second: u64,
    /// Time at which the bucket will have earned all tokens that were taken. `None` before the first use.
    paid: Mutex<Option<Instant>>,
}

impl Bucket {
    /// Creates a full bucket. A rate below 1 kB/s counts as 1 kB/s.
    pub(crate) fn new(rate: Rate) -> Self {
        Self { bytes_per_second: (rate.as_bytes_per_sec()).max(1000), paid: Mutex::new(None) }
    }

    /// Waits until `bytes` more bytes may pass.
    ///
    /// Cancel safety: if this is cancelled, the bytes count as passed.
    pub(crate) async fn take(&self, bytes: usize) {
        sleep_until(self.reserve(bytes)).await;
    }

    #[expect(clippy::disallowed_methods, reason = "the rate is limited in real time")]
    fn reserve(&self, bytes: usize) -> Instant {
        let now = Instant::now();
        let cost = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / self.bytes_per_second);
        let mut paid = lock(&self.paid);
        // The bucket is full if nothing was taken for `BURST`.
        let full = now.checked_sub(BURST).unwrap_or(now);
        let after = paid.unwrap_or(full).max(full) + cost;
        *paid = Some(after);
        after
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// Pairs of a bucket for data to the tunnel and one for data from it.
    pairs: Vec<Arc<[Bucket; 2]>>,
}

impl Limits {
    /// Adds a limit that applies to each direction separately. Clones of the result share it.
    pub(crate) fn and(&self, rate: Option<Rate>) -> Self {
        let mut limits = self.clone();
        limits.pairs.extend(rate.map(|rate| Arc::new([Bucket::new(rate), Bucket::new(rate)])));
        limits
    }

    /// Returns the number of bytes per turn, at most `max`.
    pub(crate) fn quantum(&self, max: usize) -> usize {
        let slowest = self.pairs.iter().map(|pair| pair[0].bytes_per_second).min();
        slowest.map_or(max, |rate| max.min((rate / TURNS).max(MIN_QUANTUM) as usize))
    }

    /// Waits until `bytes` more bytes may be sent to the tunnel.
    pub(crate) async fn sent(&self, bytes: usize) {
        self.take(0, bytes).await;
    }

    /// Waits until `bytes` more bytes may be forwarded from the tunnel.
    pub(crate) async fn received(&self, bytes: usize) {
        self.take(1, bytes).await;
    }

    async fn take(&self, direction: usize, bytes: usize) {
        for bucket in self.pairs.iter().filter_map(|pair| pair.get(direction)) {
            bucket.take(bytes).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;

    fn limits() -> Limits {
        Limits::default().and(Some(Rate::from_bytes_per_sec(RATE)))
    }

    async fn pass(limits: &Limits, count: usize, sends: bool) -> u64 {
        let quantum = limits.quantum(usize::MAX);
        for _ in 0..count {
            if sends { limits.sent(quantum).await } else { limits.received(quantum).await }
        }
        (count * quantum) as u64
    }

    /// Divides the bytes that `work` returns by the virtual time that it takes. The result is in bytes per second.
    async fn rate(work: impl Future<Output = u64>) -> u64 {
        let now = || sleep_until(tokio::time::sleep(Duration::ZERO).deadline()).deadline();
        let start = now();
        let bytes = work.await;
        (bytes as f64 / (now() - start).as_secs_f64()) as u64
    }

    fn close_to(rate: u64, expected: u64) {
        assert!((expected * 99 / 100..expected * 102 / 100).contains(&rate), "{rate} {expected}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_direction_has_the_rate() {
        let limits = limits();
        close_to(rate(pass(&limits, 500, true)).await, RATE);
        close_to(rate(pass(&limits, 500, false)).await, RATE);
        let both = async { tokio::join!(pass(&limits, 500, true), pass(&limits, 500, false)) };
        close_to(rate(async { both.await.0 }).await, RATE);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_share_the_rate_evenly() {
        let limits = limits();
        let clones = [(); 4].map(|()| limits.clone());
        let [a, b, c, d] = clones.each_ref().map(|limits| pass(limits, 200, true));
        let shares = async {
            let (a, b, c, d) = tokio::join!(rate(a), rate(b), rate(c), rate(d));
            for share in [a, b, c, d] {
                assert!((RATE * 24 / 100..RATE * 27 / 100).contains(&share), "{share}");
            }
            4 * 200 * limits.quantum(usize::MAX) as u64
        };
        close_to(rate(shares).await, RATE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_lower_of_two_limits_holds_and_clones_share_it() {
        let all = limits();
        let slow = all.and(Some(Rate::from_bytes_per_sec(RATE / 4)));
        close_to(rate(pass(&slow, 200, true)).await, RATE / 4);
        assert!(slow.quantum(usize::MAX) < all.quantum(usize::MAX));
        let together = async { tokio::join!(pass(&slow, 100, true), pass(&all, 100, true)) };
        let both = rate(async { together.await.1 }).await;
        assert!(both < RATE * 85 / 100, "{both}");
    }

    /// After a long silence, no more than the burst passes at once.
    #[tokio::test(start_paused = true)]
    async fn tokens_are_not_saved_for_long() {
        let limits = limits();
        pass(&limits, 10, true).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let burst = (RATE as f64 * BURST.as_secs_f64()) as usize;
        let at_once = async {
            limits.sent(burst).await;
            burst as u64
        };
        assert!(rate(at_once).await > 1000 * RATE);
        close_to(rate(pass(&limits, 500, true)).await, RATE);
        assert_eq!(Limits::default().quantum(77), 77);
    }
}

//! Attempts to reach the gateway, repeated until one succeeds.

use std::io;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{sleep, timeout};

/// Minimum and maximum pause after a failed attempt.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
const LONGEST: Duration = Duration::from_secs(60);

/// Repeats `attempt` until it succeeds. `failed` is called with the error of each failure.
///
/// Up to two attempts run at the same time. In the first series, attempts take at most `2 * hedge`, so that a gateway
/// that becomes reachable again is found soon. The second series starts `hedge` later, and each of its attempts may
/// take twice as long as the one before, because the round-trip time may have grown to any multiple of that from which
/// `hedge` was derived.
pub(super) async fn persist<T, F: Future<Output = Result<T>>>(
    hedge: Duration,
    attempt: impl Fn() -> F,
    failed: impl Fn(anyhow::Error),
) -> T {
    let later = async {
        sleep(hedge).await;
        series(hedge * 2, 2, &attempt, &failed).await
    };
    tokio::select! {
        done = series(hedge * 2, 1, &attempt, &failed) => done,
        done = later => done,
    }
}

/// Repeats `attempt` until it succeeds. The time limit grows by the factor `growth` with each attempt.
async fn series<T, F: Future<Output = Result<T>>>(
    mut patience: Duration,
    growth: u32,
    attempt: &impl Fn() -> F,
    failed: &impl Fn(anyhow::Error),
) -> T {
    let (longest, mut backoff) = (LONGEST.max(patience), BACKOFF.0);
    loop {
        match timeout(patience, attempt()).await {
            Ok(Ok(done)) => return done,
            Ok(Err(error)) => failed(error),
            Err(_) => failed(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
        sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF.1);
        patience = (patience * growth).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    /// Returns the time in seconds until an attempt succeeds, and the number of attempts. The path is down until `back`
    /// and has the round-trip time `rtt` afterwards. An attempt needs three round trips, and its SYN is retransmitted
    /// after 1, 3, 7, ... seconds.
    #[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused: the test moves it")]
    async fn seconds(back: u64, rtt: Duration) -> (f64, u32) {
        let (start, attempts) = (Instant::now(), Cell::new(0));
        let attempt = || async {
            attempts.set(attempts.get() + 1);
            let mut pause = Duration::from_secs(1);
            while start.elapsed() < Duration::from_secs(back) {
                sleep(pause).await;
                pause *= 2;
            }
            sleep(rtt * 3).await;
            Ok(())
        };
        let done = persist(Duration::from_secs(1), attempt, |_| {});
        timeout(Duration::from_secs(back + 1000), done).await.unwrap();
        (start.elapsed().as_secs_f64(), attempts.get())
    }

    /// The time limit of the attempts was derived from a round-trip time of at most 250 ms.
    #[tokio::test(start_paused = true)]
    async fn any_round_trip_after_an_outage_is_reached() {
        for rtt in [20, 640, 700, 800, 2000, 5000, 15_000] {
            let rtt = Duration::from_millis(rtt);
            for back in [0, 8, 100, 1000] {
                let (seconds, attempts) = seconds(back, rtt).await;
                let needed = back as f64 + rtt.as_secs_f64() * 3.0;
                // A round trip that is not longer than before needs no long attempt.
                let extra = if rtt < Duration::from_millis(600) { 3.1 } else { 125.0 };
                assert!(seconds < needed + extra, "{rtt:?} after {back} s: {seconds} s");
                assert!(f64::from(attempts) < 4.0 + seconds, "{rtt:?} after {back} s: {attempts} attempts");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_told_and_attempts_pause() {
        let (tried, told) = (Cell::new(0), Cell::new(0));
        let attempt = || async {
            tried.set(tried.get() + 1);
            if tried.get() < 20 { Err(anyhow::anyhow!("refused")) } else { Ok(()) }
        };
        #[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused: the test moves it")]
        let start = Instant::now();
        persist(Duration::from_secs(1), attempt, |_| told.set(told.get() + 1)).await;
        assert_eq!(told.get(), 19);
        assert!(start.elapsed() > Duration::from_secs(7), "{:?}", start.elapsed());
    }
}

//! Departure times of datagrams, and a timer with a finer resolution than tokio's.

use std::io;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::report::Stopwatch;

/// Departure times of datagrams, in seconds after the start.
pub(crate) struct Departures {
    next: f64,
    gap: f64,
    /// Number of datagrams per burst, and of those sent in the current burst.
    burst: (u32, u32),
    random: Option<ChaCha8Rng>,
}

impl Departures {
    /// Creates the departure times of datagrams with `length` bytes of payload at `rate` bit/s; 0 is unlimited. The
    /// datagrams are sent in equally spaced bursts of `burst`, or, with the seed `poisson`, as a Poisson process with
    /// that mean rate.
    pub(crate) fn new(length: usize, (rate, burst): (u64, u32), poisson: Option<u64>) -> Self {
        let gap = if rate == 0 { 0.0 } else { length as f64 * 8.0 / rate as f64 };
        let mut random = poisson.map(ChaCha8Rng::seed_from_u64);
        // In a Poisson process, the first event also follows a random interval.
        let next = random.as_mut().map_or(0.0, |random| exponential(gap, random));
        let burst = if random.is_some() { 1 } else { burst.max(1) };
        Self { next, gap, burst: (burst, 0), random }
    }
}

impl Iterator for Departures {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        self.burst.1 += 1;
        if self.burst.1 >= self.burst.0 {
            self.burst.1 = 0;
            let gap = self.gap * f64::from(self.burst.0);
            self.next += self.random.as_mut().map_or(gap, |random| exponential(gap, random));
        }
        Duration::try_from_secs_f64(now).ok()
    }
}

/// Returns an exponentially distributed number, by inversion of the distribution function.
fn exponential(mean: f64, random: &mut ChaCha8Rng) -> f64 {
    // A 53-bit fraction in [0, 1), the full precision of a double.
    let uniform = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    -mean * (1.0 - uniform).ln()
}

/// Waits for times on a stopwatch. It must be created and used within one tokio runtime.
pub(crate) struct Sleeper {
    clock: Stopwatch,
    #[cfg(target_os = "linux")]
    timer: tokio::io::unix::AsyncFd<longhaul_sys::linux::Timer>,
}

#[cfg(target_os = "linux")]
impl Sleeper {
    #[allow(
        deprecated,
        reason = "from tokio 1.54 on: its successor is unsafe, for types that replace their descriptor"
    )]
    pub(crate) fn new(clock: Stopwatch) -> io::Result<Self> {
        let timer = longhaul_sys::linux::Timer::new()?;
        Ok(Self { clock, timer: tokio::io::unix::AsyncFd::new(timer)? })
    }

    /// Sleeps until `time`, and returns a few tens of microseconds late; returns at once if that time has passed.
    pub(crate) async fn until(&self, time: Duration) -> io::Result<()> {
        let Some(left) = time.checked_sub(self.clock.elapsed()).filter(|left| !left.is_zero()) else { return Ok(()) };
        let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        self.timer.get_ref().arm(Some(longhaul_sys::linux::monotonic_now().saturating_add(nanos)))?;
        loop {
            let mut ready = self.timer.readable().await?;
            let fired = self.timer.get_ref().drain()?;
            ready.clear_ready();
            if fired {
                return Ok(());
            }
        }
    }
}

/// A sleep of 1 ms may take 2 ms, so the last 2 ms are spent in a busy loop.
#[cfg(not(target_os = "linux"))]
impl Sleeper {
    pub(crate) fn new(clock: Stopwatch) -> io::Result<Self> {
        Ok(Self { clock })
    }

    /// Sleeps until `time`, or returns at once if that time has passed.
    pub(crate) async fn until(&self, time: Duration) -> io::Result<()> {
        const ACTIVE: Duration = Duration::from_millis(2);
        loop {
            match time.checked_sub(self.clock.elapsed()) {
                None | Some(Duration::ZERO) => return Ok(()),
                Some(left) if left > ACTIVE => tokio::time::sleep(left - ACTIVE).await,
                Some(_) => tokio::task::yield_now().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_constant() {
        // 1250 bytes at 10 Mbit/s are one datagram per millisecond.
        let times: Vec<_> = Departures::new(1250, (10_000_000, 1), None).take(1001).collect();
        assert_eq!(times[0], Duration::ZERO);
        for (n, time) in times.iter().enumerate() {
            assert!(time.abs_diff(Duration::from_millis(n as u64)) < Duration::from_nanos(10), "{n}: {time:?}");
        }
        assert!(Departures::new(1250, (0, 1), None).take(100).all(|time| time.is_zero()));
    }

    #[test]
    fn bursts_leave_at_once_and_keep_the_rate() {
        let times: Vec<_> = Departures::new(1250, (10_000_000, 4), None).take(12).collect();
        for (n, time) in times.iter().enumerate() {
            let group = Duration::from_millis(n as u64 / 4 * 4);
            assert!(time.abs_diff(group) < Duration::from_nanos(10), "{n}: {time:?}");
        }
    }

    /// The number of events of a Poisson process in a time window has a variance equal to its mean.
    #[test]
    fn poisson_departures_are_poisson() {
        let windows = 10_000;
        let mut counts = vec![0.0_f64; windows];
        for time in Departures::new(1250, (10_000_000, 1), Some(7)) {
            // Each window has five departures on average.
            let Some(count) = counts.get_mut((time.as_secs_f64() / 0.005) as usize) else { break };
            *count += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / windows as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / windows as f64;
        // Five standard errors: sqrt(5 / 10^4) for the mean, and sqrt((2 * 25 + 5) / 10^4) for the variance.
        assert!((mean - 5.0).abs() < 0.112, "{mean}");
        assert!((variance - 5.0).abs() < 0.37, "{variance}");
        let other: Vec<_> = Departures::new(1250, (10_000_000, 1), Some(8)).take(3).collect();
        let same: Vec<_> = Departures::new(1250, (10_000_000, 1), Some(7)).take(3).collect();
        assert_ne!(same, other);
    }
}

//! When datagrams leave, finer than tokio's timers can tell.

use std::io;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::report::Stopwatch;

/// The times at which datagrams leave, in seconds after the start.
#[derive(Debug)]
pub struct Departures {
    next: f64,
    gap: f64,
    /// Datagrams that leave at once, and how many of them have left.
    burst: (u32, u32),
    random: Option<ChaCha8Rng>,
}

impl Departures {
    /// Datagrams of `length` bytes of payload at `rate` bits per second, 0 for all at once: equally spaced, in equally
    /// spaced groups of `burst`, or, with a seed, each by itself as a Poisson process of that mean rate.
    #[must_use]
    pub fn new(length: usize, (rate, burst): (u64, u32), poisson: Option<u64>) -> Self {
        let gap = if rate == 0 { 0.0 } else { length as f64 * 8.0 / rate as f64 };
        let mut random = poisson.map(ChaCha8Rng::seed_from_u64);
        // A Poisson process has its first event after a gap, too.
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

/// An exponentially distributed number, from the inverse of its distribution function.
fn exponential(mean: f64, random: &mut ChaCha8Rng) -> f64 {
    // 53 bits, all that a double holds, from 0 to below 1.
    let uniform = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    -mean * (1.0 - uniform).ln()
}

/// Waits for times of a stopwatch. It must be made and used within one tokio runtime.
#[derive(Debug)]
pub struct Sleeper {
    clock: Stopwatch,
    #[cfg(target_os = "linux")]
    timer: tokio::io::unix::AsyncFd<longhaul_sys::linux::Timer>,
}

#[cfg(target_os = "linux")]
impl Sleeper {
    /// For times of `clock`.
    ///
    /// # Errors
    /// When the system gives no timer.
    pub fn new(clock: Stopwatch) -> io::Result<Self> {
        let timer = longhaul_sys::linux::Timer::new()?;
        Ok(Self { clock, timer: crate::shim::async_fd(timer)? })
    }

    /// Returns at `time`, late by some tens of microseconds; at once if it has passed.
    ///
    /// # Errors
    /// The system's.
    pub async fn until(&self, time: Duration) -> io::Result<()> {
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

/// A sleep of a millisecond may take two: the last of them is spent waiting actively.
#[cfg(not(target_os = "linux"))]
impl Sleeper {
    /// For times of `clock`.
    ///
    /// # Errors
    /// None here.
    pub fn new(clock: Stopwatch) -> io::Result<Self> {
        Ok(Self { clock })
    }

    /// Returns at `time`, or at once if it has passed.
    ///
    /// # Errors
    /// None here.
    pub async fn until(&self, time: Duration) -> io::Result<()> {
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
        // 1250 bytes at 10 Mb/s are one a millisecond.
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

    /// The counts of a Poisson process in windows of time have their mean as variance.
    #[test]
    fn poisson_departures_are_poisson() {
        let windows = 10_000;
        let mut counts = vec![0.0_f64; windows];
        for time in Departures::new(1250, (10_000_000, 1), Some(7)) {
            // Five departures in the mean.
            let Some(count) = counts.get_mut((time.as_secs_f64() / 0.005) as usize) else { break };
            *count += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / windows as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / windows as f64;
        // Five times the standard errors: sqrt(5 / 10^4), and for the variance sqrt((2 * 25 + 5) / 10^4).
        assert!((mean - 5.0).abs() < 0.112, "{mean}");
        assert!((variance - 5.0).abs() < 0.37, "{variance}");
        let other: Vec<_> = Departures::new(1250, (10_000_000, 1), Some(8)).take(3).collect();
        let same: Vec<_> = Departures::new(1250, (10_000_000, 1), Some(7)).take(3).collect();
        assert_ne!(same, other);
    }
}

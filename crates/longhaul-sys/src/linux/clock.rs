//! The clocks of the system.

use std::time::Duration;

use super::syscall::clock_gettime;
use crate::clock::ClockPair;

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock of [`std::time::Instant`] and of [`Timer`](super::Timer). It never goes
/// back, is not stepped, and stands still while the machine is suspended.
#[must_use]
pub fn monotonic_now() -> u64 {
    // 2^64 ns are 584 years of uptime.
    clock_gettime(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// `CLOCK_REALTIME` since the Unix epoch, the clock of [`Meta::timestamp`](super::Meta::timestamp). It may be stepped.
#[must_use]
pub fn realtime_now() -> Duration {
    clock_gettime(libc::CLOCK_REALTIME)
}

/// Both clocks, for a [`ClockMap`](crate::clock::ClockMap).
///
/// The wall clock is read between two readings of the monotonic one, and again (up to three times) if the thread was
/// interrupted between them for more than 20 us. Takes some 80 ns.
#[must_use]
pub fn clock_pair() -> ClockPair {
    let mut before = monotonic_now();
    let mut tries = 0;
    loop {
        let realtime = realtime_now();
        let after = monotonic_now();
        let gap = after.saturating_sub(before);
        tries += 1;
        if gap <= 20_000 || tries == 3 {
            return ClockPair { monotonic: before + gap / 2, realtime };
        }
        before = after;
    }
}

/// The time that all threads of this process have spent on a CPU, in user and kernel mode.
#[must_use]
pub fn process_cpu_time() -> Duration {
    clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The time that the calling thread has spent on a CPU, in user and kernel mode.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID)
}

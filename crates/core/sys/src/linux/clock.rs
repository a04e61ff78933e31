//! System clocks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::clock::ClockPair;

/// Returns `CLOCK_MONOTONIC` in nanoseconds, the clock of [`std::time::Instant`] and of [`Timer`](super::Timer). It
/// never decreases, is not stepped, and stops while the machine is suspended.
#[must_use]
pub fn monotonic_now() -> u64 {
    // 64 bits of nanoseconds suffice for an uptime of 584 years.
    read(ClockId::Monotonic).as_nanos() as u64
}

/// Returns `CLOCK_REALTIME` since the Unix epoch, the clock of [`Meta::timestamp`](super::Meta::timestamp). It may be
/// stepped.
#[must_use]
pub fn realtime_now() -> Duration {
    read(ClockId::Realtime)
}

/// Returns both clocks, for a [`ClockMap`](crate::clock::ClockMap).
///
/// The wall clock is read between two readings of the monotonic clock. If these are more than 20 us apart because the
/// thread was interrupted, the clocks are read again, up to three times in total. This takes about 80 ns.
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

/// Returns the CPU time of all threads of this process, in user and kernel mode.
#[must_use]
pub fn process_cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// Returns the CPU time of the calling thread, in user and kernel mode.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Reads a clock. Negative times become zero.
fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().unwrap_or_default()
}

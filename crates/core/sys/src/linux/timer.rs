//! Timer with a file descriptor.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// `timerfd` on the monotonic clock. The descriptor becomes readable at the deadline, with the precision of the
/// kernel's high-resolution timers. It is meant for event loops (such as tokio with `AsyncFd`) whose own timers are
/// coarser.
#[derive(Debug)]
pub struct Timer {
    file: File,
}

impl Timer {
    /// Creates a timer that is not armed.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self { file: File::from(timerfd_create(TimerfdClockId::Monotonic, flags)?) })
    }

    /// Sets the deadline, in nanoseconds of [`monotonic_now`](super::monotonic_now), or disarms the timer if it is
    /// `None`. If the deadline has passed, the timer becomes readable immediately. A timer that is readable because of
    /// the previous deadline ceases to be readable.
    pub fn arm(&self, deadline: Option<u64>) -> io::Result<()> {
        // Zero would disarm the timer.
        let at = deadline.map_or(0, |ns| ns.max(1));
        let it_value = Timespec { tv_sec: (at / NANOS_PER_SEC) as _, tv_nsec: (at % NANOS_PER_SEC) as _ };
        let value = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.file, TimerfdTimerFlags::ABSTIME, &value)?;
        Ok(())
    }

    /// Clears the readability. Returns whether the timer had expired.
    pub fn drain(&self) -> io::Result<bool> {
        let mut expirations = [0; 8];
        match (&self.file).read(&mut expirations) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

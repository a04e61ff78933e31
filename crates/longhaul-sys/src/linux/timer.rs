//! A timer as a file descriptor.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use super::syscall::{timerfd_create, timerfd_settime};

/// A `timerfd` on the monotonic clock: readable once its deadline has passed, to the kernel's high-resolution timers'
/// precision. For an event loop (such as tokio's `AsyncFd`), whose own timers are coarser.
#[derive(Debug)]
pub struct Timer {
    file: File,
}

impl Timer {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// When the process or system is out of file descriptors or memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: File::from(timerfd_create()?) })
    }

    /// Becomes readable at `deadline`, in nanoseconds of [`monotonic_now`](super::monotonic_now) (at once if that has
    /// passed), or never. Replaces the former deadline and takes back its readability.
    ///
    /// # Errors
    /// None that a valid timer is known to give.
    pub fn arm(&self, deadline: Option<u64>) -> io::Result<()> {
        // Zero would disarm.
        let at = deadline.map_or(0, |ns| ns.max(1));
        timerfd_settime(self.file.as_fd(), Duration::from_nanos(at))
    }

    /// Takes back the readability; says whether the timer had fired.
    ///
    /// # Errors
    /// None that a valid timer is known to give; not having fired is `Ok(false)`.
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

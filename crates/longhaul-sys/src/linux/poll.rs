//! Waiting for several file descriptors, for threads without an event loop.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::syscall::{epoll_add, epoll_create, epoll_wait};

/// Set of file descriptors that are watched for readability (level-triggered `epoll`). To wait with a timeout, add a
/// [`Timer`](super::Timer).
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
}

impl Poll {
    /// Creates an empty set.
    ///
    /// # Errors
    /// Returns an error if the process or the system is out of file descriptors or memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll_create()? })
    }

    /// Watches `fd` until it is closed. `token` identifies it in [`wait`](Self::wait).
    ///
    /// # Errors
    /// Returns the system's error if `fd` is watched already or does not support `epoll`.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        epoll_add(self.fd.as_fd(), fd.as_fd(), token)
    }

    /// Appends the tokens of up to 64 descriptors that are readable or have failed to `ready`. If `block`, waits until
    /// there is at least one. A signal may end the wait early.
    ///
    /// # Errors
    /// Returns the system's error; none is known for a valid set.
    pub fn wait(&self, block: bool, ready: &mut Vec<u64>) -> io::Result<()> {
        epoll_wait(self.fd.as_fd(), block, ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::Timer;

    #[test]
    fn readable_descriptors_are_identified_by_their_tokens() {
        let (poll, timer, later) = (Poll::new().unwrap(), Timer::new().unwrap(), Timer::new().unwrap());
        poll.add(&timer, 7).unwrap();
        poll.add(&later, u64::MAX).unwrap();
        let mut ready = Vec::new();
        poll.wait(false, &mut ready).unwrap();
        assert!(ready.is_empty());
        timer.arm(Some(1)).unwrap();
        poll.wait(true, &mut ready).unwrap();
        poll.wait(true, &mut ready).unwrap();
        assert_eq!(ready, [7, 7], "level-triggered");
        drop(timer);
        later.arm(Some(1)).unwrap();
        // A process that another test starts has a copy of the closed one until it executes its program.
        let forgotten = (0..100_000).any(|_| {
            ready.clear();
            poll.wait(true, &mut ready).unwrap();
            std::thread::yield_now();
            ready == [u64::MAX]
        });
        assert!(forgotten, "a closed one is forgotten: {ready:?}");
        assert!(poll.add(&later, 1).is_err(), "watched already");
    }
}

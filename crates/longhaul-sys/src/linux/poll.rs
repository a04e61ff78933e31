//! Waiting for several descriptors at once, for a thread that has no event loop.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::syscall::{epoll_add, epoll_create, epoll_wait};

/// A set of descriptors that are watched for something to read (level-triggered `epoll`). A timeout is a
/// [`Timer`](super::Timer) among them.
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
}

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    /// When the process or system is out of file descriptors or memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll_create()? })
    }

    /// Watches `fd`, which is called `token` from now on, until it is closed.
    ///
    /// # Errors
    /// The system's: watched already, not a descriptor that can be waited for.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        epoll_add(self.fd.as_fd(), fd.as_fd(), token)
    }

    /// Appends to `ready` the tokens of descriptors that can be read or have failed, some 64 at most; if `block`, waits
    /// until there is one. A signal may end the wait early.
    ///
    /// # Errors
    /// None that a valid set is known to give.
    pub fn wait(&self, block: bool, ready: &mut Vec<u64>) -> io::Result<()> {
        epoll_wait(self.fd.as_fd(), block, ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::Timer;

    #[test]
    fn what_can_be_read_is_told_by_its_token() {
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
        ready.clear();
        poll.wait(true, &mut ready).unwrap();
        assert_eq!(ready, [u64::MAX], "a closed one is forgotten");
        assert!(poll.add(&later, 1).is_err(), "watched already");
    }
}

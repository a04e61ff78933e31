//! Waiting for several file descriptors, for threads without an event loop.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Largest number of tokens per [`Poll::wait`].
const MAX_EVENTS: usize = 64;

/// Set of file descriptors that are watched for readability (level-triggered `epoll`). To wait with a timeout, add a
/// [`Timer`](super::Timer).
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
}

impl Poll {
    /// Creates an empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches `fd` until it is closed. `token` identifies it in [`wait`](Self::wait).
    ///
    /// # Errors
    /// Returns the system's error if `fd` is watched already or does not support `epoll`.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// Appends the tokens of up to 64 descriptors that are readable or have failed to `ready`. If `block`, waits until
    /// there is at least one. A signal may end the wait early.
    pub fn wait(&self, block: bool, ready: &mut Vec<u64>) -> io::Result<()> {
        let mut events = [MaybeUninit::uninit(); MAX_EVENTS];
        let timeout = (!block).then(Timespec::default);
        match epoll::wait(&self.fd, &mut events, timeout.as_ref()) {
            Ok((events, _)) => ready.extend(events.iter().map(|event: &epoll::Event| event.data.u64())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
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
        // A process that another test starts has a copy of the closed descriptor until it executes its program, so the
        // kernel may report the descriptor for a while.
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

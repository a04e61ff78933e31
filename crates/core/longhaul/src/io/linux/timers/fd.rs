//! The timerfd of a runtime.

use std::io;
use std::task::{Context, Poll, ready};

use longhaul_sys::linux::{Timer, monotonic_now};
use longhaul_units::Time;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::io::linux::watch;

#[cfg(test)]
thread_local! {
    /// Whether the timerfds of this thread's runtime fail.
    pub(super) static FAILS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[derive(Debug)]
pub(super) struct Fd(AsyncFd<Timer>);

impl Fd {
    /// Must be called within a tokio runtime.
    pub(super) fn new() -> io::Result<Self> {
        watch(Timer::new()?, Interest::READABLE).map(Self)
    }

    pub(super) fn arm(&self, at: Time) -> io::Result<()> {
        self.0.get_ref().arm(Some(at.as_nanos().max(1)))
    }

    /// Returns whether the timerfd has expired, or `None` when the runtime shuts down.
    pub(super) fn poll_expired(&self, cx: &mut Context<'_>) -> Poll<Option<io::Result<bool>>> {
        let Ok(mut guard) = ready!(self.0.poll_read_ready(cx)) else { return Poll::Ready(None) };
        let expired = self.0.get_ref().drain();
        guard.clear_ready();
        #[cfg(test)]
        let expired = if FAILS.get() { Err(io::ErrorKind::InvalidData.into()) } else { expired };
        Poll::Ready(Some(expired))
    }
}

pub(super) fn now() -> Time {
    Time::from_nanos(monotonic_now())
}

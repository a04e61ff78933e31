//! A timerfd and its clock, for models: time passes only when a timer expires.
#![allow(clippy::unwrap_used, reason = "models are part of tests")]

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use longhaul_units::Time;
use shuttle::sync::{Condvar, Mutex};

thread_local! {
    /// shuttle runs all threads of a model in one thread.
    static NOW: Cell<Time> = const { Cell::new(Time::ZERO) };
}

pub(super) fn now() -> Time {
    NOW.get()
}

#[derive(Debug)]
pub(super) struct Fd(Arc<Device>);

/// The kernel's side of a timerfd.
#[derive(Debug, Default)]
pub(super) struct Device {
    state: Mutex<State>,
    armed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    at: Option<Time>,
    has_expired: bool,
    is_over: bool,
    waker: Option<Waker>,
}

impl Fd {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self::of(&Arc::default()))
    }

    pub(super) fn of(device: &Arc<Device>) -> Self {
        Self(Arc::clone(device))
    }

    pub(super) fn arm(&self, at: Time) -> io::Result<()> {
        let mut state = self.0.state.lock().unwrap();
        (state.at, state.has_expired) = (Some(at), false);
        self.0.armed.notify_all();
        Ok(())
    }

    pub(super) fn poll_expired(&self, cx: &mut Context<'_>) -> Poll<Option<io::Result<bool>>> {
        let mut state = self.0.state.lock().unwrap();
        if state.is_over {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut state.has_expired) {
            return Poll::Ready(Some(Ok(true)));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Device {
    /// Starts the clock. Expires what has been armed, until the end.
    pub(super) fn run(&self) {
        loop {
            let mut state =
                self.armed.wait_while(self.state.lock().unwrap(), |s| s.at.is_none() && !s.is_over).unwrap();
            if state.is_over {
                return;
            }
            let at = state.at.take().unwrap_or(now());
            NOW.set(now().max(at));
            state.has_expired = true;
            let waker = state.waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Ends the runtime.
    pub(super) fn end(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_over = true;
        let waker = state.waker.take();
        self.armed.notify_all();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Sets the clock to zero.
    pub(super) fn reset() {
        NOW.set(Time::ZERO);
    }
}

//! Timers of all sockets of a runtime on one timerfd.
//!
//! A timerfd per socket would double the number of descriptors and kernel timers per client connection. Instead, one
//! task per runtime waits for the timerfd and wakes the drivers whose deadlines have passed
//! (`docs/decisions/0032-what-a-client-connection-costs.md`).

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use longhaul_cc::TimerWheel;
use longhaul_units::Time;
use tokio::runtime::{Handle, Id};
use tokio::time::Sleep;

use self::fd::{Fd, now};
use self::lead::Lead;
use crate::io::clock::tokio_after;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

#[cfg_attr(shuttle, path = "../../../../../../tests/interleavings/src/fd.rs")]
mod fd;
mod lead;
#[cfg(shuttle)]
#[path = "../../../../../../tests/interleavings/src/timers.rs"]
pub(super) mod model;

/// The timer hub of each runtime that has sockets.
static HUBS: LazyLock<Mutex<HashMap<Id, Arc<Hub>>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
pub(super) struct SocketTimer {
    hub: Arc<Hub>,
    id: u32,
    alarm: Arc<Alarm>,
}

/// State shared by the hub's task and a driver.
#[derive(Debug, Default)]
struct Alarm {
    fired: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

#[derive(Debug)]
struct Hub {
    /// The timerfd; absent if the system does not support it.
    fd: Option<Fd>,
    deadlines: Mutex<Deadlines>,
}

#[derive(Debug)]
struct Deadlines {
    wheel: TimerWheel,
    alarms: Vec<Option<Arc<Alarm>>>,
    free: Vec<u32>,
    /// Time to which the timerfd is set. It may be before the first deadline.
    armed: Option<Armed>,
    lead: Lead,
    /// Whether the timerfd does not exist or has failed. The hub's task then waits with tokio's timer, which has a
    /// resolution of 1 ms.
    is_coarse: bool,
    task: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    at: Time,
    /// Whether the time was in the future when it was set.
    is_wait: bool,
}

/// The task that waits for a runtime's timerfd, as long as the runtime exists.
struct Wait {
    hub: Arc<Hub>,
    runtime: Id,
    wakers: Vec<Waker>,
    /// The timer that replaces the timerfd after it has failed.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl SocketTimer {
    /// Creates a timer that is not set. Must be called within a tokio runtime.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self::of(Hub::of_current_runtime()?))
    }

    fn of(hub: Arc<Hub>) -> Self {
        let alarm = Arc::new(Alarm::default());
        let mut deadlines = hub.deadlines.lock();
        let id = match deadlines.free.pop() {
            Some(id) => id,
            None => {
                deadlines.alarms.push(None);
                (deadlines.alarms.len() - 1) as u32
            }
        };
        deadlines.alarms[id as usize] = Some(Arc::clone(&alarm));
        drop(deadlines);
        Self { hub, id, alarm }
    }

    pub(super) fn arm(&self, at: Time) {
        let mut deadlines = self.hub.deadlines.lock();
        deadlines.wheel.set(self.id, at);
        let task = deadlines.set_timer(&self.hub);
        drop(deadlines);
        task.into_iter().for_each(Waker::wake);
    }

    /// Ready once after the deadline has passed.
    pub(super) fn poll_fired(&self, cx: &Context<'_>) -> Poll<()> {
        if self.alarm.take() {
            return Poll::Ready(());
        }
        let mut waker = self.alarm.waker.lock();
        let former = match &*waker {
            Some(known) if known.will_wake(cx.waker()) => None,
            _ => waker.replace(cx.waker().clone()),
        };
        drop(waker);
        drop(former);
        // The timer may have fired before the waker was stored.
        if self.alarm.take() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for SocketTimer {
    fn drop(&mut self) {
        let mut deadlines = self.hub.deadlines.lock();
        deadlines.wheel.cancel(self.id);
        let alarm = deadlines.alarms.get_mut(self.id as usize).and_then(Option::take);
        deadlines.free.push(self.id);
        drop(deadlines);
        // The waker may own a task, which may own another timer of this hub: drop it after the lock is released.
        drop(alarm);
    }
}

impl Alarm {
    fn take(&self) -> bool {
        self.fired.load(Ordering::Relaxed) && self.fired.swap(false, Ordering::AcqRel)
    }
}

impl Hub {
    fn of_current_runtime() -> io::Result<Arc<Self>> {
        let handle = Handle::current();
        let runtime = handle.id();
        let mut hubs = HUBS.lock();
        if let Some(hub) = hubs.get(&runtime) {
            return Ok(Arc::clone(hub));
        }
        let fd = match Fd::new() {
            Ok(fd) => Some(fd),
            // The system call does not exist, or a seccomp filter denies it.
            Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) => {
                tracing::debug!(%error, "there is no timerfd: times have a resolution of 1 ms");
                None
            }
            Err(error) => return Err(error),
        };
        let hub = Arc::new(Self::new(fd));
        hubs.insert(runtime, Arc::clone(&hub));
        drop(hubs);
        // A runtime that is shutting down drops the task at once, and dropping it removes the hub from the table.
        handle.spawn(Wait { hub: Arc::clone(&hub), runtime, wakers: Vec::new(), sleep: None });
        Ok(hub)
    }

    fn new(fd: Option<Fd>) -> Self {
        let deadlines = Deadlines {
            wheel: TimerWheel::new(now()),
            alarms: Vec::new(),
            free: Vec::new(),
            armed: None,
            lead: Lead::new(),
            is_coarse: fd.is_none(),
            task: None,
        };
        Self { fd, deadlines: Mutex::new(deadlines) }
    }
}

impl Deadlines {
    /// Sets the timerfd if it would fire too late. If it would fire too early, it is left unchanged, which costs less
    /// than setting it again. Returns the waker of the hub's task if the task has to set its own timer.
    fn set_timer(&mut self, hub: &Hub) -> Option<Waker> {
        let next = self.wheel.next()?;
        let at = next - self.lead.get();
        if self.armed.is_some_and(|armed| at >= armed.at) {
            return None;
        }
        self.armed = Some(Armed { at, is_wait: at > now() });
        if let Some(fd) = hub.fd.as_ref().filter(|_| !self.is_coarse) {
            let error = fd.arm(at).err()?;
            self.fail(&error);
        }
        self.task.clone()
    }

    fn fail(&mut self, error: &io::Error) {
        tracing::error!(%error, "the timerfd failed: times have a resolution of 1 ms from now on");
        self.is_coarse = true;
    }

    fn fired(&mut self, now: Time) {
        let Some(armed) = self.armed.take() else { return };
        if armed.is_wait {
            self.lead.waited(now - armed.at);
        }
    }

    /// Marks the timers whose deadlines have passed as fired, and collects their wakers.
    fn expire(&mut self, now: Time, wakers: &mut Vec<Waker>) {
        while let Some(id) = self.wheel.pop_expired(now) {
            if let Some(Some(alarm)) = self.alarms.get(id as usize) {
                alarm.fired.store(true, Ordering::Release);
                wakers.extend(alarm.waker.lock().clone());
            }
        }
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match ready!(self.poll_timer(cx)) {
                Ok(true) => {}
                Ok(false) => continue,
                // The runtime is shutting down.
                Err(()) => return Poll::Ready(()),
            }
            let Self { hub, wakers, .. } = &mut *self;
            let mut deadlines = hub.deadlines.lock();
            let now = now();
            deadlines.fired(now);
            deadlines.expire(now, wakers);
            wakers.extend(deadlines.set_timer(hub));
            drop(deadlines);
            wakers.drain(..).for_each(Waker::wake);
        }
    }
}

impl Wait {
    /// Ready when a deadline may have passed; the value is `true` if the timer has fired.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, ()>> {
        let mut deadlines = self.hub.deadlines.lock();
        if !deadlines.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            deadlines.task = Some(cx.waker().clone());
        }
        let (is_coarse, next) = (deadlines.is_coarse, deadlines.wheel.next());
        drop(deadlines);
        match &self.hub.fd {
            Some(fd) if !is_coarse => {
                let Some(expired) = ready!(fd.poll_expired(cx)) else { return Poll::Ready(Err(())) };
                // After an error, the loop continues with tokio's timer.
                Poll::Ready(Ok(expired.unwrap_or_else(|error| {
                    self.hub.deadlines.lock().fail(&error);
                    false
                })))
            }
            _ => {
                let Some(next) = next else { return Poll::Pending };
                let wait = Duration::from_nanos((next - now()).as_nanos());
                if wait.is_zero() {
                    return Poll::Ready(Ok(true));
                }
                let Some(deadline) = tokio_after(wait) else { return Poll::Pending };
                let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
                sleep.as_mut().reset(deadline);
                sleep.as_mut().poll(cx).map(|()| Ok(true))
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut hubs = HUBS.lock();
        let ours = hubs.get(&self.runtime).is_some_and(|hub| Arc::ptr_eq(hub, &self.hub));
        let hub = ours.then(|| hubs.remove(&self.runtime)).flatten();
        drop(hubs);
        drop(hub);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use longhaul_units::Span;

    use super::fd::FAILS;
    use super::*;

    async fn fires(timer: &SocketTimer, after: Span) {
        let deadline = now() + after;
        timer.arm(deadline);
        tokio::time::timeout(Duration::from_secs(20), poll_fn(|cx| timer.poll_fired(cx))).await.unwrap();
        assert!(now() >= deadline);
    }

    #[tokio::test]
    async fn timers_go_on_after_an_error_of_the_timerfd() {
        let timers = [SocketTimer::new().unwrap(), SocketTimer::new().unwrap()];
        fires(&timers[0], Span::from_micros(300)).await;
        FAILS.set(true);
        timers[1].arm(now() + Span::from_millis(5));
        for _ in 0..3 {
            fires(&timers[0], Span::from_millis(2)).await;
        }
        fires(&timers[0], Span::ZERO).await;
        let other = poll_fn(|cx| timers[1].poll_fired(cx));
        tokio::time::timeout(Duration::from_secs(20), other).await.unwrap();
        assert!(timers[0].hub.deadlines.lock().is_coarse);
    }

    /// The timerfd expires before the deadlines, by the lead that the waits have shown.
    #[tokio::test]
    async fn no_timer_fires_before_its_deadline() {
        let timer = SocketTimer::new().unwrap();
        for _ in 0..100 {
            let deadline = now() + Span::from_micros(300);
            timer.arm(deadline);
            let fired = poll_fn(|cx| timer.poll_fired(cx));
            tokio::time::timeout(Duration::from_secs(20), fired).await.unwrap();
            assert!(now() >= deadline);
        }
        assert!(!timer.hub.deadlines.lock().lead.get().is_zero());
    }
}

//! Timers of all sockets of a runtime on one timerfd.
//!
//! A timerfd per socket would double what a client connection costs in descriptors and kernel timers. Instead, one
//! task per runtime waits for the timerfd and wakes the drivers whose deadlines have passed
//! (`docs/decisions/0032-what-a-client-connection-costs.md`).

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use longhaul_cc::TimerWheel;
use longhaul_sys::linux::{Timer, monotonic_now};
use longhaul_units::Time;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, Id};

use super::watch;

mod lead;

use lead::Lead;

/// The timer hub of each runtime that has sockets.
static HUBS: LazyLock<Mutex<HashMap<Id, Arc<Hub>>>> = LazyLock::new(Mutex::default);

/// The timer of one socket.
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
    timer: AsyncFd<Timer>,
    deadlines: Mutex<Deadlines>,
}

#[derive(Debug)]
struct Deadlines {
    wheel: TimerWheel,
    alarms: Vec<Option<Arc<Alarm>>>,
    free: Vec<u32>,
    /// What the timerfd is set to. It may be too early for the first deadline.
    armed: Option<Armed>,
    lead: Lead,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    at: Time,
    /// Whether this was in the future when it was set.
    is_wait: bool,
}

/// The task that waits for a runtime's timerfd, as long as the runtime exists.
struct Wait {
    hub: Arc<Hub>,
    runtime: Id,
    wakers: Vec<Waker>,
}

impl SocketTimer {
    /// Creates a timer that is not set. Must be called within a tokio runtime.
    pub(super) fn new() -> io::Result<Self> {
        let hub = Hub::of_current_runtime()?;
        let alarm = Arc::new(Alarm::default());
        let mut deadlines = lock(&hub.deadlines);
        let id = match deadlines.free.pop() {
            Some(id) => id,
            None => {
                deadlines.alarms.push(None);
                (deadlines.alarms.len() - 1) as u32
            }
        };
        deadlines.alarms[id as usize] = Some(Arc::clone(&alarm));
        drop(deadlines);
        Ok(Self { hub, id, alarm })
    }

    /// Sets or cancels the deadline.
    pub(super) fn arm(&self, at: Option<Time>) -> io::Result<()> {
        let mut deadlines = lock(&self.hub.deadlines);
        match at {
            Some(at) => deadlines.wheel.set(self.id, at),
            None => deadlines.wheel.cancel(self.id),
        }
        deadlines.set_timer(self.hub.timer.get_ref())
    }

    /// Ready once after the deadline has passed.
    pub(super) fn poll_fired(&self, cx: &Context<'_>) -> Poll<()> {
        if self.alarm.take() {
            return Poll::Ready(());
        }
        let mut waker = lock(&self.alarm.waker);
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
        let mut deadlines = lock(&self.hub.deadlines);
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
        let mut hubs = lock(&HUBS);
        if let Some(hub) = hubs.get(&runtime) {
            return Ok(Arc::clone(hub));
        }
        let wheel = TimerWheel::new(now());
        let deadlines = Deadlines { wheel, alarms: Vec::new(), free: Vec::new(), armed: None, lead: Lead::new() };
        let hub = Arc::new(Self { timer: watch(Timer::new()?, Interest::READABLE)?, deadlines: Mutex::new(deadlines) });
        hubs.insert(runtime, Arc::clone(&hub));
        drop(hubs);
        // A runtime that is shutting down drops the task at once, and dropping it removes the hub from the table.
        handle.spawn(Wait { hub: Arc::clone(&hub), runtime, wakers: Vec::new() });
        Ok(hub)
    }
}

impl Deadlines {
    /// Sets the timerfd if it would fire too late. If it would fire too early it is left as it is, which costs less
    /// than setting it again.
    fn set_timer(&mut self, timer: &Timer) -> io::Result<()> {
        let Some(next) = self.wheel.next() else { return Ok(()) };
        let at = next - self.lead.get();
        if self.armed.is_none_or(|armed| at < armed.at) {
            timer.arm(Some(at.as_nanos().max(1)))?;
            self.armed = Some(Armed { at, is_wait: at > now() });
        }
        Ok(())
    }

    /// Records that the timerfd has fired.
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
                wakers.extend(lock(&alarm.waker).clone());
            }
        }
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { hub, wakers, .. } = &mut *self;
        loop {
            let Ok(mut guard) = ready!(hub.timer.poll_read_ready(cx)) else { return Poll::Ready(()) };
            let fired = hub.timer.get_ref().drain();
            guard.clear_ready();
            match fired {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::error!(%error, "the timer failed");
                    return Poll::Ready(());
                }
            }
            let mut deadlines = lock(&hub.deadlines);
            let now = now();
            deadlines.fired(now);
            deadlines.expire(now, wakers);
            let set = deadlines.set_timer(hub.timer.get_ref());
            drop(deadlines);
            if let Err(error) = set {
                tracing::error!(%error, "the timer failed");
            }
            wakers.drain(..).for_each(Waker::wake);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut hubs = lock(&HUBS);
        let ours = hubs.get(&self.runtime).is_some_and(|hub| Arc::ptr_eq(hub, &self.hub));
        let hub = ours.then(|| hubs.remove(&self.runtime)).flatten();
        drop(hubs);
        drop(hub);
    }
}

fn now() -> Time {
    Time::from_nanos(monotonic_now())
}

/// Locks a mutex. Poisoning is ignored, because the lists are consistent even if a thread has panicked while holding
/// the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use longhaul_units::Span;

    use super::*;

    /// The timerfd expires before the deadlines, by the lead that the waits have shown.
    #[tokio::test]
    async fn no_timer_fires_before_its_deadline() {
        let timer = SocketTimer::new().unwrap();
        for _ in 0..100 {
            let deadline = now() + Span::from_micros(300);
            timer.arm(Some(deadline)).unwrap();
            let fired = poll_fn(|cx| timer.poll_fired(cx));
            tokio::time::timeout(Duration::from_secs(20), fired).await.unwrap();
            assert!(now() >= deadline);
        }
        assert!(!lock(&timer.hub.deadlines).lead.get().is_zero());
    }
}

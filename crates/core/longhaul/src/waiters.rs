//! Tasks that wait for events of a connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

/// The number of a future that waits for events.
pub(crate) type Key = u64;

pub(crate) fn key() -> Key {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    /// The task that polled last, as in tokio's types.
    polling: Option<Waker>,
    /// Futures that can wait at the same time, such as those of `readable()`, the oldest first. Each is removed when it
    /// is dropped. Boxed, because it is rarely used and there may be many idle connections.
    #[expect(clippy::box_collection, reason = "an empty one takes a word instead of three")]
    futures: Option<Box<Vec<(Key, Waker)>>>,
}

impl WakerSet {
    /// Registers the polling task in place of the previous one. Returns the waker of the previous task, which may own
    /// that task and must not be dropped while a lock is held.
    #[must_use]
    pub(crate) fn register(&mut self, cx: &Context<'_>) -> Option<Waker> {
        match &self.polling {
            Some(known) if known.will_wake(cx.waker()) => None,
            _ => self.polling.replace(cx.waker().clone()),
        }
    }

    /// Registers a future that has a key, like [`register`](Self::register).
    #[must_use]
    pub(crate) fn register_future(&mut self, key: Key, cx: &Context<'_>) -> Option<Waker> {
        let futures = self.futures.get_or_insert_default();
        match futures.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) if known.will_wake(cx.waker()) => None,
            Some((_, known)) => Some(std::mem::replace(known, cx.waker().clone())),
            None => {
                futures.push((key, cx.waker().clone()));
                None
            }
        }
    }

    /// Removes a future and returns its waker, unless it has been woken.
    pub(crate) fn forget(&mut self, key: Key) -> Option<Waker> {
        let futures = self.futures.as_mut()?;
        let at = futures.iter().position(|(known, _)| *known == key)?;
        let (_, waker) = futures.remove(at);
        if futures.is_empty() {
            self.futures = None;
        }
        Some(waker)
    }

    /// Moves the wakers of the polling task and of the oldest future to `out`.
    pub(crate) fn take_one(&mut self, out: &mut Vec<Waker>) {
        out.extend(self.polling.take());
        if let Some(futures) = self.futures.as_mut().filter(|futures| !futures.is_empty()) {
            out.push(futures.remove(0).1);
        }
    }

    /// Moves the wakers to `out`. The caller wakes them after releasing the endpoint's lock.
    pub(crate) fn take(&mut self, out: &mut Vec<Waker>) {
        out.extend(self.polling.take());
        out.extend(self.futures.take().into_iter().flat_map(|futures| futures.into_iter().map(|(_, waker)| waker)));
    }
}

/// The event that a task waits for.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    Read,
    Write,
    /// The end of the handshake, the acknowledgment of the FIN, or the end of the connection.
    State,
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    read: WakerSet,
    /// Boxed, because most idle connections only wait for data.
    others: Option<Box<Others>>,
}

#[derive(Debug, Default)]
struct Others {
    write: WakerSet,
    state: WakerSet,
}

impl Waiters {
    pub(crate) fn of(&mut self, wait: Wait) -> &mut WakerSet {
        match wait {
            Wait::Read => &mut self.read,
            Wait::Write => &mut self.others.get_or_insert_default().write,
            Wait::State => &mut self.others.get_or_insert_default().state,
        }
    }

    /// Moves the wakers of the tasks that wait for an event to `out`.
    pub(crate) fn take(&mut self, wait: Wait, out: &mut Vec<Waker>) {
        match (wait, &mut self.others) {
            (Wait::Read, _) => self.read.take(out),
            (Wait::Write, Some(others)) => others.write.take(out),
            (Wait::State, Some(others)) => others.state.take(out),
            (_, None) => {}
        }
    }

    /// Removes a future from all sets and returns its wakers.
    pub(crate) fn forget(&mut self, key: Key) -> [Option<Waker>; 3] {
        let (write, state) =
            self.others.as_mut().map_or((None, None), |others| (others.write.forget(key), others.state.forget(key)));
        [self.read.forget(key), write, state]
    }

    pub(crate) fn take_all(&mut self, out: &mut Vec<Waker>) {
        [Wait::Read, Wait::Write, Wait::State].into_iter().for_each(|wait| self.take(wait, out));
    }
}

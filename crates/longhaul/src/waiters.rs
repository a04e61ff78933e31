//! Tasks that wait for events of a connection.

use std::task::{Context, Waker};

/// The tasks that wait for one kind of event. There is usually one; a second reader, or `readable()` concurrent with
/// a read, adds more.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    first: Option<Waker>,
    /// Boxed, because it is rarely used and idle connections are many.
    #[expect(clippy::box_collection, reason = "an empty one takes a word instead of three")]
    more: Option<Box<Vec<Waker>>>,
}

impl WakerSet {
    pub(crate) fn register(&mut self, cx: &Context<'_>) {
        let waker = cx.waker();
        match &mut self.first {
            None => self.first = Some(waker.clone()),
            Some(first) if first.will_wake(waker) => {}
            Some(_) => {
                let more = self.more.get_or_insert_default();
                if !more.iter().any(|w| w.will_wake(waker)) {
                    more.push(waker.clone());
                }
            }
        }
    }

    /// Moves the wakers to `out`. The caller wakes them after releasing the endpoint's lock.
    pub(crate) fn take(&mut self, out: &mut Vec<Waker>) {
        out.extend(self.first.take());
        out.extend(self.more.take().into_iter().flat_map(|more| *more));
    }
}

/// The waiting tasks of one connection.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    pub(crate) read: WakerSet,
    pub(crate) write: WakerSet,
    /// For the end of the handshake, the acknowledgment of the FIN, and the end of the connection.
    pub(crate) state: WakerSet,
}

impl Waiters {
    /// Returns the wakers of all waiting tasks.
    pub(crate) fn into_wakers(mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for set in [&mut self.read, &mut self.write, &mut self.state] {
            set.take(&mut wakers);
        }
        wakers
    }
}

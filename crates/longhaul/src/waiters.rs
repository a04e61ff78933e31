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
    /// Boxed, because most idle connections only wait for data.
    others: Option<Box<Others>>,
}

/// Tasks that wait for something other than data.
#[derive(Debug, Default)]
struct Others {
    write: WakerSet,
    state: WakerSet,
}

impl Waiters {
    pub(crate) fn write(&mut self) -> &mut WakerSet {
        &mut self.others.get_or_insert_default().write
    }

    /// Tasks that wait for the end of the handshake, the acknowledgment of the FIN, or the end of the connection.
    pub(crate) fn state(&mut self) -> &mut WakerSet {
        &mut self.others.get_or_insert_default().state
    }

    /// Moves the tasks that wait to write to `out`.
    pub(crate) fn take_write(&mut self, out: &mut Vec<Waker>) {
        if let Some(others) = &mut self.others {
            others.write.take(out);
        }
    }

    /// Moves the tasks that wait for a change of the state to `out`.
    pub(crate) fn take_state(&mut self, out: &mut Vec<Waker>) {
        if let Some(others) = &mut self.others {
            others.state.take(out);
        }
    }

    /// Moves all waiting tasks to `out`.
    pub(crate) fn take_all(&mut self, out: &mut Vec<Waker>) {
        self.read.take(out);
        self.take_write(out);
        self.take_state(out);
    }
}

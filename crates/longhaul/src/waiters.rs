//! Who waits for what of a connection.

use std::task::{Context, Waker};

/// Tasks that wait for one thing. Usually one; a second reader or a `readable()` beside a read makes more.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    first: Option<Waker>,
    /// Boxed, as it is rarely there and idle connections are many.
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

    /// Moves the wakers to `out`: they are woken once the endpoint's lock is released.
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
    /// For the handshake, for the acknowledgment of the FIN, for the end.
    pub(crate) state: WakerSet,
    /// The connection's, if anybody subscribes to it.
    pub(crate) span: Option<Box<tracing::Span>>,
}

impl Waiters {
    /// Everybody who waits.
    pub(crate) fn into_wakers(mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for set in [&mut self.read, &mut self.write, &mut self.state] {
            set.take(&mut wakers);
        }
        wakers
    }
}

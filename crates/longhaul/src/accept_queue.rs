//! Accept queue of a listener, which all of its shards have in common.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::waiters::WakerSet;

/// Shard numbers, one for each connection that waits to be accepted, in the order in which the handshakes ended. The
/// connection itself waits in the endpoint of the shard. The lock is never held while another one is taken.
#[derive(Debug, Default)]
pub(crate) struct AcceptQueue(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    shards: VecDeque<u32>,
    /// Tasks that wait in `accept`.
    tasks: WakerSet,
    /// The error of the first shard whose socket has failed.
    failed: Option<io::ErrorKind>,
}

impl AcceptQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection of a shard, and moves the waiting tasks to `wake`.
    pub(crate) fn push(&self, shard: u32, wake: &mut Vec<Waker>) {
        let mut queue = self.lock();
        queue.shards.push_back(shard);
        queue.tasks.take(wake);
    }

    /// Records that a shard has failed, and moves the waiting tasks to `wake`.
    pub(crate) fn fail(&self, kind: io::ErrorKind, wake: &mut Vec<Waker>) {
        let mut queue = self.lock();
        queue.failed.get_or_insert(kind);
        queue.tasks.take(wake);
    }

    /// Returns a queue for one shard alone, as its shard 0, with the connections that wait here.
    pub(crate) fn of_shard(&self, shard: u32) -> Self {
        let queue = self.lock();
        let waiting = queue.shards.iter().filter(|next| **next == shard).count();
        let shards = std::iter::repeat_n(0, waiting).collect();
        Self(Mutex::new(Queue { shards, tasks: WakerSet::default(), failed: None }))
    }

    /// Ready with the shard of the next connection, or with the error of a failed shard.
    pub(crate) fn poll_pop(&self, cx: &Context<'_>) -> Poll<io::Result<u32>> {
        let mut queue = self.lock();
        if let Some(kind) = queue.failed {
            return Poll::Ready(Err(kind.into()));
        }
        match queue.shards.pop_front() {
            Some(shard) => Poll::Ready(Ok(shard)),
            None => {
                queue.tasks.register(cx);
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_one_shard_has_its_connections_only() {
        let (queue, cx) = (AcceptQueue::default(), Context::from_waker(Waker::noop()));
        for shard in [1, 0, 1] {
            queue.push(shard, &mut Vec::new());
        }
        queue.fail(io::ErrorKind::NotConnected, &mut Vec::new());
        let alone = queue.of_shard(1);
        for _ in 0..2 {
            assert!(matches!(alone.poll_pop(&cx), Poll::Ready(Ok(0))));
        }
        assert!(alone.poll_pop(&cx).is_pending());
    }

    #[test]
    fn connections_are_accepted_in_order_until_a_shard_fails() {
        let (queue, mut wake, cx) = (AcceptQueue::default(), Vec::new(), Context::from_waker(Waker::noop()));
        assert!(queue.poll_pop(&cx).is_pending());
        for shard in [1, 0, 1] {
            queue.push(shard, &mut wake);
        }
        assert_eq!(wake.len(), 1, "one task waited");
        for shard in [1, 0] {
            assert!(matches!(queue.poll_pop(&cx), Poll::Ready(Ok(next)) if next == shard));
        }
        queue.fail(io::ErrorKind::NotConnected, &mut wake);
        queue.fail(io::ErrorKind::Other, &mut wake);
        let Poll::Ready(Err(error)) = queue.poll_pop(&cx) else { panic!("no error") };
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }
}

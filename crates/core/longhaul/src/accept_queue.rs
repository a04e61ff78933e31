//! Accept queue of a listener, shared by all of its shards.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;
use crate::waiters::{Key, WakerSet, key};

/// Shard numbers, one per connection that waits to be accepted, in the order in which the handshakes completed. The
/// connection itself waits in the endpoint of the shard. The lock is never held while another one is taken.
#[derive(Debug, Default)]
pub(crate) struct AcceptQueue(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    shards: VecDeque<u32>,
    tasks: WakerSet,
    /// The error of the first shard whose socket has failed.
    failed: Option<io::ErrorKind>,
}

impl AcceptQueue {
    /// Adds a connection of a shard, and moves a waiting task to `wake`.
    pub(crate) fn push(&self, shard: u32, wake: &mut Vec<Waker>) {
        let mut queue = self.0.lock();
        queue.shards.push_back(shard);
        queue.tasks.take_one(wake);
    }

    /// Records that a shard has failed, and moves the waiting tasks to `wake`.
    pub(crate) fn fail(&self, kind: io::ErrorKind, wake: &mut Vec<Waker>) {
        let mut queue = self.0.lock();
        queue.failed.get_or_insert(kind);
        queue.tasks.take(wake);
    }

    /// Returns a queue for a single shard, numbered 0, with the connections of `shard` that wait in this queue.
    pub(crate) fn of_shard(&self, shard: u32) -> Self {
        let queue = self.0.lock();
        let waiting = queue.shards.iter().filter(|next| **next == shard).count();
        let shards = std::iter::repeat_n(0, waiting).collect();
        Self(Mutex::new(Queue { shards, tasks: WakerSet::default(), failed: None }))
    }

    /// Ready with the shard of the next connection, or with the error of a failed shard. A future that waits has a key.
    pub(crate) fn poll_pop(&self, cx: &Context<'_>, key: Option<Key>) -> Poll<io::Result<u32>> {
        let mut queue = self.0.lock();
        if let Some(kind) = queue.failed {
            return Poll::Ready(Err(kind.into()));
        }
        if let Some(shard) = queue.shards.pop_front() {
            // A future that is polled without having been woken no longer waits: another future gets the next
            // connection.
            let former = key.and_then(|key| queue.tasks.forget(key));
            drop(queue);
            drop(former);
            return Poll::Ready(Ok(shard));
        }
        let former = match key {
            Some(key) => queue.tasks.register_future(key, cx),
            None => queue.tasks.register(cx),
        };
        drop(queue);
        drop(former);
        Poll::Pending
    }

    /// Removes a future that has been dropped. If it had been woken for a connection that has not been accepted,
    /// another task is woken.
    fn forget(&self, key: Key) {
        let mut queue = self.0.lock();
        let (former, mut wake) = (queue.tasks.forget(key), Vec::new());
        if former.is_none() && !queue.shards.is_empty() {
            queue.tasks.take_one(&mut wake);
        }
        drop(queue);
        drop(former);
        wake.into_iter().for_each(Waker::wake);
    }
}

/// A future that waits for a connection.
pub(crate) struct Accepting<'a> {
    queue: &'a AcceptQueue,
    pub(crate) key: Key,
    /// Whether the future may be in the queue's list.
    pub(crate) waits: bool,
}

impl<'a> Accepting<'a> {
    pub(crate) fn new(queue: &'a AcceptQueue) -> Self {
        Self { queue, key: key(), waits: false }
    }
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.queue.forget(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

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
            assert!(matches!(alone.poll_pop(&cx, None), Poll::Ready(Ok(0))));
        }
        assert!(alone.poll_pop(&cx, None).is_pending());
    }

    #[test]
    fn connections_are_accepted_in_order_until_a_shard_fails() {
        let (queue, mut wake, cx) = (AcceptQueue::default(), Vec::new(), Context::from_waker(Waker::noop()));
        assert!(queue.poll_pop(&cx, None).is_pending());
        for shard in [1, 0, 1] {
            queue.push(shard, &mut wake);
        }
        assert_eq!(wake.len(), 1, "one task waited");
        for shard in [1, 0] {
            assert!(matches!(queue.poll_pop(&cx, None), Poll::Ready(Ok(next)) if next == shard));
        }
        queue.fail(io::ErrorKind::NotConnected, &mut wake);
        queue.fail(io::ErrorKind::Other, &mut wake);
        let Poll::Ready(Err(error)) = queue.poll_pop(&cx, None) else { panic!("no error") };
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }

    /// Counts how often it has been woken.
    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(future: &mut Accepting<'_>, counter: &Arc<Counter>) -> Poll<io::Result<u32>> {
        let waker = Waker::from(Arc::clone(counter));
        let popped = future.queue.poll_pop(&Context::from_waker(&waker), Some(future.key));
        future.waits = popped.is_pending();
        popped
    }

    /// A runtime may poll a future without having been asked to.
    #[test]
    fn a_future_that_took_a_connection_unasked_is_not_woken_for_the_next() {
        let (queue, counters) = (AcceptQueue::default(), [(); 2].map(|()| Arc::new(Counter::default())));
        let mut futures = [Accepting::new(&queue), Accepting::new(&queue)];
        for (future, counter) in futures.iter_mut().zip(&counters) {
            assert!(poll(future, counter).is_pending());
        }
        let push = || {
            let mut wake = Vec::new();
            queue.push(0, &mut wake);
            wake.into_iter().for_each(Waker::wake);
        };
        push();
        assert!(poll(&mut futures[1], &counters[1]).is_ready());
        assert!(poll(&mut futures[0], &counters[0]).is_pending());
        push();
        assert_eq!(counters.each_ref().map(|counter| counter.0.load(Ordering::Relaxed)), [2, 0]);
    }

    #[test]
    fn one_connection_wakes_one_of_many_futures() {
        let (queue, counters) = (AcceptQueue::default(), [(); 100].map(|()| Arc::new(Counter::default())));
        let mut futures: Vec<_> = counters.iter().map(|_| Accepting::new(&queue)).collect();
        for (future, counter) in futures.iter_mut().zip(&counters) {
            assert!(poll(future, counter).is_pending() && poll(future, counter).is_pending());
        }
        let push = || {
            let mut wake = Vec::new();
            queue.push(0, &mut wake);
            assert_eq!(wake.len(), 1);
            wake.pop().unwrap().wake();
        };
        let woken = || counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
        push();
        assert_eq!(woken()[..3], [1, 0, 0]);
        // The future is dropped before it has taken the connection.
        drop(futures.remove(0));
        assert_eq!((woken()[1], woken().iter().sum::<usize>()), (1, 2));
        assert!(poll(&mut futures[0], &counters[1]).is_ready());
        // Futures that are dropped are forgotten.
        futures.clear();
        assert_eq!(woken().iter().sum::<usize>(), 2);
        let mut wake = Vec::new();
        queue.push(0, &mut wake);
        assert!(wake.is_empty());
    }
}

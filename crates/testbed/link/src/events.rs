//! Event queue in virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use longhaul_units::Time;

/// Events ordered by time, and events of equal time by the order of their addition.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    serial: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.serial)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), added: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event.
    pub fn add(&mut self, at: Time, event: E) {
        self.added += 1;
        self.heap.push(Reverse(Entry { at, serial: self.added, event }));
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Returns the next event and its time.
    pub fn peek(&self) -> Option<(Time, &E)> {
        self.heap.peek().map(|Reverse(entry)| (entry.at, &entry.event))
    }

    /// Removes the next event and returns it with its time.
    pub fn take(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_and_then_in_the_order_added() {
        let mut queue = EventQueue::default();
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (0, 'e')] {
            queue.add(Time::from_nanos(at), name);
        }
        assert_eq!(queue.peek(), Some((Time::ZERO, &'e')));
        let order: String = std::iter::from_fn(|| queue.take()).map(|(_, name)| name).collect();
        assert_eq!(order, "ebdac");
    }
}

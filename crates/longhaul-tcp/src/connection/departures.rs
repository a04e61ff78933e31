//! Timestamps of sent segments, which show whether a received probe echo is possible (`docs/wire.md`, "Probe echo").
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::collections::VecDeque;

/// Maximum number of recorded timestamps. Nothing is known about older ones.
const REMEMBERED: usize = 1024;

/// Use of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bearer {
    /// One batch of segments carried it.
    One,
    /// A probe carried it, and the peer has echoed it.
    Named,
    /// Several batches within one tick carried it.
    Several,
}

/// The newest timestamps sent, in order.
#[derive(Debug, Default)]
pub(super) struct Departures(VecDeque<(u32, Bearer)>);

impl Departures {
    /// Records that segments are sent with this timestamp, which must not be older than the last one.
    pub(super) fn note(&mut self, value: u32) {
        match self.0.back_mut() {
            Some((last, bearer)) if *last == value => *bearer = Bearer::Several,
            _ => {
                if self.0.len() >= REMEMBERED {
                    self.0.pop_front();
                }
                self.0.push_back((value, Bearer::One));
            }
        }
    }

    /// Records that the peer echoed this probe's timestamp.
    pub(super) fn name(&mut self, value: u32) {
        let found = self.find(value).and_then(Result::ok).and_then(|index| self.0.get_mut(index));
        if let Some((_, bearer)) = found.filter(|(_, bearer)| *bearer == Bearer::One) {
            *bearer = Bearer::Named;
        }
    }

    /// Returns whether an echo of this timestamp is impossible, because it was never sent or was already echoed.
    /// Echoes of timestamps older than all recorded ones are considered possible.
    pub(super) fn refutes(&self, value: u32) -> bool {
        match self.find(value) {
            Some(Ok(index)) => self.0.get(index).is_some_and(|(_, bearer)| *bearer == Bearer::Named),
            Some(Err(_)) => true,
            None => false,
        }
    }

    /// Returns its index, or the index for its insertion; `None` if it is older than all recorded timestamps.
    fn find(&self, value: u32) -> Option<Result<usize, usize>> {
        let (oldest, _) = *self.0.front()?;
        let age = |value: u32| value.wrapping_sub(oldest);
        let known = age(value) <= i32::MAX as u32;
        known.then(|| self.0.binary_search_by_key(&age(value), |(value, _)| age(*value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timestamp that was sent may be echoed once, others may not; this also holds across wrap-around.
    #[test]
    fn what_left_may_be_named_once() {
        for first in [7, u32::MAX - 10] {
            let at = |ticks: u32| first.wrapping_add(ticks);
            let mut left = Departures::default();
            assert!(!left.refutes(at(0)), "nothing is known");
            for ticks in [0, 5, 5, 20, 31] {
                left.note(at(ticks));
            }
            for (ticks, refuted) in [(0, false), (1, true), (4, true), (5, false), (20, false), (30, true), (32, true)]
            {
                assert_eq!(left.refutes(at(ticks)), refuted, "{ticks}");
            }
            assert!(!left.refutes(first.wrapping_sub(1)), "from before");
            for ticks in [5, 20, 21] {
                left.name(at(ticks));
            }
            assert!(left.refutes(at(20)), "twice");
            assert!(!left.refutes(at(5)), "another may have been meant");
        }
    }

    #[test]
    fn the_memory_is_bounded_and_says_nothing_of_what_it_forgot() {
        let mut left = Departures::default();
        (0..3 * REMEMBERED as u32).for_each(|nth| left.note(nth * 2));
        assert_eq!(left.0.len(), REMEMBERED);
        assert!(!left.refutes(4 * REMEMBERED as u32 - 1) && left.refutes(4 * REMEMBERED as u32 + 1));
        left.name(3);
    }
}

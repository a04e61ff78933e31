//! Timestamps of sent segments, which show whether a received probe echo is possible (`docs/wire.md`, "Probe echo").

use std::collections::VecDeque;

/// Maximum number of recorded timestamps. Nothing is known about older ones.
const MAX_RECORDS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// A single batch of segments carried the timestamp.
    One,
    /// A probe carried the timestamp, and the peer has echoed it.
    Echoed,
    /// Several batches within one tick carried the timestamp.
    Several,
}

/// The newest timestamps sent, in order.
#[derive(Debug, Default)]
pub(super) struct SentTimestamps(VecDeque<(u32, Usage)>);

impl SentTimestamps {
    /// Records that segments are sent with this timestamp, which must not be older than the last one.
    pub(super) fn note(&mut self, value: u32) {
        match self.0.back_mut() {
            Some((last, usage)) if *last == value => *usage = Usage::Several,
            _ => {
                if self.0.len() >= MAX_RECORDS {
                    self.0.pop_front();
                }
                self.0.push_back((value, Usage::One));
            }
        }
    }

    /// Records that the peer echoed this probe's timestamp.
    pub(super) fn name(&mut self, value: u32) {
        let found = self.find(value).and_then(Result::ok).and_then(|index| self.0.get_mut(index));
        if let Some((_, usage)) = found.filter(|(_, usage)| *usage == Usage::One) {
            *usage = Usage::Echoed;
        }
    }

    /// Returns whether an echo of this timestamp is impossible, because it was never sent or was already echoed.
    /// Echoes of timestamps older than all recorded ones are considered possible.
    pub(super) fn rules_out(&self, value: u32) -> bool {
        match self.find(value) {
            Some(Ok(index)) => self.0.get(index).is_some_and(|(_, usage)| *usage == Usage::Echoed),
            Some(Err(_)) => true,
            None => false,
        }
    }

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
    fn a_sent_timestamp_may_be_echoed_once() {
        for first in [7, u32::MAX - 10] {
            let at = |ticks: u32| first.wrapping_add(ticks);
            let mut sent = SentTimestamps::default();
            assert!(!sent.rules_out(at(0)), "no timestamp is recorded");
            for ticks in [0, 5, 5, 20, 31] {
                sent.note(at(ticks));
            }
            for (ticks, refuted) in [(0, false), (1, true), (4, true), (5, false), (20, false), (30, true), (32, true)]
            {
                assert_eq!(sent.rules_out(at(ticks)), refuted, "{ticks}");
            }
            assert!(!sent.rules_out(first.wrapping_sub(1)), "older than all records");
            for ticks in [5, 20, 21] {
                sent.name(at(ticks));
            }
            assert!(sent.rules_out(at(20)), "echoed twice");
            assert!(!sent.rules_out(at(5)), "the echo may belong to another batch");
        }
    }

    #[test]
    fn forgotten_timestamps_are_not_ruled_out() {
        let mut sent = SentTimestamps::default();
        (0..3 * MAX_RECORDS as u32).for_each(|nth| sent.note(nth * 2));
        assert_eq!(sent.0.len(), MAX_RECORDS);
        assert!(!sent.rules_out(4 * MAX_RECORDS as u32 - 1) && sent.rules_out(4 * MAX_RECORDS as u32 + 1));
        sent.name(3);
    }
}

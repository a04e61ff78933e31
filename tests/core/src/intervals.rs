//! Sets of stream offsets.

use std::collections::BTreeMap;
use std::ops::Range;

/// Set of offsets, stored as disjoint ranges that never touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals(BTreeMap<u64, u64>);

impl Intervals {
    /// Adds the offsets of a range.
    pub fn add(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        while let Some((&s, &e)) = self.0.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            (start, end) = (start.min(s), end.max(e));
            self.0.remove(&s);
        }
        self.0.insert(start, end);
    }

    /// Returns the parts of a range that are in the set, in descending order.
    #[must_use]
    pub fn overlaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let reaching = self.0.range(..range.end).rev().take_while(|(_, e)| **e > range.start);
        reaching.map(|(s, e)| (*s).max(range.start)..(*e).min(range.end)).collect()
    }

    /// Returns whether the whole range is in the set.
    #[must_use]
    pub fn contains(&self, range: Range<u64>) -> bool {
        self.0.range(..=range.start).next_back().is_some_and(|(_, e)| *e >= range.end)
    }

    /// Returns the end of the stored range that contains `from` or ends there, or `from` if there is none.
    #[must_use]
    pub fn reach(&self, from: u64) -> u64 {
        self.0.range(..=from).next_back().map_or(from, |(_, e)| (*e).max(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_tell_of_overlaps() {
        let mut set = Intervals::default();
        set.add(10..20);
        set.add(30..40);
        assert_eq!(set.overlaps(15..35), [30..35, 15..20]);
        set.add(20..30);
        assert!(set.contains(10..40) && !set.contains(9..11) && !set.contains(39..41));
        assert_eq!(set.overlaps(40..50), []);
        set.add(5..11);
        set.add(39..50);
        set.add(60..60);
        assert_eq!((set.reach(5), set.reach(0), set.reach(55)), (50, 0, 55));
    }
}

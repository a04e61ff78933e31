//! Small sorted sets of stream offset ranges.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::ops::Range;

/// Sorted set of disjoint, non-adjacent, non-empty ranges. Lookup takes logarithmic time; insertion and removal
/// take time linear in the number of ranges. A peer can cause many ranges, therefore [`insert`](Self::insert) takes
/// a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    pub(crate) fn memory(&self) -> usize {
        self.0.capacity().saturating_mul(size_of::<Range<u64>>())
    }

    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    pub(crate) fn last_below(&self, offset: u64) -> Option<Range<u64>> {
        let count = self.0.partition_point(|range| range.start < offset);
        self.0.get(count.checked_sub(1)?).cloned()
    }

    /// Returns whether one of the ranges contains all of `range`, which must not be empty.
    pub(crate) fn hold(&self, range: &Range<u64>) -> bool {
        self.last_below(range.start.saturating_add(1)).is_some_and(|found| range.end <= found.end)
    }

    /// Returns whether any of the ranges overlaps `range`, which must not be empty.
    pub(crate) fn meet(&self, range: &Range<u64>) -> bool {
        self.last_below(range.end).is_some_and(|found| range.start < found.end)
    }

    /// Adds `range` and returns the number of octets that were not in the set before. If there would be more than
    /// `most` ranges, returns `None` and adds nothing.
    pub(crate) fn insert(&mut self, range: Range<u64>, most: usize) -> Option<u64> {
        if range.is_empty() {
            return Some(0);
        }
        // Existing ranges that overlap or touch the new one.
        let from = self.0.partition_point(|other| other.end < range.start);
        let to = self.0.partition_point(|other| other.start <= range.end).max(from);
        if from == to && self.0.len() >= most {
            return None;
        }
        let joined = self.0.get(from..to).unwrap_or_default();
        let had = joined.iter().map(|other| other.end.min(range.end).saturating_sub(other.start.max(range.start)));
        let new = range.end.saturating_sub(range.start).saturating_sub(had.sum());
        let start = joined.first().map_or(range.start, |other| other.start.min(range.start));
        let end = joined.last().map_or(range.end, |other| other.end.max(range.end));
        drop(self.0.splice(from..to, std::iter::once(start..end)));
        Some(new)
    }

    pub(crate) fn take_below(&mut self, offset: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let whole = self.0.partition_point(|range| range.end <= offset);
        let mut taken: Vec<_> = self.0.drain(..whole).collect();
        if let Some(cut) = self.0.first_mut().filter(|range| range.start < offset) {
            taken.push(cut.start..offset);
            cut.start = offset;
        }
        taken.into_iter()
    }

    pub(crate) fn keep_highest(&mut self, most: usize) {
        let excess = self.0.len().saturating_sub(most);
        self.0.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPAN: u64 = 64;

    /// Returns the ranges of set flags.
    fn ranges_of(flags: &[bool]) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        for (at, _) in flags.iter().enumerate().filter(|(_, set)| **set) {
            let at = at as u64;
            match found.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => found.push(at..at + 1),
            }
        }
        found
    }

    proptest! {
        #[test]
        fn agrees_with_a_vector_of_flags(
            operations in prop::collection::vec((0..SPAN, 0..12u64, any::<bool>()), 0..60),
            most in 1..8usize,
        ) {
            let (mut ranges, mut flags) = (Ranges::default(), [false; 80]);
            for (start, len, below) in operations {
                let range = start..start + len;
                let within = |flags: &[bool; 80]| flags[start as usize..(start + len) as usize].to_vec();
                if below {
                    let taken: Vec<_> = ranges.take_below(start / 2).collect();
                    prop_assert_eq!(taken, ranges_of(&flags[..start as usize / 2]));
                    flags[..start as usize / 2].fill(false);
                } else {
                    let mut after = flags;
                    after[start as usize..(start + len) as usize].fill(true);
                    let new = within(&flags).iter().filter(|set| !**set).count() as u64;
                    // Only a range that touches no other one can exceed the limit.
                    let refused = ranges_of(&after).len() > most && ranges_of(&after).len() > ranges_of(&flags).len();
                    prop_assert_eq!(ranges.insert(range.clone(), most), (!refused).then_some(new));
                    flags = if refused { flags } else { after };
                }
                prop_assert_eq!(&ranges.0, &ranges_of(&flags));
                if len > 0 {
                    prop_assert_eq!(ranges.meet(&range), within(&flags).contains(&true));
                    prop_assert_eq!(ranges.hold(&range), !within(&flags).contains(&false));
                }
                let below = ranges_of(&flags).into_iter().rfind(|found| found.start < start);
                prop_assert_eq!(ranges.last_below(start), below);
            }
            let all = ranges.0.clone();
            ranges.keep_highest(2);
            prop_assert_eq!(&ranges.0, &all[all.len().saturating_sub(2)..]);
        }
    }
}

//! Bit set over a ring, with summary words that skip long runs in steps of up to 4,096 bits.

/// One bit per slot of a ring of `capacity` slots (a power of two, at least 64), addressed by monotonically
/// increasing indices: index `i` uses slot `i & (capacity - 1)`.
#[derive(Clone, Debug, Default)]
pub(super) struct BitRing {
    /// The words of the ring, and then two summaries of them: bit `w` of the first is set if all bits of word `w` are
    /// set, and in the second if any bit is set. All are in one allocation, because there are many idle connections.
    pub(super) bits: Box<[u64]>,
    words: usize,
}

impl BitRing {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let words = capacity.div_ceil(64);
        Self { bits: vec![0; words + 2 * words.div_ceil(64)].into(), words }
    }

    fn locate(&self, index: u64) -> (usize, u64) {
        let slot = index as usize & (self.words * 64 - 1);
        (slot / 64, 1 << (slot % 64))
    }

    fn summary_len(&self) -> usize {
        self.words.div_ceil(64)
    }

    fn full(&self, summary: usize) -> u64 {
        self.bits[self.words + summary]
    }

    fn any(&self, summary: usize) -> u64 {
        self.bits[self.words + self.summary_len() + summary]
    }

    fn summarise(&mut self, word: usize) {
        let (s, bit) = (word / 64, 1u64 << (word % 64));
        let (value, any) = (self.bits[word], self.words + self.summary_len() + s);
        let full = &mut self.bits[self.words + s];
        *full = if value == u64::MAX { *full | bit } else { *full & !bit };
        let any = &mut self.bits[any];
        *any = if value != 0 { *any | bit } else { *any & !bit };
    }

    pub(super) fn set(&mut self, index: u64) {
        let (word, bit) = self.locate(index);
        self.bits[word] |= bit;
        self.summarise(word);
    }

    pub(super) fn clear(&mut self, index: u64) {
        let (word, bit) = self.locate(index);
        if self.bits[word] & bit != 0 {
            self.bits[word] &= !bit;
            self.summarise(word);
        }
    }

    /// Returns the words of the ring, inverted unless `SET`, and the summaries that show which of these words contain a
    /// one.
    fn word<const SET: bool>(&self, word: usize) -> u64 {
        if SET { self.bits[word] } else { !self.bits[word] }
    }

    fn summary<const SET: bool>(&self, summary: usize) -> u64 {
        if SET { self.any(summary) } else { !self.full(summary) }
    }

    /// Returns the first index in `from..to` whose bit is `SET`, or is not.
    pub(super) fn next<const SET: bool>(&self, from: u64, to: u64) -> Option<u64> {
        let mut index = from;
        while index < to {
            let slot = index as usize & (self.words * 64 - 1);
            let (w, shift) = (slot / 64, slot % 64);
            let here = self.word::<SET>(w) >> shift;
            if here != 0 {
                let found = index + u64::from(here.trailing_zeros());
                return (found < to).then_some(found);
            }
            index += 64 - shift as u64;
            let (s, offset) = ((w + 1) / 64, (w + 1) % 64);
            // Skip words by their summary. If the summary word is past the end, the ring wraps around.
            if index < to && s < self.summary_len() && w + 1 < self.words {
                let left = self.words - (w + 1);
                let skip = (self.summary::<SET>(s) >> offset).trailing_zeros().min(64 - offset as u32) as usize;
                index += 64 * skip.min(left) as u64;
            }
        }
        None
    }

    /// Returns the indices in `from..to` whose bits are set.
    pub(super) fn ones(&self, from: u64, to: u64) -> Vec<u64> {
        std::iter::successors(self.next::<true>(from, to), |last| self.next::<true>(last + 1, to)).collect()
    }

    /// Returns the last index in `from..to` whose bit is `SET`, or is not.
    pub(super) fn last<const SET: bool>(&self, from: u64, to: u64) -> Option<u64> {
        let mut end = to;
        while end > from {
            let slot = (end - 1) as usize & (self.words * 64 - 1);
            let (w, above) = (slot / 64, 63 - slot % 64);
            let here = self.word::<SET>(w) << above;
            if here != 0 {
                let found = end - 1 - u64::from(here.leading_zeros());
                return (found >= from).then_some(found);
            }
            end = end.saturating_sub(64 - above as u64);
            if w > 0 && end > from {
                // Skip words by their summary, down to the lowest word. Below it, the ring wraps around.
                let (s, offset) = ((w - 1) / 64, (w - 1) % 64);
                let skip = (self.summary::<SET>(s) << (63 - offset)).leading_zeros().min(offset as u32 + 1);
                end = end.saturating_sub(64 * u64::from(skip));
            }
        }
        None
    }

    pub(super) fn memory(&self) -> usize {
        self.bits.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_vector(
            base in 0u64..100_000,
            log in 6u32..15,
            runs in prop::collection::vec((0u64..16_384, 0u64..3_000), 0..12),
            holes in prop::collection::vec(0u64..16_384, 0..6),
        ) {
            let capacity = 1u64 << log;
            let mut ring = BitRing::with_capacity(capacity as usize);
            let mut plain = vec![false; capacity as usize];
            for (start, len) in runs {
                for i in start..(start + len).min(capacity) {
                    ring.set(base + i);
                    plain[i as usize] = true;
                }
            }
            for hole in holes.into_iter().filter(|h| *h < capacity) {
                ring.clear(base + hole);
                plain[hole as usize] = false;
            }
            for from in [0, 1, capacity / 3, capacity - 1] {
                let want = |value| plain.iter().skip(from as usize).position(|b| *b == value).map(|p| base + from + p as u64);
                prop_assert_eq!(ring.next::<false>(base + from, base + capacity), want(false));
                prop_assert_eq!(ring.next::<true>(base + from, base + capacity), want(true));
                let to = capacity - from;
                let want = |value| plain[..to as usize].iter().rposition(|b| *b == value).map(|p| base + p as u64);
                prop_assert_eq!(ring.last::<false>(base, base + to), want(false));
                prop_assert_eq!(ring.last::<true>(base, base + to), want(true));
                let middle = |value| want(value).filter(|at| *at >= base + to / 2);
                prop_assert_eq!(ring.last::<false>(base + to / 2, base + to), middle(false));
                prop_assert_eq!(ring.last::<true>(base + to / 2, base + to), middle(true));
            }
        }
    }
}

//! Bit set over a ring, with summary words that skip long runs in steps of up to 4,096 bits.

/// One bit per slot of a ring of `capacity` slots (a power of two, at least 64), addressed by monotonically
/// increasing indices: index `i` uses slot `i & (capacity - 1)`.
#[derive(Clone, Debug, Default)]
pub(super) struct BitRing {
    words: Vec<u64>,
    /// Bit `w` is set if all bits of `words[w]` are set.
    full: Vec<u64>,
    /// Bit `w` is set if any bit of `words[w]` is set.
    any: Vec<u64>,
}

impl BitRing {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let words = capacity.div_ceil(64);
        let summary = words.div_ceil(64);
        Self { words: vec![0; words], full: vec![0; summary], any: vec![0; summary] }
    }

    fn locate(&self, index: u64) -> (usize, u64) {
        let slot = index as usize & (self.words.len() * 64 - 1);
        (slot / 64, 1 << (slot % 64))
    }

    fn summarise(&mut self, word: usize) {
        let (s, bit) = (word / 64, 1u64 << (word % 64));
        let value = self.words[word];
        self.full[s] = if value == u64::MAX { self.full[s] | bit } else { self.full[s] & !bit };
        self.any[s] = if value != 0 { self.any[s] | bit } else { self.any[s] & !bit };
    }

    pub(super) fn set(&mut self, index: u64) {
        let (word, bit) = self.locate(index);
        self.words[word] |= bit;
        self.summarise(word);
    }

    pub(super) fn clear(&mut self, index: u64) {
        let (word, bit) = self.locate(index);
        if self.words[word] & bit != 0 {
            self.words[word] &= !bit;
            self.summarise(word);
        }
    }

    pub(super) fn clear_all(&mut self) {
        self.words.fill(0);
        self.full.fill(0);
        self.any.fill(0);
    }

    /// Returns the first index in `from..to` whose bit is clear.
    pub(super) fn next_clear(&self, from: u64, to: u64) -> Option<u64> {
        self.next(from, to, |ring, w| !ring.words[w], |ring, s| !ring.full[s])
    }

    /// Returns the first index in `from..to` whose bit is set.
    pub(super) fn next_set(&self, from: u64, to: u64) -> Option<u64> {
        self.next(from, to, |ring, w| ring.words[w], |ring, s| ring.any[s])
    }

    /// Returns the first index in `from..to` with a one in `word`; `summary` tells which words have any.
    fn next(
        &self,
        from: u64,
        to: u64,
        word: impl Fn(&Self, usize) -> u64,
        summary: impl Fn(&Self, usize) -> u64,
    ) -> Option<u64> {
        let mut index = from;
        while index < to {
            let slot = index as usize & (self.words.len() * 64 - 1);
            let (w, shift) = (slot / 64, slot % 64);
            let here = word(self, w) >> shift;
            if here != 0 {
                let found = index + u64::from(here.trailing_zeros());
                return (found < to).then_some(found);
            }
            index += 64 - shift as u64;
            let (s, offset) = ((w + 1) / 64, (w + 1) % 64);
            // Skip words by their summary. If the summary word is past the end, the ring wraps around.
            if index < to && s < self.any.len() && w + 1 < self.words.len() {
                let left = self.words.len() - (w + 1);
                let skip = (summary(self, s) >> offset).trailing_zeros().min(64 - offset as u32) as usize;
                index += 64 * skip.min(left) as u64;
            }
        }
        None
    }

    /// Returns the last index in `from..to` whose bit is clear.
    pub(super) fn last_clear(&self, from: u64, to: u64) -> Option<u64> {
        self.last(from, to, |ring, w| !ring.words[w], |ring, s| !ring.full[s])
    }

    /// Returns the last index in `from..to` whose bit is set.
    pub(super) fn last_set(&self, from: u64, to: u64) -> Option<u64> {
        self.last(from, to, |ring, w| ring.words[w], |ring, s| ring.any[s])
    }

    /// Returns the last index in `from..to` with a one in `word`; `summary` tells which words have any.
    fn last(
        &self,
        from: u64,
        to: u64,
        word: impl Fn(&Self, usize) -> u64,
        summary: impl Fn(&Self, usize) -> u64,
    ) -> Option<u64> {
        let mut end = to;
        while end > from {
            let slot = (end - 1) as usize & (self.words.len() * 64 - 1);
            let (w, above) = (slot / 64, 63 - slot % 64);
            let here = word(self, w) << above;
            if here != 0 {
                let found = end - 1 - u64::from(here.leading_zeros());
                return (found >= from).then_some(found);
            }
            end = end.saturating_sub(64 - above as u64);
            if w > 0 && end > from {
                // Skip words by their summary, down to the lowest word. Below it, the ring wraps around.
                let (s, offset) = ((w - 1) / 64, (w - 1) % 64);
                let skip = (summary(self, s) << (63 - offset)).leading_zeros().min(offset as u32 + 1);
                end = end.saturating_sub(64 * u64::from(skip));
            }
        }
        None
    }

    pub(super) fn memory(&self) -> usize {
        (self.words.capacity() + self.full.capacity() + self.any.capacity()) * 8
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
                prop_assert_eq!(ring.next_clear(base + from, base + capacity), want(false));
                prop_assert_eq!(ring.next_set(base + from, base + capacity), want(true));
                let to = capacity - from;
                let want = |value| plain[..to as usize].iter().rposition(|b| *b == value).map(|p| base + p as u64);
                prop_assert_eq!(ring.last_clear(base, base + to), want(false));
                prop_assert_eq!(ring.last_set(base, base + to), want(true));
                let middle = |value| want(value).filter(|at| *at >= base + to / 2);
                prop_assert_eq!(ring.last_clear(base + to / 2, base + to), middle(false));
                prop_assert_eq!(ring.last_set(base + to / 2, base + to), middle(true));
            }
        }
    }
}

//! SACK blocks and D-SACKs of an ACK, as offsets in our stream (RFC 2018; RFC 2883).

use arrayvec::ArrayVec;
use longhaul_wire::{SackBlock, SackBlocks};

use crate::connection::Numbers;

/// SACK option of a segment that acknowledges `ack`.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct SackOption<'a> {
    pub(super) numbers: &'a Numbers,
    pub(super) blocks: &'a [SackBlock],
    pub(super) ack: u64,
}

impl SackOption<'_> {
    fn offsets(&self, block: &SackBlock) -> (i64, i64) {
        (self.numbers.our_offset(block.left, self.ack), self.numbers.our_offset(block.right, self.ack))
    }

    /// Returns the blocks above SND.UNA. Other blocks are ignored.
    ///
    /// The blocks are in ascending order (RFC 8985, section 6.2, step 3). The option lists the newest block first; the
    /// other blocks would look overtaken if the ACK reports them for the first time.
    pub(super) fn ranges(&self) -> ArrayVec<(u64, u64), { SackBlocks::CAPACITY }> {
        let above = |(left, right): (i64, i64)| {
            (left >= self.ack as i64 && right > left).then_some((left as u64, right as u64))
        };
        let mut ranges: ArrayVec<_, { SackBlocks::CAPACITY }> =
            self.blocks.iter().filter_map(|block| above(self.offsets(block))).collect();
        ranges.sort_unstable();
        ranges
    }

    /// Returns the range of a D-SACK in the first block, if there is one (RFC 2883, section 4). Data up to `nxt` was sent.
    pub(super) fn dsack(&self, nxt: u64) -> Option<(u64, u64)> {
        let (left, right) = self.offsets(self.blocks.first()?);
        if left < 1 || right <= left || right > nxt as i64 {
            return None;
        }
        let inside_second = || {
            let second = self.blocks.get(1).map(|second| self.offsets(second));
            second.is_some_and(|second| second.0 <= left && right <= second.1)
        };
        (right <= self.ack as i64 || inside_second()).then_some((left as u64, right as u64))
    }

    /// Returns whether the first block reports a duplicate of data that was never sent, which ends at `sent_to`. A
    /// duplicate of sent data may have been created by the network.
    pub(in crate::connection) fn claims_unsent(&self, sent_to: u64) -> bool {
        self.blocks.first().is_some_and(|first| {
            let (left, right) = self.offsets(first);
            left < self.ack as i64 && (left < 0 || right > sent_to as i64)
        })
    }

    /// Returns whether the first block ends above `nxt`. Such an ACK is triggered by data that was sent ahead, and is
    /// not a duplicate ACK.
    pub(in crate::connection) fn is_beyond(&self, nxt: u64) -> bool {
        self.blocks.first().is_some_and(|first| self.offsets(first).1 > nxt as i64)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Time;

    use super::*;
    use crate::TimestampClock;

    /// Passes the option with these blocks in an ACK of 4000 to `read`. The ISN is zero, so that offsets are sequence numbers.
    fn with<T>(blocks: &[(u32, u32)], read: impl FnOnce(SackOption<'_>) -> T) -> T {
        let numbers = Numbers::new(0, TimestampClock::new(0, Time::ZERO, false));
        let blocks: Vec<_> = blocks.iter().map(|&(left, right)| SackBlock { left, right }).collect();
        read(SackOption { numbers: &numbers, blocks: &blocks, ack: 4000 })
    }

    /// RFC 2883, sections 4.1.1 to 4.1.3, and 4.2.3: a block below the ACK, or within the second block, reports a duplicate.
    #[test]
    fn duplicates_of_the_examples_of_rfc_2883() {
        let dsack = |blocks: &[_]| with(blocks, |sack| sack.dsack(9000));
        assert_eq!(dsack(&[(3000, 3500)]), Some((3000, 3500)));
        assert_eq!(dsack(&[(3000, 3500), (4500, 5000)]), Some((3000, 3500)));
        assert_eq!(dsack(&[(5000, 5500), (4500, 5500)]), Some((5000, 5500)));
        assert_eq!(dsack(&[(4500, 5000), (5500, 6000)]), None, "an ordinary block");
        assert_eq!(dsack(&[]), None);
    }

    /// Nothing beyond SND.NXT can have arrived twice, and nothing precedes the stream.
    #[test]
    fn impossible_duplicates_are_none() {
        for blocks in [[(3000, 9001), (2000, 9002)], [(0, 500), (0, 500)], [(3500, 3500), (3000, 3500)]] {
            assert_eq!(with(&blocks, |sack| sack.dsack(9000)), None, "{blocks:?}");
        }
        assert!(with(&[(3000, 9001)], |sack| sack.claims_unsent(9000)));
        assert!(!with(&[(3000, 9000)], |sack| sack.claims_unsent(9000)));
        assert!(!with(&[(4500, 9001)], |sack| sack.claims_unsent(9000)), "data above the ACK, such as data sent ahead");
        assert!(
            with(&[(4500, 9001)], |sack| sack.is_beyond(9000)) && !with(&[(4500, 9000)], |sack| sack.is_beyond(9000))
        );
    }

    #[test]
    fn ranges_are_sorted_and_lie_above_the_ack() {
        let ranges = with(&[(3000, 3500), (7000, 7500), (5000, 5500), (6500, 6000)], |sack| sack.ranges());
        assert_eq!(ranges.as_slice(), [(5000, 5500), (7000, 7500)]);
    }
}

//! SACK blocks and D-SACKs of an ACK, as offsets in our stream (RFC 2018; RFC 2883).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use arrayvec::ArrayVec;
use longhaul_wire::{SackBlock, SackBlocks};

use crate::connection::Numbers;

/// SACK option of a segment that acknowledges `ack`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SackOption<'a> {
    pub(super) numbers: &'a Numbers,
    pub(super) blocks: &'a [SackBlock],
    pub(super) ack: u64,
}

impl SackOption<'_> {
    fn offsets(&self, block: &SackBlock) -> (i64, i64) {
        (self.numbers.our_offset(block.left, self.ack), self.numbers.our_offset(block.right, self.ack))
    }

    /// Returns the blocks above SND.UNA. Others are ignored.
    ///
    /// They are in ascending order (RFC 8985, section 6.2, step 3). The option lists the newest block first; the others
    /// would look overtaken if the ACK reports them for the first time.
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

    /// Returns whether the first block reports a duplicate of data that was never sent, which ends at `sent_to`. A duplicate of
    /// sent data may be the network's.
    pub(super) fn claims_unsent(&self, sent_to: u64) -> bool {
        self.blocks.first().is_some_and(|first| {
            let (left, right) = self.offsets(first);
            left < self.ack as i64 && (left < 0 || right > sent_to as i64)
        })
    }

    /// Returns whether the first block ends above `nxt`. Such an ACK is triggered by data that the RC3 loop sent beyond it, and
    /// is no duplicate ACK.
    pub(super) fn is_beyond(&self, nxt: u64) -> bool {
        self.blocks.first().is_some_and(|first| self.offsets(first).1 > nxt as i64)
    }
}

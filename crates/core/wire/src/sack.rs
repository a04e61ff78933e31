//! Selective acknowledgment blocks.

use core::fmt;

/// Block of contiguous data held by the receiver (RFC 2018, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SackBlock {
    /// Left edge: the first sequence number of the block.
    pub left: u32,
    /// Right edge: the sequence number immediately after the block.
    pub right: u32,
}

/// Up to 4 SACK blocks, the most that fit into 40 bytes of options (RFC 2018, section 3), in the order of transmission.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SackBlocks {
    /// Unused entries are zero, so that the derived `PartialEq` compares only the blocks.
    blocks: [SackBlock; Self::CAPACITY],
    len: u8,
}

impl SackBlocks {
    /// Largest number of blocks.
    pub const CAPACITY: usize = 4;

    /// An empty list.
    pub const EMPTY: Self = Self { blocks: [SackBlock { left: 0, right: 0 }; Self::CAPACITY], len: 0 };

    /// Appends a block. Returns `false` and changes nothing if the list is full.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(place) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = block;
        self.len = self.len.saturating_add(1);
        true
    }

    /// Returns the number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether there are no blocks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the blocks as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..self.len()).unwrap_or_default()
    }

    /// Iterates over the blocks.
    pub fn iter(&self) -> core::slice::Iter<'_, SackBlock> {
        self.as_slice().iter()
    }

    /// Keeps the first `len` blocks.
    pub fn truncate(&mut self, len: usize) {
        for unused in self.blocks.iter_mut().skip(len) {
            *unused = SackBlock::default();
        }
        self.len = self.len.min(u8::try_from(len).unwrap_or(u8::MAX));
    }

    /// Returns whether the first block is a D-SACK block, which is below the acknowledgment number `ack` of the segment
    /// or contained in the second block (RFC 2883, section 5).
    #[must_use]
    pub fn has_dsack(&self, ack: u32) -> bool {
        let [first, second, ..] = self.blocks;
        match self.len {
            0 => false,
            1 => precedes(first.left, ack),
            _ => {
                precedes(first.left, ack)
                    || (!precedes(first.left, second.left) && !precedes(second.right, first.right))
            }
        }
    }
}

/// Returns whether sequence number `a` precedes `b`, modulo 2^32 (RFC 9293, section 3.4).
fn precedes(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed().is_negative()
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'a> IntoIterator for &'a SackBlocks {
    type Item = &'a SackBlock;
    type IntoIter = core::slice::Iter<'a, SackBlock>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    /// Collects the first 4 blocks of the iterator.
    fn from_iter<I: IntoIterator<Item = SackBlock>>(iter: I) -> Self {
        let mut blocks = Self::EMPTY;
        for block in iter.into_iter().take(Self::CAPACITY) {
            blocks.push(block);
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::{SackBlock, SackBlocks};

    fn blocks(list: &[(u32, u32)]) -> SackBlocks {
        list.iter().map(|&(left, right)| SackBlock { left, right }).collect()
    }

    #[test]
    fn push_stops_at_four() {
        let mut sack = blocks(&[(1, 2), (3, 4), (5, 6), (7, 8)]);
        assert!(!sack.push(SackBlock { left: 9, right: 10 }));
        assert_eq!(sack.len(), 4);
        sack.truncate(1);
        assert_eq!(sack, blocks(&[(1, 2)]));
        sack.truncate(9);
        assert_eq!(sack.as_slice(), [SackBlock { left: 1, right: 2 }]);
    }

    /// Examples 1, 2, 3, 5 and 6 of RFC 2883, section 4, and ACKs without a D-SACK block from the same tables.
    #[test]
    fn dsack_examples_of_rfc_2883() {
        assert!(blocks(&[(3000, 3500)]).has_dsack(4000));
        assert!(blocks(&[(3000, 3500), (4500, 5000)]).has_dsack(4000));
        assert!(blocks(&[(5000, 5500), (4500, 5500)]).has_dsack(4000));
        assert!(blocks(&[(1000, 1500), (3000, 3500)]).has_dsack(2500));
        assert!(blocks(&[(1500, 2000), (1500, 3000), (3500, 4000)]).has_dsack(1000));
        assert!(!blocks(&[(4500, 5500)]).has_dsack(4000));
        assert!(!blocks(&[(2000, 2500), (3000, 3500)]).has_dsack(1500));
        assert!(!blocks(&[(2000, 2500), (1500, 2000), (3500, 4000)]).has_dsack(1000));
        assert!(!blocks(&[]).has_dsack(4000));
    }

    #[test]
    fn dsack_across_the_wrap_of_sequence_numbers() {
        assert!(blocks(&[(0xffff_ff00, 0x10)]).has_dsack(0x20));
        assert!(!blocks(&[(0x10, 0x20)]).has_dsack(0xffff_ff00));
        assert!(blocks(&[(0xffff_fff0, 0x10), (0xffff_ffe0, 0x20)]).has_dsack(0xffff_ff00));
    }
}

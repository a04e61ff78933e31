//! Segments that continue the one before them in a receive batch, as receive offload delivers them. They cost less than
//! others, because most of what they say has been checked with the first.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use bytes::Bytes;
use longhaul_wire::{Ecn, Flags, Header};

use crate::SegmentMeta;

/// Segments that follow one another without a gap, with payloads of the same length, as they lie in a receive buffer.
#[derive(Debug)]
pub(crate) struct Train<'a> {
    /// The buffer.
    pub(crate) buffer: &'a Bytes,
    /// The part of it from the first payload to the end of the last.
    pub(crate) part: &'a [u8],
    /// Number of segments.
    pub(crate) count: usize,
    /// Bytes of each payload, and of the header before it.
    pub(crate) payload: u16,
    pub(crate) header: u16,
}

/// Returns whether a segment with this header may be followed by others in a train: it only acknowledges and carries
/// data.
pub(super) fn may_lead(meta: &SegmentMeta, header: &Header) -> bool {
    let is_plain = header.flags == Flags::ACK || header.flags == Flags::ACK | Flags::PSH;
    is_plain && meta.ecn != Ecn::Ce && header.options.only_timestamps().is_some()
}

//! Received segments: metadata, payload, and their place in the peer's stream.

use bytes::Bytes;
use longhaul_units::Time;
use longhaul_wire::{Ecn, Flags, Header};

/// Metadata of a received segment.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SegmentMeta {
    /// The time at which the kernel received it, on the clock of `now`. It is used for RTT and dispersion, and never as
    /// `now`.
    pub rx_time: Option<Time>,
    /// Whether receive offload merged the segment with others.
    pub coalesced: bool,
    /// The ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// The TTL or hop limit on arrival, if the socket reports it.
    pub ttl: Option<u8>,
}

impl SegmentMeta {
    /// Returns when the host received the segment, which is handled at `now`.
    pub(super) fn received_at(&self, now: Time) -> Time {
        self.rx_time.unwrap_or(now).min(now)
    }
}

/// Payload of a segment: bytes and, if available, the shared buffer that contains them.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    pub(super) shared: Option<&'a Bytes>,
}

impl<'a> Payload<'a> {
    /// Creates a payload whose bytes are copied if they are kept.
    #[must_use]
    pub const fn copied(bytes: &'a [u8]) -> Self {
        Self { bytes, shared: None }
    }

    /// Creates a payload within `shared`, which is kept by reference.
    #[must_use]
    pub const fn shared(bytes: &'a [u8], shared: &'a Bytes) -> Self {
        Self { bytes, shared: Some(shared) }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the payload is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn part(&self, from: usize, to: usize) -> Self {
        let to = to.min(self.bytes.len());
        Self { bytes: self.bytes.get(from.min(to)..to).unwrap_or_default(), shared: self.shared }
    }

    pub(super) fn keep(&self) -> Bytes {
        match self.shared {
            Some(shared) => shared.slice_ref(self.bytes),
            None => Bytes::copy_from_slice(self.bytes),
        }
    }
}

/// Received segment with its numbers as stream offsets.
#[derive(Clone, Copy)]
pub(super) struct Incoming<'a> {
    pub(super) now: Time,
    pub(super) meta: &'a SegmentMeta,
    pub(super) header: &'a Header,
    pub(super) payload: Payload<'a>,
    /// Offset of the first octet; negative if it precedes the peer's SYN.
    pub(super) start: i64,
    /// Offset in our stream that it acknowledges, once that has been checked.
    pub(super) ack: u64,
}

impl Incoming<'_> {
    pub(super) fn received_at(&self) -> Time {
        self.meta.received_at(self.now)
    }

    pub(super) fn timestamp(&self) -> Option<u32> {
        self.header.options.timestamps.map(|stamp| stamp.value)
    }

    pub(super) fn echo(&self) -> Option<u32> {
        self.header.options.timestamps.map(|stamp| stamp.echo)
    }

    pub(super) fn data_end(&self) -> i64 {
        self.start.saturating_add(self.payload.len() as i64)
    }

    /// Returns the offset after the segment, SYN and FIN included.
    pub(super) fn end(&self) -> i64 {
        self.start.saturating_add(self.header.sequence_len(self.payload.len() as u32).into())
    }

    pub(super) fn has(&self, flag: Flags) -> bool {
        self.header.flags.contains(flag)
    }
}

/// Segments that follow one another without a gap, with payloads of the same length, as receive offload leaves them in
/// a receive buffer. They take less processing than other segments, because most checks are done once for the first.
#[derive(Debug)]
pub(crate) struct Train<'a> {
    pub(crate) buffer: &'a Bytes,
    /// The part of the buffer from the first payload to the end of the last.
    pub(crate) part: &'a [u8],
    pub(crate) count: usize,
    /// Length of each payload in bytes, and of the header before each payload.
    pub(crate) payload: u16,
    pub(crate) header: u16,
}

/// Returns whether a segment with this header may be followed by others in a train: it only acknowledges and carries
/// data.
pub(super) fn may_lead(meta: &SegmentMeta, header: &Header) -> bool {
    let is_plain = header.flags == Flags::ACK || header.flags == Flags::ACK | Flags::PSH;
    is_plain && meta.ecn != Ecn::Ce && header.options.only_timestamps().is_some()
}

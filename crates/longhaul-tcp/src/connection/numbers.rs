//! Sequence numbers of both directions, and the timestamp clock.

use longhaul_units::Time;

use crate::seq;
use crate::timestamps::TimestampClock;

/// The initial sequence numbers, which relate the stream offsets used inside to the numbers on the wire, and the clock of
/// our timestamps.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// ISS: our initial sequence number.
    pub(super) iss: u32,
    /// IRS: the peer's initial sequence number.
    pub(super) irs: u32,
    pub(super) clock: TimestampClock,
    /// TSval of the peer's SYN, and when the SYN arrived.
    pub(super) peer_syn: (u32, Time),
}

impl Numbers {
    pub(super) fn new(iss: u32, clock: TimestampClock, now: Time) -> Self {
        Self { iss, irs: 0, clock, peer_syn: (0, now) }
    }

    /// The sequence number of an offset of our stream.
    pub(super) fn sequence(&self, offset: u64) -> u32 {
        seq::to_wire(self.iss, offset)
    }

    /// The sequence number of an offset of the peer's stream, as our acknowledgments and SACK blocks carry it.
    pub(super) fn acknowledgment(&self, offset: u64) -> u32 {
        seq::to_wire(self.irs, offset)
    }

    /// The offset of our stream that the peer's acknowledgment or SACK block names: the one nearest to `near`.
    pub(super) fn our_offset(&self, wire: u32, near: u64) -> i64 {
        seq::to_offset(self.iss, wire, near)
    }

    /// The offset of the peer's stream that a sequence number names: the one nearest to `near`.
    pub(super) fn peer_offset(&self, wire: u32, near: u64) -> i64 {
        seq::to_offset(self.irs, wire, near)
    }
}

//! Sequence numbers of both directions, and the timestamp clock.

use longhaul_units::Time;

use crate::seq;
use crate::timestamps::TimestampClock;

/// Initial sequence numbers, which map stream offsets to sequence numbers on the wire, and the clock of our
/// timestamps.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// ISS: our initial sequence number.
    pub(super) iss: u32,
    /// IRS: the peer's initial sequence number.
    pub(super) irs: u32,
    pub(super) clock: TimestampClock,
    /// TSval of the peer's SYN, and the time the SYN arrived.
    pub(super) peer_syn: (u32, Time),
}

impl Numbers {
    pub(super) fn new(iss: u32, clock: TimestampClock, now: Time) -> Self {
        Self { iss, irs: 0, clock, peer_syn: (0, now) }
    }

    /// Returns the sequence number of an offset in our stream.
    pub(super) fn sequence(&self, offset: u64) -> u32 {
        seq::to_wire(self.iss, offset)
    }

    /// Returns the sequence number of an offset in the peer's stream, as in our ACK field and SACK blocks.
    pub(super) fn acknowledgment(&self, offset: u64) -> u32 {
        seq::to_wire(self.irs, offset)
    }

    /// Returns the offset in our stream of an ACK field or SACK edge: the candidate nearest to `near`.
    pub(super) fn our_offset(&self, wire: u32, near: u64) -> i64 {
        seq::to_offset(self.iss, wire, near)
    }

    /// Returns the offset in the peer's stream of a sequence number: the candidate nearest to `near`.
    pub(super) fn peer_offset(&self, wire: u32, near: u64) -> i64 {
        seq::to_offset(self.irs, wire, near)
    }
}

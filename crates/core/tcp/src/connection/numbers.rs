//! Sequence numbers of both directions, and the timestamp clock.

use crate::{InitialSequence, TimestampClock, seq};

/// Initial sequence numbers, which map stream offsets to sequence numbers on the wire, and the clock of our
/// timestamps.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) initial: InitialSequence,
    pub(super) clock: TimestampClock,
}

impl Numbers {
    pub(super) fn new(iss: u32, clock: TimestampClock) -> Self {
        Self { initial: InitialSequence { iss, irs: 0 }, clock }
    }

    pub(super) fn sequence(&self, offset: u64) -> u32 {
        seq::to_wire(self.initial.iss, offset)
    }

    /// Returns the sequence number of an offset in the peer's stream, as in our ACK field and SACK blocks.
    pub(super) fn acknowledgment(&self, offset: u64) -> u32 {
        seq::to_wire(self.initial.irs, offset)
    }

    /// Returns the offset in our stream of an ACK field or SACK edge: the candidate nearest to `near`.
    pub(super) fn our_offset(&self, wire: u32, near: u64) -> i64 {
        seq::to_offset(self.initial.iss, wire, near)
    }

    /// Returns the offset in the peer's stream of a sequence number: the candidate nearest to `near`.
    pub(super) fn peer_offset(&self, wire: u32, near: u64) -> i64 {
        seq::to_offset(self.initial.irs, wire, near)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Time;

    use super::*;

    const HALF: u64 = 1 << 31;

    /// Our stream begins 10 below the wrap, the peer's at the middle of the number space.
    fn numbers() -> Numbers {
        let mut numbers = Numbers::new(u32::MAX - 9, TimestampClock::new(0, Time::ZERO, true));
        assert_eq!(numbers.initial.irs, 0, "until the peer's SYN arrives");
        numbers.initial.irs = 1 << 31;
        numbers
    }

    #[test]
    fn both_directions_have_their_own_initial_number() {
        let numbers = numbers();
        assert_eq!(
            [0, 1, 9, 10, 11].map(|offset| numbers.sequence(offset)),
            [u32::MAX - 9, u32::MAX - 8, u32::MAX, 0, 1]
        );
        assert_eq!(numbers.sequence(1 << 32), numbers.sequence(0), "offsets go on after the wrap");
        assert_eq!([0, 1, HALF].map(|offset| numbers.acknowledgment(offset)), [1 << 31, (1 << 31) + 1, 0]);
    }

    /// The candidate nearest to the given offset is found: up to 2^31 - 1 above it, and up to 2^31 below it.
    #[test]
    fn the_nearest_offset_is_found() {
        let numbers = numbers();
        for near in [0, 1, 10, HALF, (1 << 32) + 7, 1 << 40] {
            let expected = near as i64;
            for (distance, found) in [
                (0, expected),
                (1, expected + 1),
                (HALF - 1, expected + HALF as i64 - 1),
                (HALF, expected - HALF as i64),
                (HALF + 1, expected - HALF as i64 + 1),
                ((1 << 32) - 1, expected - 1),
            ] {
                let ours = numbers.sequence(near).wrapping_add(distance as u32);
                assert_eq!(numbers.our_offset(ours, near), found, "{near} {distance}");
                let peers = numbers.acknowledgment(near).wrapping_add(distance as u32);
                assert_eq!(numbers.peer_offset(peers, near), found, "{near} {distance}");
            }
        }
    }
}

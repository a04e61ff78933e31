//! What had left before the window came to it, from the tail of what was queued: octets that the peer has already are passed over, and
//! others are sent once more.

use longhaul_units::Time;

use super::{COPIED, EARLY, NIL, PASSED, Record, SACKED, Scoreboard};

impl Record {
    /// Whether the peer had it before the window came to it, so that it was never in flight.
    pub(crate) fn is_passed(&self) -> bool {
        self.flags & PASSED != 0
    }

    /// Whether it left once before, from the tail, and it may have been that which was delivered: this says nothing of what was sent
    /// around it.
    pub(crate) fn is_early(&self) -> bool {
        self.flags & EARLY != 0
    }
}

impl Scoreboard {
    /// Bytes above SND.UNA that never were in flight, as the peer had them.
    pub(crate) fn passed_bytes(&self) -> u64 {
        self.passed_bytes
    }

    /// Appends what the peer had already, in the current burst. It is SACKed to all that ask for what is to be sent or judged, and
    /// counts in nothing that says how much was delivered above a hole.
    pub(crate) fn push_passed(&mut self, start: u64, len: u16) {
        if self.len() == self.ring.len() {
            self.grow();
        }
        let tx = self.take_tx();
        let burst = self.join_burst(0);
        let index = self.tail;
        self.tail += 1;
        let slot = self.slot(index);
        let flags = SACKED | PASSED | EARLY | COPIED;
        self.ring[slot] = Record { start, tx, burst, prev: NIL, next: NIL, len, flags };
        self.sacked.set(index);
        self.passed_bytes += u64::from(len);
    }

    /// Notes that the newest record had left before.
    pub(crate) fn note_early(&mut self) {
        if let Some(index) = self.tail.checked_sub(1).filter(|index| *index >= self.head) {
            self.record_mut(index).flags |= EARLY | COPIED;
        }
    }

    /// What left no later than this can have been answered by now.
    pub(crate) fn set_horizon(&mut self, at: Time) {
        self.horizon = at;
    }

    /// Whether it can have been the newest transmission that was delivered (as RFC 8985, section 6.2, step 2, tells it).
    pub(super) fn is_answered(&self, record: &Record) -> bool {
        record.is_early() && self.burst_of(record).sent_at <= self.horizon
    }

    /// The count that a SACKed record is in.
    pub(super) fn count_of(&mut self, record: &Record) -> &mut u64 {
        if record.is_passed() { &mut self.passed_bytes } else { &mut self.sacked_bytes }
    }

    /// The newest record that is not SACKed.
    pub(crate) fn last_unsacked(&self) -> Option<(u64, &Record)> {
        let index = self.last_unsacked_below(u64::MAX)?;
        self.get(index).map(|record| (index, record))
    }
}

//! Data that was sent ahead, before the congestion window reached it: octets that the peer already has are skipped, all others
//! are retransmitted.

use super::{COPIED, EARLY, NIL, PASSED, SACKED};
use crate::{Record, Scoreboard};

impl Record {
    /// Returns whether the peer had the segment before the congestion window reached it, so that it was never in
    /// flight.
    pub(crate) fn is_passed(&self) -> bool {
        self.flags & PASSED != 0
    }

    /// Returns whether the segment was sent ahead and the delivered copy may be that one; in this case, its delivery
    /// provides no information about segments sent around it.
    pub(crate) fn is_early(&self) -> bool {
        self.flags & EARLY != 0
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per operation")]
impl Scoreboard {
    /// Appends a segment that the peer already has, in the current burst. It is treated as SACKed when segments are
    /// selected for transmission or loss detection, but it does not count in the SACKed bytes.
    pub(crate) fn push_passed(&mut self, start: u64, len: u16) {
        if self.len() == self.ring.len() {
            self.grow();
        }
        let tx = self.take_tx();
        let burst = self.join_burst(0, 1);
        let index = self.tail;
        self.tail += 1;
        let flags = SACKED | PASSED | EARLY | COPIED;
        *self.record_mut(index) = Record { start, tx, burst, prev: NIL, next: NIL, len, flags };
        self.sacked.set(index);
        self.passed_bytes += u64::from(len);
    }

    /// Records that the newest record had already been sent ahead.
    pub(crate) fn note_early(&mut self) {
        if let Some(index) = self.tail.checked_sub(1).filter(|index| *index >= self.head) {
            self.record_mut(index).flags |= EARLY | COPIED;
        }
    }

    /// Returns whether the newest transmission is old enough to be the delivered transmission (as in RFC 8985, section
    /// 6.2, step 2).
    pub(super) fn is_answered(&self, record: &Record) -> bool {
        record.is_early() && self.burst_of(record).sent_at <= self.horizon
    }

    /// Returns the byte counter that includes a SACKed record.
    pub(super) fn count_of(&mut self, record: &Record) -> &mut u64 {
        if record.is_passed() { &mut self.passed_bytes } else { &mut self.sacked_bytes }
    }

    pub(crate) fn last_unsacked(&self) -> Option<(u64, &Record)> {
        let index = self.last_unsacked_below(u64::MAX)?;
        self.get(index).map(|record| (index, record))
    }
}

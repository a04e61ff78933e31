//! Which segments are lost: RACK (RFC 8985, section 6.2), SACK counting (RFC 6675, section 4), duplicate ACKs
//! (RFC 5681, section 3.2).

use longhaul_cc::{Detection, LostSegment};
use longhaul_units::{Bytes, Time};

use super::super::Connection;
use super::super::timers::Timer;
use super::{AckOutcome, DUP_THRESH, Phase};
use crate::scoreboard::Record;

impl Connection {
    /// RFC 5681, section 2, and RFC 9937, section 6.2, for peers without SACK.
    pub(super) fn count_duplicates(&mut self, ack: &AckOutcome) {
        if self.loss.detection != Detection::DuplicateAcks {
            return;
        }
        let mss = u64::from(self.mss());
        if ack.una_advanced > 0 {
            self.loss.duplicates = 0;
            self.loss.emulated = self.loss.emulated.saturating_sub(ack.una_advanced.saturating_sub(mss));
            if !self.loss.is_repairing() {
                self.loss.emulated = 0;
            }
        } else if ack.duplicate {
            self.loss.duplicates += 1;
            let ceiling = self.snd.flight_size().saturating_sub(mss);
            self.loss.emulated = (self.loss.emulated + mss).min(ceiling);
        }
    }

    /// Marks what is lost. Whether a retransmission of this episode is among it.
    pub(super) fn mark_losses(&mut self, at: Time, ack: &AckOutcome) -> bool {
        match self.loss.detection {
            Detection::RackTlp => self.rack_detect(at),
            Detection::Sack => {
                self.sack_detect();
                false
            }
            Detection::DuplicateAcks => {
                self.duplicate_detect(ack);
                false
            }
        }
    }

    /// RFC 8985, section 6.2, step 5. Segments are visited in the order sent; the first that is not due ends it.
    pub(super) fn rack_detect(&mut self, at: Time) -> bool {
        self.timers.stop(Timer::Reorder);
        if self.loss.rack.rtt.is_zero() && self.loss.rack.end == 0 {
            return false;
        }
        let window = self.loss.reordering_window(&self.snd.board, self.mss(), self.rtt.min(), self.rtt.srtt());
        let rack = &self.loss.rack;
        let (xmit_at, newest, wait) = (rack.xmit_at, (rack.xmit_at, rack.tx, rack.end), rack.rtt + window);
        let mut retransmission_lost = false;
        while let Some(index) = self.snd.board.oldest_sent() {
            let Some(record) = self.snd.board.get(index).copied() else { break };
            let sent_at = self.snd.board.burst_of(&record).sent_at;
            if (sent_at, record.tx, record.end()) >= newest {
                break;
            }
            if sent_at + wait > at {
                // All others that were overtaken are due by the time the overtaking one is.
                self.timers.arm(Timer::Reorder, xmit_at + wait);
                break;
            }
            self.lose(index);
            retransmission_lost |= record.is_retransmitted() && record.tx > self.loss.episode_tx;
        }
        retransmission_lost
    }

    /// RFC 6675, section 4, IsLost, for all segments between the last verdict and the highest that is lost.
    pub(super) fn sack_detect(&mut self) {
        let Some(mut index) = self.highest_lost() else { return };
        let Some(top) = self.snd.board.get(index).map(Record::end) else { return };
        while let Some(record) = self.snd.board.get(index).copied() {
            if record.start < self.loss.verdict_from {
                break;
            }
            if !record.is_retransmitted() || record.tx <= self.loss.episode_tx {
                self.lose(index);
            }
            if index == self.snd.board.head_index() {
                break;
            }
            index -= 1;
        }
        self.loss.verdict_from = top;
    }

    /// The highest segment not judged yet with more than (DupThresh - 1) segments' worth of SACKed bytes above, or
    /// DupThresh discontiguous SACKed ranges.
    fn highest_lost(&self) -> Option<u64> {
        let (board, verdict_from) = (&self.snd.board, self.loss.verdict_from);
        let enough = u64::from(DUP_THRESH - 1) * u64::from(self.mss());
        let (mut bytes, mut ranges) = (0, 0);
        let mut above = None;
        let mut index = board.sacked_top();
        while bytes <= enough && ranges < DUP_THRESH {
            index = board.last_sacked_below(index)?;
            let record = board.get(index).filter(|r| r.start >= verdict_from)?;
            if record.is_early() {
                // What may have left long before what lies below it overtook nothing.
                continue;
            }
            bytes += record.sequence_len();
            ranges += u32::from(above != Some(index + 1));
            above = Some(index);
        }
        board.last_unsacked_below(index).filter(|i| board.get(*i).is_some_and(|r| r.start >= verdict_from))
    }

    /// RFC 5681, section 3.2, and the partial ACKs of RFC 6582, section 3.2, step 3.
    pub(super) fn duplicate_detect(&mut self, ack: &AckOutcome) {
        let Some((index, record)) = self.snd.board.front().map(|(i, r)| (i, *r)) else { return };
        let partial = match self.loss.phase {
            // Of a segment that is acknowledged in parts the rest is on its way already.
            Phase::Recovery(point) => {
                let on_its_way = record.is_retransmitted() && record.tx > self.loss.episode_tx;
                ack.una_advanced > 0 && self.snd.una < point && !on_its_way
            }
            Phase::Timeout(_) => false,
            Phase::Open => self.loss.duplicates == DUP_THRESH,
        };
        if partial && !record.is_lost() {
            self.lose(index);
            self.loss.forced = true;
        }
    }

    /// Holds a segment to be lost, if it was in flight, and notes it for the controller.
    fn lose(&mut self, index: u64) {
        let Some(record) = self.snd.board.get(index).copied() else { return };
        if !self.snd.board.mark_lost(index) {
            return;
        }
        if record.is_mtu_probe() {
            self.pmtu.on_probe_lost(self.now);
            self.loss.mtu_probe_lost += record.sequence_len();
        }
        if let Some(segments) = &mut self.cc.segments {
            let burst = self.snd.board.burst_of(&record);
            let mut segment = LostSegment::new(record.tx, burst.sent_at, Bytes::from(record.len));
            segment.tag = burst.tag;
            segment.in_flight_at_send = Bytes(burst.in_flight);
            segment.lost_at_send = Bytes(burst.lost);
            segments.lost.push(segment);
        }
    }
}

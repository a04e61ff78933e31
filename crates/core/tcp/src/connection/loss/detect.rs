//! Loss detection: RACK (RFC 8985, section 6.2), SACK counting (RFC 6675, section 4) and duplicate ACKs (RFC 5681,
//! section 3.2). Each detector owns its state and reads the scoreboard; none accesses the connection.

use longhaul_cc::{LostSegment, TxId};
use longhaul_units::{Bytes, Span, Time};

use super::{AckOutcome, Phase};
use crate::connection::congestion::SegmentLists;
use crate::{Record, Scoreboard};

/// DupThresh: three duplicate ACKs (RFC 5681, section 3.2).
pub(super) const DUP_THRESH: u32 = 3;
/// Number of recoveries after which an enlarged reordering window is reset (RFC 8985, section 6.2).
const REO_WND_PERSIST: u32 = 16;

/// Marks segments lost and records them if the controller requested per-segment reports.
pub(super) struct Marking<'a> {
    pub(super) board: &'a mut Scoreboard,
    pub(super) lists: Option<&'a mut SegmentLists>,
    /// Start and sequence space of the marked segments, if they are reported to observers.
    pub(super) observed: Option<&'a mut Vec<(u64, u64)>>,
    /// Bytes of path MTU probes among the marked segments.
    pub(super) mtu_probe_bytes: u64,
}

impl Marking<'_> {
    /// Marks a segment lost, if it was in flight.
    pub(super) fn mark(&mut self, index: u64) {
        let Some(record) = self.board.get(index).copied() else { return };
        if !self.board.mark_lost(index) {
            return;
        }
        if let Some(observed) = &mut self.observed {
            observed.push((record.start, record.sequence_len()));
        }
        if record.is_mtu_probe() {
            self.mtu_probe_bytes += record.sequence_len();
        }
        if let Some(lists) = &mut self.lists {
            let burst = self.board.burst_of(&record);
            let mut segment = LostSegment::new(record.tx, burst.sent_at, Bytes::from(record.len));
            segment.tag = burst.tag;
            segment.in_flight_at_send = Bytes(burst.in_flight);
            segment.lost_at_send = Bytes(burst.lost);
            lists.lost.push(segment);
        }
    }
}

/// RACK state (RFC 8985, section 5.3).
#[derive(Clone, Debug, Default)]
pub(crate) struct Rack {
    /// RACK.xmit_ts, transmission number and RACK.end_seq of the delivered segment that was sent last. Segments sent
    /// at the same time are ordered by transmission number. With sequence numbers, as in RFC 8985, section 6.2, a
    /// retransmission would look overtaken by the segment sent just before it.
    xmit_at: Time,
    tx: TxId,
    end: u64,
    pub(super) rtt: Span,
    /// RACK.fack: the highest delivered offset.
    fack: u64,
    reordering_seen: bool,
    /// RACK.reo_wnd_mult - 1, and the recoveries that have ended since it was enlarged.
    enlarged_by: u64,
    recoveries: u32,
    dsack_round: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RackOutcome {
    pub(super) retransmission_lost: bool,
    /// The time at which the reordering window of the remaining overtaken segments ends.
    pub(super) check_at: Option<Time>,
}

impl Rack {
    /// Processes a delivered segment (RFC 8985, section 6.2, step 2), unless the ACK may belong to an earlier
    /// transmission.
    pub(super) fn on_delivered(&mut self, record: &Record, sent_at: Time, at: Time, ambiguous: bool) {
        if !ambiguous && (sent_at, record.tx, record.end()) > (self.xmit_at, self.tx, self.end) {
            self.rtt = at - sent_at;
            (self.xmit_at, self.tx, self.end) = (sent_at, record.tx, record.end());
        }
    }

    /// Detects reordering (RFC 8985, section 6.2, step 3): a segment that was never retransmitted is delivered below
    /// RACK.fack.
    pub(super) fn detect_reordering(&mut self, record: &Record) {
        if record.end() > self.fack {
            self.fack = record.end();
        } else if !record.is_retransmitted() && !record.is_flipped() && !record.is_copied() {
            self.reordering_seen = true;
        }
    }

    /// Returns the reordering window (RFC 8985, section 6.2, step 4).
    pub(super) fn reordering_window(&self, immediate: bool, min_rtt: Option<Span>, srtt: Option<Span>) -> Span {
        if !self.reordering_seen && immediate {
            return Span::ZERO;
        }
        let quarter = min_rtt.unwrap_or(Span::ZERO) / 4;
        (quarter * (1 + self.enlarged_by)).min(srtt.unwrap_or(Span::MAX))
    }

    /// Marks segments lost that were overtaken by more than `window` (RFC 8985, section 6.2, step 5). Segments are
    /// visited in transmission order; the first that is not yet due ends the pass. `episode_tx` is the last
    /// transmission before the episode.
    pub(super) fn detect(&self, at: Time, window: Span, episode_tx: TxId, marking: &mut Marking<'_>) -> RackOutcome {
        let mut outcome = RackOutcome::default();
        if self.rtt.is_zero() && self.end == 0 {
            return outcome;
        }
        let (newest, wait) = ((self.xmit_at, self.tx, self.end), self.rtt + window);
        while let Some(index) = marking.board.oldest_sent() {
            let Some(record) = marking.board.get(index).copied() else { break };
            let sent_at = marking.board.burst_of(&record).sent_at;
            if (sent_at, record.tx, record.end()) >= newest {
                break;
            }
            if sent_at + wait > at {
                // All other overtaken segments are due when the overtaking one is, because they were sent before it.
                outcome.check_at = Some(self.xmit_at + wait);
                break;
            }
            marking.mark(index);
            outcome.retransmission_lost |= record.is_retransmitted() && record.tx > episode_tx;
        }
        outcome
    }

    /// Enlarges the reordering window, at most once per round trip, after a delayed segment was incorrectly marked lost
    /// (RFC 8985, section 6.2, step 4).
    pub(super) fn widen(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_none_or(|round| una >= round) {
            self.dsack_round = Some(nxt);
            self.enlarged_by = (self.enlarged_by + 1).min(63);
            self.recoveries = 0;
        }
    }

    /// Counts a recovery that has ended. After 16 of them an enlarged reordering window is reset.
    pub(super) fn on_episode_end(&mut self) {
        self.recoveries = self.recoveries.saturating_add(1);
        if self.recoveries >= REO_WND_PERSIST {
            self.enlarged_by = 0;
        }
    }
}

/// SACK counting state (RFC 6675).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SackCounting {
    /// Segments below this offset have been examined already.
    judged_to: u64,
    /// HighRxt and RescueRxt (RFC 6675, section 2).
    high_rxt: u64,
    rescue_rxt: Option<u64>,
    /// Start of the segment of rule 4 that may be sent next.
    offered: Option<u64>,
}

impl SackCounting {
    /// Resets HighRxt and RescueRxt when an episode begins.
    pub(super) fn begin_episode(&mut self) {
        (self.high_rxt, self.rescue_rxt, self.offered) = (0, None, None);
    }

    pub(super) fn on_retransmit(&mut self, record: &Record, point: u64) {
        self.high_rxt = self.high_rxt.max(record.end());
        if self.offered.take() == Some(record.start) {
            self.rescue_rxt = Some(point);
        }
    }

    /// Forgets offsets that depend on segment boundaries, because the scoreboard was resegmented.
    pub(super) fn on_renumbered(&mut self) {
        self.judged_to = 0;
    }

    /// Applies IsLost (RFC 6675, section 4) to all segments from the last one examined to the highest one that is
    /// lost.
    pub(super) fn detect(&mut self, mss: u16, episode_tx: TxId, marking: &mut Marking<'_>) {
        let Some(mut index) = self.highest_lost(marking.board, mss) else { return };
        let Some(top) = marking.board.get(index).map(Record::end) else { return };
        while let Some(record) = marking.board.get(index).copied() {
            if record.start < self.judged_to {
                break;
            }
            if !record.is_retransmitted() || record.tx <= episode_tx {
                marking.mark(index);
            }
            if index == marking.board.head {
                break;
            }
            index -= 1;
        }
        self.judged_to = top;
    }

    /// Returns the highest segment not examined yet that has more than (DupThresh - 1) segments' worth of SACKed
    /// bytes above it, or DupThresh discontiguous SACKed ranges.
    fn highest_lost(&self, board: &Scoreboard, mss: u16) -> Option<u64> {
        let enough = u64::from(DUP_THRESH - 1) * u64::from(mss);
        let (mut bytes, mut ranges) = (0, 0);
        let mut above = None;
        let mut index = board.sacked_top;
        while bytes <= enough && ranges < DUP_THRESH {
            index = board.last_sacked_below(index)?;
            let record = board.get(index).filter(|r| r.start >= self.judged_to)?;
            if record.is_early() {
                // This segment may have been sent ahead, long before the segments below it, so it overtook none of them.
                continue;
            }
            bytes += record.sequence_len();
            ranges += u32::from(above != Some(index + 1));
            above = Some(index);
        }
        board.last_unsacked_below(index).filter(|i| board.get(*i).is_some_and(|r| r.start >= self.judged_to))
    }

    /// Returns the segment of NextSeg rules 3 and 4 (RFC 6675, section 4) if neither lost nor new data can be sent:
    /// the lowest segment that may be lost or, once per episode, the highest outstanding one.
    pub(super) fn rescue(&mut self, board: &Scoreboard) -> Option<u64> {
        self.offered = None;
        let in_doubt = board.next_in_doubt(self.high_rxt);
        if in_doubt.is_some() {
            return in_doubt;
        }
        let una = board.front()?.1.start;
        if self.rescue_rxt.is_some_and(|r| una <= r) {
            return None;
        }
        let (index, last) = board.last_unsacked()?;
        self.offered = Some(last.start);
        Some(index)
    }
}

/// Counter of duplicate ACKs from peers without SACK (RFC 5681, section 3.2; RFC 9937, section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DuplicateAcks {
    count: u32,
    /// Bytes assumed delivered because of duplicate ACKs.
    pub(crate) emulated: u64,
}

impl DuplicateAcks {
    /// Counts an ACK. `flight_size` is FlightSize in bytes.
    pub(super) fn count(&mut self, ack: &AckOutcome, mss: u16, in_episode: bool, flight_size: u64) {
        let mss = u64::from(mss);
        if ack.una_advanced > 0 {
            self.count = 0;
            self.emulated = self.emulated.saturating_sub(ack.una_advanced.saturating_sub(mss));
            if !in_episode {
                self.emulated = 0;
            }
        } else if ack.duplicate {
            self.count += 1;
            self.emulated = (self.emulated + mss).min(flight_size.saturating_sub(mss));
        }
    }

    /// Marks the first segment lost after three duplicate ACKs or on a partial ACK (RFC 6582, section 3.2, step 3).
    /// Returns whether it marked one.
    pub(super) fn detect(
        &self,
        ack: &AckOutcome,
        phase: Phase,
        una: u64,
        episode_tx: TxId,
        marking: &mut Marking<'_>,
    ) -> bool {
        let Some((index, record)) = marking.board.front().map(|(i, r)| (i, *r)) else { return false };
        let is_lost = match phase {
            Phase::Open => self.count == DUP_THRESH,
            Phase::Recovery(point) => {
                // If a segment is partly acknowledged, its retransmission is already in flight.
                let under_way = record.is_retransmitted() && record.tx > episode_tx;
                ack.una_advanced > 0 && una < point && !under_way
            }
            Phase::Timeout(_) => false,
        };
        let marks = is_lost && !record.is_lost();
        if marks {
            marking.mark(index);
        }
        marks
    }
}

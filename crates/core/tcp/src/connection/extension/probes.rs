//! Low-priority probes outside the congestion window: copies of segments in flight, whose answers show the path's
//! spare capacity (TCP-Peach's dummy segments, Peach+'s NIL segments, TCP-Swift's outstanding segments).
//!
//! To the peer a probe is a retransmission. The scoreboard does not contain it: it is not in flight, it is never marked
//! lost, and a D-SACK for it does not indicate reordering or of a spurious retransmission. A hole that it fills,
//! however, was a loss. It is not always known whether the probe or the original was answered. Therefore, if a segment
//! was copied and the echoed timestamp does not identify the original, no RTT sample is taken, RACK is not updated and
//! no reduction is undone.
//!
//! If probe echoes were negotiated, each answer carries the TSval of its probe (`docs/wire.md`, "Probe echo"). Other
//! peers report probes as duplicates (RFC 2883); a D-SACK that may also belong to a retransmission is not counted as
//! an answer.

use std::collections::VecDeque;

use longhaul_cc::{Ack, Control, ProbeKind, ProbePlan, SegmentKind, TxId};
use longhaul_units::{Span, Time};
use longhaul_wire::{Ecn, Flags};

use super::sent_timestamps::SentTimestamps;
use super::{AckFacts, Claims, Extension, Filled, Outgoing, Turn};
use crate::connection::{Engine, Sender};
use crate::{Info, ProbeInfo, Record, RttEstimator, Scoreboard, TimestampClock, add};

/// Maximum number of recorded probes. Beyond it the oldest records are dropped.
const MAX_RECORDS: usize = 4096;
/// Number of retransmission timeouts for which a probe is recorded. After the first it counts as lost, but a later
/// D-SACK may still belong to it.
const RECORD_TIMEOUTS: u64 = 8;
/// Number of gaps by which a probe may be late without delaying the next one.
const MAX_LATE_GAPS: u64 = 4;
const DRAWS: u32 = 8;

/// Numbers of probes found to have arrived or marked lost since the last event reported to the controller.
#[derive(Clone, Copy, Debug, Default)]
struct ProbeReport {
    acked: u32,
    lost: u32,
}

#[derive(Debug, Default)]
pub(super) struct Probes {
    echoed: bool,
    /// Recorded probes in transmission order, and how many of the first ones count as lost.
    flight: VecDeque<ProbeRecord>,
    counted_lost: usize,
    /// The current plan, and the number of the newest plan.
    plan: Option<ProbePlan>,
    id: Option<u32>,
    /// Number of plans and timeouts so far. Probes of earlier eras are not reported to the controller.
    generation: u32,
    /// Number of probes sent under the plan, and the time at which the next one may be sent.
    sent: u32,
    next_at: Time,
    /// Offset at or above which all segments have been copied under the plan, from the highest downwards.
    backwards: Option<u64>,
    random: u64,
    last_value: Option<u32>,
    /// Timestamps of transmissions, against which probe echoes are checked.
    sent_timestamps: SentTimestamps,
    report: ProbeReport,
    info: ProbeInfo,
}

#[derive(Clone, Copy, Debug)]
struct ProbeRecord {
    value: u32,
    start: u64,
    end: u64,
    sent_at: Time,
    generation: u32,
}

impl Probes {
    pub(super) fn new(echoed: bool) -> Self {
        Self { echoed, random: 0x9e37_79b9_7f4a_7c15, ..Self::default() }
    }

    /// Adopts the controller's plan. The first probe of a new plan is due one gap later.
    fn adopt(&mut self, now: Time, plan: Option<ProbePlan>) {
        if let Some(new) = plan.filter(|new| self.id != Some(new.id)) {
            (self.id, self.sent, self.backwards) = (Some(new.id), 0, None);
            self.next_at = now + new.gap;
            self.begin_generation();
        }
        self.plan = plan;
    }

    /// Stops reporting probes that were sent before. Their records are kept so that their D-SACKs are still
    /// recognized.
    fn begin_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.report = ProbeReport::default();
    }

    fn open_plan(&self) -> Option<ProbePlan> {
        self.plan.filter(|plan| self.sent < plan.segments)
    }

    /// Returns the segment to copy next, with its plan, and the time at which its probe is due.
    fn next(
        &mut self,
        now: Time,
        clock: TimestampClock,
        snd: &Sender,
        mss: u16,
    ) -> Option<(ProbePlan, u64, Record, Time)> {
        let (edge, value) = (snd.window_edge(), clock.value(now));
        let plan = self.open_plan()?;
        // With probe echoes, each probe needs its own TSval: wait for the next tick if this one is used.
        let is_sent = snd.last_sent.is_some_and(|at| clock.value(at) == value);
        let is_taken = self.echoed && (is_sent || self.last_value == Some(value));
        let at = if is_taken { self.next_at.max(now + clock.tick()) } else { self.next_at };
        let chosen = self.choose(&plan, &snd.board);
        let record = chosen.and_then(|index| Some((index, *snd.board.get(index)?)));
        // After the peer has shrunk its window, a segment beyond it would not be answered.
        let fits =
            |record: &Record| record.len > 0 && record.len <= mss && record.start + u64::from(record.len) <= edge;
        let (index, record) = record.filter(|(_, record)| fits(record))?;
        Some((plan, index, record, at))
    }

    fn choose(&mut self, plan: &ProbePlan, board: &Scoreboard) -> Option<u64> {
        plan.prefer.into_iter().flatten().find_map(|kind| match kind {
            ProbeKind::Dummy => board.last_unsacked_below(u64::MAX),
            ProbeKind::Outstanding => self.draw(board),
            ProbeKind::Backwards => self.next_backwards(board),
            // New data from the tail is sent by another extension.
            _ => None,
        })
    }

    fn draw(&mut self, board: &Scoreboard) -> Option<u64> {
        let len = board.len() as u64;
        let drawn = (0..DRAWS).find_map(|_| {
            // Knuth's linear congruential generator (The Art of Computer Programming, 3.3.4, line 26). It need not be
            // unpredictable.
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = board.head + (self.random >> 33).checked_rem(len)?;
            board.get(index).is_some_and(|record| !record.is_sacked()).then_some(index)
        });
        drawn.or_else(|| board.last_unsacked_below(u64::MAX))
    }

    fn next_backwards(&self, board: &Scoreboard) -> Option<u64> {
        let below = self.backwards.map_or(u64::MAX, |offset| board.index_at_or_after(offset));
        board.last_unsacked_below(below)
    }

    fn on_sent(&mut self, copied: ProbeRecord, gap: Span) {
        self.sent += 1;
        // A late probe does not delay the following ones, but after a long pause the missed probes are not sent in a
        // burst.
        self.next_at = (self.next_at + gap).max(copied.sent_at - gap * MAX_LATE_GAPS);
        self.backwards = Some(copied.start);
        self.last_value = Some(copied.value);
        if self.flight.len() >= MAX_RECORDS {
            self.forget_oldest();
        }
        self.flight.push_back(copied);
        add(&mut self.info.sent, 1);
        add(&mut self.info.bytes_sent, copied.end - copied.start);
    }

    fn count_oldest_lost(&mut self, generation: u32) {
        self.counted_lost += 1;
        if generation == self.generation {
            self.report.lost = self.report.lost.saturating_add(1);
        }
        add(&mut self.info.lost, 1);
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.flight.front().filter(|_| self.counted_lost == 0) {
            self.count_oldest_lost(oldest.generation);
        }
        self.flight.pop_front();
        self.counted_lost = self.counted_lost.saturating_sub(1);
    }

    /// Removes and returns the probe with this TSval, which has arrived.
    fn take_by_value(&mut self, value: u32) -> Option<ProbeRecord> {
        let index = self.flight.iter().position(|copied| copied.value == value)?;
        self.take(index)
    }

    /// Removes and returns the oldest probe that contains this range; outstanding probes are preferred to those
    /// counted lost.
    fn take_by_range(&mut self, left: u64, right: u64) -> Option<ProbeRecord> {
        let holds = |copied: &ProbeRecord| copied.start <= left && right <= copied.end;
        let awaited = self.flight.iter().skip(self.counted_lost).position(holds).map(|index| index + self.counted_lost);
        let index = awaited.or_else(|| self.flight.iter().position(holds))?;
        self.take(index)
    }

    fn take(&mut self, index: usize) -> Option<ProbeRecord> {
        let copied = self.flight.remove(index)?;
        if index < self.counted_lost {
            // The probe was already counted as lost, so the late answer is not reported.
            self.counted_lost -= 1;
            return Some(copied);
        }
        if copied.generation == self.generation {
            self.report.acked = self.report.acked.saturating_add(1);
        }
        add(&mut self.info.acked, 1);
        Some(copied)
    }

    /// Returns the probe that an ACK answers, if there is one.
    fn match_ack(&mut self, ack: &AckFacts<'_>, sent_to: u64, claims: &mut Claims) -> Option<ProbeRecord> {
        // With probe echoes, the echoed TSval identifies the probe.
        if self.echoed {
            let value = ack.segment.header.options.probe_echo?.value;
            let copied = self.take_by_value(value);
            if copied.is_some() {
                self.sent_timestamps.name(value);
                return copied;
            }
            // The echo may belong to out-of-order data or to a probe that is no longer recorded.
            let strange = ack.clock.age(ack.segment.now, value).is_none_or(|since| since > ack.age);
            if strange || self.sent_timestamps.rules_out(value) {
                add(&mut self.info.refused, 1);
            }
            return None;
        }
        if ack.sack.claims_unsent(sent_to) {
            add(&mut self.info.refused, 1);
        }
        // Without probe echoes, a D-SACK identifies it, unless the range was also retransmitted.
        let (left, right) = ack.dsack?;
        if left < ack.retransmitted_to {
            let may_own = self.flight.iter().any(|copied| copied.start < right && left < copied.end);
            claims.owns_dsack |= may_own;
            claims.has_own_cause |= may_own;
            return None;
        }
        self.take_by_range(left, right)
    }

    fn expire(&mut self, now: Time, timeout: Span) {
        while let Some(copied) = self.flight.get(self.counted_lost).filter(|copied| now - copied.sent_at > timeout) {
            self.count_oldest_lost(copied.generation);
        }
        while self.flight.front().is_some_and(|copied| now - copied.sent_at > timeout * RECORD_TIMEOUTS) {
            self.forget_oldest();
        }
    }
}

impl Extension for Probes {
    fn on_ack(&mut self, ack: &AckFacts<'_>, snd: &mut Sender, claims: &mut Claims) {
        self.expire(ack.segment.now, ack.rto);
        let Some(copied) = self.match_ack(ack, snd.sent_to(), claims) else { return };
        (claims.is_answer, claims.has_own_cause) = (true, true);
        // Without a D-SACK, the probe filled a hole if as many bytes as it carried were new to the peer.
        claims.owns_dsack |= ack.dsack.is_some();
        claims.fills_hole |= ack.dsack.is_none() && ack.delivered >= copied.end - copied.start;
    }

    fn complete(&mut self, event: &mut Ack<'_>) {
        let report = std::mem::take(&mut self.report);
        (event.probes_acked, event.probes_lost) = (report.acked, report.lost);
    }

    fn follow(&mut self, now: Time, control: &Control, _: &mut Sender) {
        self.adopt(now, control.probe.filter(|plan| plan.from_tail().is_none()));
    }

    /// Probes that are outstanding have measured the path as it was before.
    fn on_timeout(&mut self, _: &RttEstimator) {
        self.begin_generation();
    }

    /// Sends the next probe if one is due. None is sent before the first RTT sample.
    fn send(&mut self, turn: Turn, engine: &mut Engine<'_>, out: &mut Outgoing<'_>) -> Filled {
        let now = out.now;
        if turn != Turn::Last || engine.rtt.srtt.is_none() {
            return Filled::Nothing(None);
        }
        let clock = engine.numbers.clock;
        let Some((plan, index, record, at)) = self.next(now, clock, engine.snd, engine.pmtu.mss()) else {
            // The next transmission leads here again.
            return Filled::Nothing(None);
        };
        if now < at {
            return Filled::Nothing(Some(at));
        }
        let (start, end, value) = (record.start, record.start + u64::from(record.len), clock.value(now));
        self.on_sent(ProbeRecord { value, start, end, sent_at: now, generation: self.generation }, plan.gap);
        engine.snd.board.note_copy(index);
        let mut header = engine.headers().header(now, start);
        header.flags |= Flags::PSH | if record.is_fin() { Flags::FIN } else { Flags::NONE };
        out.batch.dscp = plan.dscp;
        // Probes are not ECN-capable: the echo of a CE mark would be attributed to data in the window. A congested
        // queue drops the probe instead.
        out.batch.ecn = Ecn::NotEct;
        out.batch.push(&header, start, record.len);
        let before = engine.loss.pipe(&engine.snd.board);
        engine.send_loop().control_loop().report_sent(now, TxId(0), record.len, before, SegmentKind::Probe);
        Filled::Beside
    }

    fn on_batch(&mut self, stamp: u32) {
        if self.echoed {
            self.sent_timestamps.note(stamp);
        }
    }

    fn is_passive(&self) -> bool {
        false
    }

    fn info(&self, _: &Sender, info: &mut Info) {
        info.probes = Some(self.info);
    }
}

#[cfg(test)]
mod tests;

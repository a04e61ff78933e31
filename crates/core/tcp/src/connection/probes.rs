//! Low-priority probes outside the congestion window: copies of segments in flight, whose answers show the path's
//! spare capacity (TCP-Peach's dummy segments, Peach+'s NIL segments, TCP-Swift's outstanding segments).
//!
//! To the peer a probe is a retransmission. The scoreboard does not contain it: it is not in flight, it is never
//! marked lost, and a D-SACK for it is no sign of reordering or of a spurious retransmission. A hole that it fills,
//! however, was a loss. It cannot always be told whether the probe or the original was answered. Therefore, if a
//! segment was copied and the echoed timestamp does not identify the original, no RTT sample is taken, RACK is not
//! updated and no reduction is undone.
//!
//! If probe echoes were negotiated, each answer carries the TSval of its probe (`docs/wire.md`, "Probe echo"). Other
//! peers report probes as duplicates (RFC 2883); a D-SACK that may also belong to a retransmission is not counted as
//! an answer.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::collections::VecDeque;

use longhaul_cc::{Needs, ProbeKind, ProbePlan, SegmentKind, TxId};
use longhaul_units::{Span, Time};
use longhaul_wire::{Ecn, Flags, Header};

use super::Connection;
use super::sent_timestamps::SentTimestamps;
use super::timers::Timer;
use crate::batch::Batch;
use crate::info::{ProbeInfo, add};
use crate::scoreboard::{Record, Scoreboard};

/// Maximum number of recorded probes. Beyond it the oldest records are dropped.
const MAX_RECORDS: usize = 4096;
/// Number of retransmission timeouts for which a probe is recorded. After the first it counts as lost, but a later
/// D-SACK may still belong to it.
const RECORD_TIMEOUTS: u64 = 8;
/// Number of gaps by which a probe may be late without delaying the next one.
const MAX_LATE_GAPS: u64 = 4;
/// Number of random draws for an outstanding segment to copy.
const DRAWS: u32 = 8;

/// Outcome of probes since the last event reported to the controller.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeReport {
    /// Probes found to have arrived.
    pub(super) acked: u32,
    /// Probes marked lost.
    pub(super) lost: u32,
}

/// Probes sent on a connection, and the controller's plan for them.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// Whether probe echoes were negotiated.
    echoed: bool,
    /// Recorded probes in transmission order, and how many of the first ones count as lost.
    flight: VecDeque<ProbeRecord>,
    counted_lost: usize,
    /// The current plan, and the number of the newest plan.
    plan: Option<ProbePlan>,
    id: Option<u32>,
    /// Number of plans and timeouts so far. Probes of earlier eras are not reported to the controller.
    generation: u32,
    /// Probes sent under the plan, and the time at which the next one may be sent.
    sent: u32,
    next_at: Time,
    /// All segments at or above this offset were copied under the plan, from the highest downwards.
    backwards: Option<u64>,
    random: u64,
    last_value: Option<u32>,
    /// Timestamps of transmissions, against which probe echoes are checked.
    sent_timestamps: SentTimestamps,
    report: ProbeReport,
    info: ProbeInfo,
}

/// Record of a probe that was sent.
#[derive(Clone, Copy, Debug)]
struct ProbeRecord {
    /// TSval of the probe.
    value: u32,
    start: u64,
    end: u64,
    sent_at: Time,
    generation: u32,
}

/// Returns whether a controller requires or prefers probes.
pub(super) fn wants(needs: &Needs) -> bool {
    needs.required.probes || needs.preferred.probes
}

impl Probes {
    pub(super) fn new(echoed: bool) -> Self {
        Self { echoed, random: 0x9e37_79b9_7f4a_7c15, ..Self::default() }
    }

    pub(super) fn info(&self) -> ProbeInfo {
        self.info
    }

    /// Returns the counters for segments that are sent under a plan but are not copies.
    pub(super) fn info_mut(&mut self) -> &mut ProbeInfo {
        &mut self.info
    }

    /// Returns the outcome of probes since the last call.
    pub(super) fn take_report(&mut self) -> ProbeReport {
        std::mem::take(&mut self.report)
    }

    /// Adopts the controller's plan. The first probe of a new plan is due one gap later.
    fn follow(&mut self, now: Time, plan: Option<ProbePlan>) {
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

    /// Returns the plan if it has probes left to send.
    fn open_plan(&self) -> Option<ProbePlan> {
        self.plan.filter(|plan| self.sent < plan.segments)
    }

    /// Returns the segment to copy next.
    fn choose(&mut self, plan: &ProbePlan, board: &Scoreboard) -> Option<u64> {
        plan.prefer.into_iter().flatten().find_map(|kind| match kind {
            ProbeKind::Dummy => board.last_unsacked_below(u64::MAX),
            ProbeKind::Outstanding => self.draw(board),
            ProbeKind::Backwards => self.next_backwards(board),
            // New data from the tail is sent by the RC3 loop.
            _ => None,
        })
    }

    /// Returns a random segment that is not SACKed.
    fn draw(&mut self, board: &Scoreboard) -> Option<u64> {
        let len = board.len() as u64;
        let drawn = (0..DRAWS).find_map(|_| {
            // Knuth's linear congruential generator (The Art of Computer Programming, 3.3.4, line 26). It need not be
            // unpredictable.
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = board.head_index() + (self.random >> 33).checked_rem(len)?;
            board.get(index).is_some_and(|record| !record.is_sacked()).then_some(index)
        });
        drawn.or_else(|| board.last_unsacked_below(u64::MAX))
    }

    /// Returns the highest segment that was not copied yet.
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

    /// Counts the oldest outstanding probe as lost.
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
            // It was already counted as lost, so the late answer is not reported.
            self.counted_lost -= 1;
            return Some(copied);
        }
        if copied.generation == self.generation {
            self.report.acked = self.report.acked.saturating_add(1);
        }
        add(&mut self.info.acked, 1);
        Some(copied)
    }

    /// Counts probes older than `timeout` as lost, and drops records of much older ones.
    fn expire(&mut self, now: Time, timeout: Span) {
        while let Some(copied) = self.flight.get(self.counted_lost).filter(|copied| now - copied.sent_at > timeout) {
            self.count_oldest_lost(copied.generation);
        }
        while self.flight.front().is_some_and(|copied| now - copied.sent_at > timeout * RECORD_TIMEOUTS) {
            self.forget_oldest();
        }
    }
}

/// Result of matching an ACK with the probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeAnswer {
    /// A probe arrived.
    pub(super) arrived: bool,
    /// The ACK's D-SACK belongs to a probe, or may belong to one.
    pub(super) owns_dsack: bool,
    /// The range of the data that the probe copied.
    copied: Option<(u64, u64)>,
}

impl ProbeAnswer {
    /// Returns whether the probe filled a hole, given that `delivered` bytes were new to the peer.
    pub(super) fn filled(&self, delivered: u64) -> bool {
        self.arrived && !self.owns_dsack && self.copied.is_some_and(|(start, end)| delivered >= end - start)
    }
}

impl Connection {
    /// Adopts the controller's probe plan.
    pub(super) fn follow_probe_plan(&mut self) {
        let (now, plan) = (self.timers.now(), self.cc.control.probe);
        let Some(probes) = &mut self.ext.probes else { return };
        let from_tail = plan.filter(|plan| plan.from_tail().is_some());
        probes.follow(now, plan.filter(|_| from_tail.is_none()));
        if probes.open_plan().is_none() && from_tail.is_none() {
            self.timers.stop(Timer::Copy);
        }
        self.snd.follow_rc3_plan(now, from_tail);
    }

    /// Records that segments are sent with the current timestamp.
    pub(super) fn record_timestamp(&mut self, now: Time) {
        let value = self.numbers.clock.value(now);
        if let Some(probes) = self.ext.probes.as_mut().filter(|probes| probes.echoed) {
            probes.sent_timestamps.note(value);
        }
    }

    /// Stops reporting outstanding probes after a retransmission timeout, because they measured the path as it was
    /// before.
    pub(super) fn forget_probes(&mut self) {
        if let Some(probes) = &mut self.ext.probes {
            probes.begin_generation();
        }
    }

    /// Sends the next probe if one is due. No probe is sent before the first RTT sample.
    pub(super) fn transmit_probe(&mut self, now: Time, batch: &mut Batch) -> bool {
        let (mss, edge) = (self.mss(), self.snd.window_edge());
        let known = self.rtt.srtt().is_some();
        let value = self.numbers.clock.value(now);
        // With probe echoes, each probe needs a TSval of its own: wait for the next tick if this one is taken.
        let taken = self.snd.last_sent().is_some_and(|at| self.numbers.clock.value(at) == value);
        let Some(probes) = self.ext.probes.as_deref_mut().filter(|_| known) else { return false };
        let Some(plan) = probes.open_plan() else { return false };
        let taken = probes.echoed && (taken || probes.last_value == Some(value));
        let at = if taken { probes.next_at.max(now + self.numbers.clock.tick()) } else { probes.next_at };
        let chosen = probes.choose(&plan, self.snd.board());
        let record = chosen.and_then(|index| Some((index, *self.snd.board().get(index)?)));
        // After the peer has shrunk its window, a segment beyond it would not be answered.
        let fits =
            |record: &Record| record.len > 0 && record.len <= mss && record.start + u64::from(record.len) <= edge;
        let Some((index, record)) = record.filter(|(_, record)| fits(record)) else {
            // The next transmission leads here again.
            self.timers.stop(Timer::Copy);
            return false;
        };
        if now < at {
            self.timers.arm(Timer::Copy, at);
            return false;
        }
        let (start, end) = (record.start, record.start + u64::from(record.len));
        probes.on_sent(ProbeRecord { value, start, end, sent_at: now, generation: probes.generation }, plan.gap);
        self.push_copy(now, batch, &plan, index, &record);
        true
    }

    fn push_copy(&mut self, now: Time, batch: &mut Batch, plan: &ProbePlan, index: u64, record: &Record) {
        self.snd.board_mut().note_copy(index);
        let fin = if record.is_fin() { Flags::FIN } else { Flags::NONE };
        let mut header = self.header(now, Flags::ACK | Flags::PSH | fin | self.echo_flag(), record.start);
        header.seq = self.numbers.sequence(record.start);
        batch.dscp = plan.dscp;
        // Probes are not ECN-capable: the echo of a CE mark would be attributed to data in the window. A congested
        // queue drops the probe instead.
        batch.ecn = Ecn::NotEct;
        batch.push(&header, record.start, record.len);
        self.stats.segments_out += 1;
        let before = self.pipe();
        self.report_sent(now, TxId(0), record.len, before, SegmentKind::Probe);
        // The plan may allow more probes after this one.
        self.refresh_control();
    }

    /// Returns whether the D-SACK reports data that was never sent. A duplicate of sent data may be the network's.
    fn claims_unsent(&self, header: &Header, ack: u64) -> bool {
        let Some(first) = header.options.sack.as_slice().first().filter(|_| self.negotiated.sack) else { return false };
        let left = self.numbers.our_offset(first.left, ack);
        let right = self.numbers.our_offset(first.right, ack);
        left < ack as i64 && (left < 0 || right > self.snd.sent_to() as i64)
    }

    /// Matches an ACK up to `ack` with the outstanding probes.
    pub(super) fn take_probe_answer(
        &mut self,
        now: Time,
        header: &Header,
        ack: u64,
        dsack: Option<(u64, u64)>,
    ) -> ProbeAnswer {
        let claims_unsent = self.claims_unsent(header, ack);
        let timeout = self.rtt.rto();
        let retransmitted_to = self.loss.spurious.retransmitted_to();
        let Some(probes) = self.ext.probes.as_deref_mut() else { return ProbeAnswer::default() };
        probes.expire(now, timeout);
        // With probe echoes, the echoed TSval identifies the probe.
        if probes.echoed {
            let Some(echo) = header.options.probe_echo else { return ProbeAnswer::default() };
            let Some(copied) = probes.take_by_value(echo.value) else {
                // The echo may belong to out-of-order data or to a probe that is no longer recorded.
                let age = self.numbers.clock.age(now, echo.value);
                let strange = age.is_none_or(|age| age > now - self.life.created_at);
                if strange || probes.sent_timestamps.rules_out(echo.value) {
                    add(&mut probes.info.refused, 1);
                }
                return ProbeAnswer::default();
            };
            probes.sent_timestamps.name(echo.value);
            let copied = Some((copied.start, copied.end));
            return ProbeAnswer { arrived: true, owns_dsack: dsack.is_some(), copied };
        }
        if claims_unsent {
            add(&mut probes.info.refused, 1);
        }
        // Without probe echoes, a D-SACK identifies it, unless the range was also retransmitted.
        let Some((left, right)) = dsack else { return ProbeAnswer::default() };
        let ambiguous = left < retransmitted_to;
        if ambiguous {
            let owns_dsack = probes.flight.iter().any(|copied| copied.start < right && left < copied.end);
            return ProbeAnswer { owns_dsack, ..ProbeAnswer::default() };
        }
        let Some(copied) = probes.take_by_range(left, right) else {
            return ProbeAnswer::default();
        };
        ProbeAnswer { arrived: true, owns_dsack: true, copied: Some((copied.start, copied.end)) }
    }
}

#[cfg(test)]
mod tests;

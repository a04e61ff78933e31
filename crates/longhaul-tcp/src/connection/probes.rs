//! Probes beside the window: copies of data on its way, at low priority, whose answers tell how much more the path carries
//! (TCP-Peach's dummy segments, Peach+'s NIL segments, TCP-Swift's outstanding segments).
//!
//! A probe is a retransmission to the peer and nothing to our scoreboard: it is not in flight, is never held lost, and what it
//! reports as a duplicate is no sign of reordering or of a needless retransmission. What it fills, though, was lost, and whether an
//! answer is the copy's or the original's cannot always be told: of a segment that has a copy on its way, no RTT sample is taken,
//! RACK learns nothing and no decrease is undone, unless the echoed timestamp names the original.
//!
//! Between our own peers each answer names its probe by the timestamp that it carried (`docs/wire.md`, "Probe echo"); other peers
//! report duplicates (RFC 2883), and one that may be a retransmission's as well is nobody's.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::collections::VecDeque;

use longhaul_cc::{Needs, ProbeKind, ProbePlan, ProbeReport, SegmentKind, TxId};
use longhaul_units::{Span, Time};
use longhaul_wire::{Ecn, Flags, Header};

use super::Connection;
use super::departures::Departures;
use super::output::Batch;
use super::timers::Timer;
use crate::info::{ProbeInfo, add};
use crate::scoreboard::{Record, Scoreboard};

/// Probes that are remembered; of more than that the oldest are forgotten.
const REMEMBERED: usize = 4096;
/// Retransmission timeouts for which a probe is remembered. After the first it is given up, but what the peer reports twice may
/// still be its.
const MEMORY: u64 = 8;
/// Gaps that a probe may be late without the next one being later for it.
const LATE: u64 = 4;
/// Random segments that are looked at for one to be copied.
const DRAWS: u32 = 8;

/// What a connection that probes knows of its probes.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// Whether the peer names what it answers.
    echoed: bool,
    /// In the order of sending, and how many of the first are given up.
    flight: VecDeque<Copied>,
    given_up: usize,
    /// The plan in force, and the number of the newest one.
    plan: Option<ProbePlan>,
    id: Option<u32>,
    /// Counts plans and timeouts. What became of probes from before is no longer the controller's to know.
    era: u32,
    /// How many of the plan have left, and when the next may.
    sent: u32,
    next_at: Time,
    /// Below this offset the plan has copied everything once, from the top down.
    backwards: Option<u64>,
    random: u64,
    last_value: Option<u32>,
    /// What the peer may name, if it names.
    departures: Departures,
    report: ProbeReport,
    info: ProbeInfo,
}

/// A probe on its way.
#[derive(Clone, Copy, Debug)]
struct Copied {
    /// Its TSval.
    value: u32,
    start: u64,
    end: u64,
    sent_at: Time,
    era: u32,
}

/// Whether a controller has a use for probes.
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

    /// The counts, for what leaves under a plan and is no copy.
    pub(super) fn info_mut(&mut self) -> &mut ProbeInfo {
        &mut self.info
    }

    /// What became of probes since the last call.
    pub(super) fn take_report(&mut self) -> ProbeReport {
        std::mem::take(&mut self.report)
    }

    /// Follows the controller's plan. A new one begins a gap from now.
    fn follow(&mut self, now: Time, plan: Option<ProbePlan>) {
        if let Some(new) = plan.filter(|new| self.id != Some(new.id)) {
            (self.id, self.sent, self.backwards) = (Some(new.id), 0, None);
            self.next_at = now + new.gap;
            self.begin_era();
        }
        self.plan = plan;
    }

    /// Nothing that left before is reported from now on. It is still awaited: its D-SACKs are nobody else's.
    fn begin_era(&mut self) {
        self.era = self.era.wrapping_add(1);
        self.report = ProbeReport::default();
    }

    /// The plan, if it still has probes to send.
    fn open_plan(&self) -> Option<ProbePlan> {
        self.plan.filter(|plan| self.sent < plan.segments)
    }

    /// The segment to copy next.
    fn choose(&mut self, plan: &ProbePlan, board: &Scoreboard) -> Option<u64> {
        plan.prefer.into_iter().flatten().find_map(|kind| match kind {
            ProbeKind::Dummy => board.last_unsacked_below(u64::MAX),
            ProbeKind::Outstanding => self.draw(board),
            ProbeKind::Backwards => self.next_backwards(board),
            // Is no copy, and has a loop of its own.
            ProbeKind::FromTail(_) => None,
        })
    }

    /// A segment at random among those that the peer lacks.
    fn draw(&mut self, board: &Scoreboard) -> Option<u64> {
        let len = board.len() as u64;
        let drawn = (0..DRAWS).find_map(|_| {
            // Knuth's linear congruence (The Art of Computer Programming, 3.3.4, line 26): it need not be unforeseeable.
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let index = board.head_index() + (self.random >> 33).checked_rem(len)?;
            board.get(index).is_some_and(|record| !record.is_sacked()).then_some(index)
        });
        drawn.or_else(|| board.last_unsacked_below(u64::MAX))
    }

    /// The highest segment that was not copied yet.
    fn next_backwards(&self, board: &Scoreboard) -> Option<u64> {
        let below = self.backwards.map_or(u64::MAX, |offset| board.index_at_or_after(offset));
        board.last_unsacked_below(below)
    }

    fn on_sent(&mut self, copied: Copied, gap: Span) {
        self.sent += 1;
        // One that left late does not delay the others, though a host that slept for long does not make up for it all at once.
        self.next_at = (self.next_at + gap).max(copied.sent_at - gap * LATE);
        self.backwards = Some(copied.start);
        self.last_value = Some(copied.value);
        if self.flight.len() >= REMEMBERED {
            self.forget_oldest();
        }
        self.flight.push_back(copied);
        add(&mut self.info.sent, 1);
        add(&mut self.info.bytes_sent, copied.end - copied.start);
    }

    /// No answer to the oldest one that is awaited is expected any more.
    fn give_up(&mut self, era: u32) {
        self.given_up += 1;
        if era == self.era {
            self.report.lost = self.report.lost.saturating_add(1);
        }
        add(&mut self.info.lost, 1);
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.flight.front().filter(|_| self.given_up == 0) {
            self.give_up(oldest.era);
        }
        self.flight.pop_front();
        self.given_up = self.given_up.saturating_sub(1);
    }

    /// The probe with this timestamp has arrived.
    fn take_by_value(&mut self, value: u32) -> Option<Copied> {
        let index = self.flight.iter().position(|copied| copied.value == value)?;
        self.take(index)
    }

    /// The oldest probe that is a copy of what this range holds, of those that are awaited if it may be.
    fn take_by_range(&mut self, left: u64, right: u64) -> Option<Copied> {
        let holds = |copied: &Copied| copied.start <= left && right <= copied.end;
        let awaited = self.flight.iter().skip(self.given_up).position(holds).map(|index| index + self.given_up);
        let index = awaited.or_else(|| self.flight.iter().position(holds))?;
        self.take(index)
    }

    fn take(&mut self, index: usize) -> Option<Copied> {
        let copied = self.flight.remove(index)?;
        if index < self.given_up {
            // It was counted already, and comes too late to say anything.
            self.given_up -= 1;
            return Some(copied);
        }
        if copied.era == self.era {
            self.report.acked = self.report.acked.saturating_add(1);
        }
        add(&mut self.info.acked, 1);
        Some(copied)
    }

    /// Gives up what left longer ago than `patience`.
    fn expire(&mut self, now: Time, patience: Span) {
        while let Some(copied) = self.flight.get(self.given_up).filter(|copied| now - copied.sent_at > patience) {
            self.give_up(copied.era);
        }
        while self.flight.front().is_some_and(|copied| now - copied.sent_at > patience * MEMORY) {
            self.forget_oldest();
        }
    }
}

/// Whether an ACK answers a probe, and what of its report of a duplicate others may believe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeAnswer {
    /// A probe arrived.
    pub(super) arrived: bool,
    /// The ACK's D-SACK is the probe's, or may be.
    pub(super) owns_dsack: bool,
    /// The range that the probe copied.
    copied: Option<(u64, u64)>,
}

impl ProbeAnswer {
    /// Whether the copy brought what it held, if so many bytes were new to the peer.
    pub(super) fn filled(&self, delivered: u64) -> bool {
        self.arrived && !self.owns_dsack && self.copied.is_some_and(|(start, end)| delivered >= end - start)
    }
}

impl Connection {
    /// Reads the controller's plan.
    pub(super) fn follow_probe_plan(&mut self) {
        let (now, plan) = (self.now, self.cc.control.probe);
        let Some(probes) = &mut self.ext.probes else { return };
        let from_tail = plan.filter(|plan| plan.from_tail().is_some());
        probes.follow(now, plan.filter(|_| from_tail.is_none()));
        if probes.open_plan().is_none() && from_tail.is_none() {
            self.timers.stop(Timer::Copy);
        }
        self.follow_tail_plan(now, from_tail);
    }

    /// Something leaves, with the timestamp of now.
    pub(super) fn note_departure(&mut self, now: Time) {
        let value = self.numbers.clock.value(now);
        if let Some(probes) = self.ext.probes.as_mut().filter(|probes| probes.echoed) {
            probes.departures.note(value);
        }
    }

    /// A retransmission timeout: what the probes on their way would have told is of a path that was another one.
    pub(super) fn forget_probes(&mut self) {
        if let Some(probes) = &mut self.ext.probes {
            probes.begin_era();
        }
    }

    /// Sends the next probe, if one is due. None goes to a peer of which no round trip is known.
    pub(super) fn transmit_probe(&mut self, now: Time, batch: &mut Batch) -> bool {
        let (mss, edge) = (self.mss(), self.snd.window_edge());
        let known = self.rtt.srtt().is_some();
        let value = self.numbers.clock.value(now);
        // Each has a timestamp that no other segment has, where those are fine enough.
        let taken = self.snd.last_sent.is_some_and(|at| self.numbers.clock.value(at) == value);
        let Some(probes) = self.ext.probes.as_deref_mut().filter(|_| known) else { return false };
        let Some(plan) = probes.open_plan() else { return false };
        let taken = probes.echoed && (taken || probes.last_value == Some(value));
        let at = if taken { probes.next_at.max(now + self.numbers.clock.tick()) } else { probes.next_at };
        let chosen = probes.choose(&plan, &self.snd.board);
        let record = chosen.and_then(|index| Some((index, *self.snd.board.get(index)?)));
        // What a window that has shrunk no longer admits says nothing.
        let fits =
            |record: &Record| record.len > 0 && record.len <= mss && record.start + u64::from(record.len) <= edge;
        let Some((index, record)) = record.filter(|(_, record)| fits(record)) else {
            // What is sent next brings it back here.
            self.timers.stop(Timer::Copy);
            return false;
        };
        if now < at {
            self.timers.arm(Timer::Copy, at);
            return false;
        }
        let (start, end) = (record.start, record.start + u64::from(record.len));
        probes.on_sent(Copied { value, start, end, sent_at: now, era: probes.era }, plan.gap);
        self.push_copy(now, batch, &plan, index, &record);
        true
    }

    fn push_copy(&mut self, now: Time, batch: &mut Batch, plan: &ProbePlan, index: u64, record: &Record) {
        self.snd.board.note_copy(index);
        let fin = if record.is_fin() { Flags::FIN } else { Flags::NONE };
        let mut header = self.header(now, Flags::ACK | Flags::PSH | fin | self.echo_flag(), record.start);
        header.seq = self.numbers.sequence(record.start);
        batch.dscp = plan.dscp;
        // A mark would be echoed as if the window had met it; a queue that drops the probe says the same.
        batch.ecn = Ecn::NotEct;
        batch.push(&header, record.start, record.len);
        self.stats.segments_out += 1;
        let before = self.pipe();
        self.report_sent(now, TxId(0), record.len, before, SegmentKind::Probe);
        // The plan may have been for one more than there are.
        self.refresh_control();
    }

    /// Whether the first SACK block reports a duplicate of octets that never left. Of those that did, the network may have made one.
    fn claims_unsent(&self, header: &Header, ack: u64) -> bool {
        let Some(first) = header.options.sack.as_slice().first().filter(|_| self.negotiated.sack) else { return false };
        let left = self.numbers.our_offset(first.left, ack);
        let right = self.numbers.our_offset(first.right, ack);
        left < ack as i64 && (left < 0 || right > self.snd.sent_to() as i64)
    }

    /// Whether this ACK, of what lies below `ack`, answers a probe.
    pub(super) fn take_probe_answer(
        &mut self,
        now: Time,
        header: &Header,
        ack: u64,
        dsack: Option<(u64, u64)>,
    ) -> ProbeAnswer {
        let claims_unsent = self.claims_unsent(header, ack);
        let patience = self.rtt.rto();
        let retransmitted_to = self.loss.spurious.retransmitted_to();
        let Some(probes) = self.ext.probes.as_deref_mut() else { return ProbeAnswer::default() };
        probes.expire(now, patience);
        if probes.echoed {
            let Some(echo) = header.options.probe_echo else { return ProbeAnswer::default() };
            let Some(copied) = probes.take_by_value(echo.value) else {
                // It may name data out of order, or a probe that was forgotten.
                let age = self.numbers.clock.age(now, echo.value);
                let strange = age.is_none_or(|age| age > now - self.life.created_at);
                if strange || probes.departures.refutes(echo.value) {
                    add(&mut probes.info.refused, 1);
                }
                return ProbeAnswer::default();
            };
            probes.departures.name(echo.value);
            let copied = Some((copied.start, copied.end));
            return ProbeAnswer { arrived: true, owns_dsack: dsack.is_some(), copied };
        }
        if claims_unsent {
            add(&mut probes.info.refused, 1);
        }
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

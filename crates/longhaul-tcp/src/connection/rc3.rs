//! Low-priority loop of RC3 (Mittal et al., NSDI 2014): sends new data from the end of the send buffer backwards,
//! each octet once, until it meets the primary loop, which sends from SND.NXT forwards within the window.
//!
//! Data sent by the RC3 loop lies beyond SND.NXT. It is recorded as a set of ranges and is not in the scoreboard
//! until SND.NXT reaches it: ranges that the peer has received by then are skipped, the others are retransmitted as
//! new data. A cumulative ACK may advance SND.NXT as far as every octet was sent. Only the primary loop retransmits,
//! counts duplicate ACKs, takes RTT samples and opens the window (`docs/decisions/0022-data-from-the-tail.md`).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::ops::Range;

use longhaul_cc::{PathEvent, ProbePlan, SegmentKind, TxId};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Ecn, Flags, Header, SackBlock};

use super::sender::Sender;
use super::timers::Timer;
use super::{Connection, State};
use crate::batch::Batch;
use crate::info::add;
use crate::ranges::Ranges;

/// Maximum number of ranges sent. A new one begins whenever data is queued before the loop has come down to the last
/// one.
const MAX_SENT: usize = 64;
/// Maximum number of ranges received by the peer. Holes between them are losses. Further ranges, which a
/// misbehaving peer may report, are ignored, and their data is retransmitted.
const MAX_HELD: usize = 4096;
/// Maximum number of recorded ranges below SND.NXT, which later D-SACKs may report.
const MAX_BEHIND: usize = 64;
/// Burst size: the data of this time at the plan's rate, but at least two segments, as with the pacer.
const QUANTUM: Span = Span::from_micros(250);
const LEAST_AT_ONCE: u64 = 2;
const MOST_AT_ONCE: u64 = 64;
/// Number of gaps by which a segment may be late without delaying the next one.
const LATE: u64 = 1;
/// Maximum length in octets of a scoreboard record for skipped data.
const MAX_RECORD: u64 = u16::MAX as u64;

/// Data sent beyond SND.NXT, and the part of it that has arrived.
#[derive(Debug, Default)]
pub(super) struct Rc3Loop {
    /// Ranges sent above SND.NXT.
    sent: Ranges,
    /// The part of them that the peer reported as received.
    received: Ranges,
    /// Ranges sent by the loop that are below SND.NXT by now.
    behind: Ranges,
    plan: Option<ProbePlan>,
    /// The plan to which `count` applies.
    id: Option<u32>,
    count: u32,
    next_at: Time,
    /// Octets and segments that the current ACK reports as received.
    arrived: u64,
    segments: u64,
}

/// Bounds of the data that the loop may send.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Data below belongs to the primary loop, which may send it as soon as the pacer permits.
    floor: u64,
    /// The end of the queued data or of the peer's window.
    top: u64,
    mss: u64,
    /// A segment at the top must be full-sized, because more data may follow.
    wait: bool,
}

impl Rc3Loop {
    /// Adopts the controller's plan. A plan with a new number has a new budget.
    pub(super) fn follow(&mut self, now: Time, plan: Option<ProbePlan>) {
        let id = plan.map(|plan| plan.id);
        if id.is_some() && id != self.id {
            (self.id, self.count, self.next_at) = (id, 0, self.next_at.max(now));
        }
        self.plan = plan;
    }

    /// Returns the plan if it permits more segments.
    fn open_plan(&self) -> Option<ProbePlan> {
        self.plan.filter(|plan| self.count < plan.segments)
    }

    /// Returns the next segment to send: the highest range that was not sent.
    fn next_piece(&self, bounds: Bounds) -> Option<Range<u64>> {
        let Bounds { floor, top, mss, wait } = bounds;
        let mut end = top;
        while end > floor {
            let below = self.sent.last_below(end);
            if let Some(sent) = below.as_ref().filter(|sent| sent.end >= end) {
                end = sent.start;
                continue;
            }
            let lower = below.map_or(floor, |sent| sent.end.max(floor));
            if end == top && wait && end - lower < mss {
                end = lower;
                continue;
            }
            return Some(lower.max(end.saturating_sub(mss))..end);
        }
        None
    }

    /// Records a segment as sent. Returns `false` if it cannot be recorded.
    fn note_sent(&mut self, piece: Range<u64>) -> bool {
        let noted = self.sent.insert(piece, MAX_SENT).is_some();
        self.count += u32::from(noted);
        noted
    }

    fn schedule_next(&mut self, now: Time, gap: Span, segments: u64) {
        self.next_at = self.next_at.max(now - gap * LATE) + gap * segments;
    }

    fn count_arrived(&mut self, bytes: u64, mss: u64) {
        self.arrived = self.arrived.saturating_add(bytes);
        self.segments = self.segments.saturating_add(bytes.div_ceil(mss.max(1)));
    }

    /// Processes a SACK block above SND.NXT. Returns whether all of it was sent.
    fn take_sack(&mut self, block: &Range<u64>, mss: u64) -> bool {
        if !self.sent.hold(block) {
            return false;
        }
        if let Some(new) = self.received.insert(block.clone(), MAX_HELD) {
            self.count_arrived(new, mss);
        }
        true
    }

    /// Advances the ranges when SND.NXT moves up to `nxt`.
    fn advance(&mut self, nxt: u64) {
        for range in self.sent.take_below(nxt) {
            self.behind.keep_highest(MAX_BEHIND - 1);
            let _ = self.behind.insert(range, MAX_BEHIND);
        }
        drop(self.received.take_below(nxt));
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.sent.memory() + self.received.memory() + self.behind.memory()
    }
}

impl Sender {
    /// Returns the end of the contiguous data sent: SND.NXT, or the end of the range that the RC3 loop sent directly
    /// above it. An ACK beyond it is invalid. Pure ACKs use it as their sequence number. Because the peer's RCV.NXT
    /// may exceed SND.NXT, a segment with SND.NXT could be unacceptable (RFC 9293, section 3.10.7.4), and both ends
    /// would drop each other's ACKs.
    pub(super) fn sent_to(&self) -> u64 {
        let ahead = self.rc3.as_ref().and_then(|rc3| rc3.sent.first()).filter(|range| range.start <= self.nxt);
        ahead.map_or(self.nxt, |range| range.end.max(self.nxt))
    }

    /// Returns the number of unsent bytes below the first range sent by the RC3 loop.
    pub(super) fn unsent_before_rc3(&self) -> u64 {
        let ahead = self.rc3.as_ref().and_then(|rc3| rc3.sent.first());
        ahead.map_or(self.unsent(), |range| range.start.saturating_sub(self.nxt).min(self.unsent()))
    }

    /// Returns how many of `len` bytes of new data precede the first range that the peer has received.
    pub(super) fn before_received(&self, len: u64) -> u64 {
        let received = self.rc3.as_ref().and_then(|rc3| rc3.received.first());
        received.filter(|range| range.start > self.nxt).map_or(len, |range| len.min(range.start - self.nxt))
    }

    /// Returns whether the loop may send data that a writer queues.
    pub(super) fn has_open_rc3_plan(&self) -> bool {
        self.rc3.as_ref().is_some_and(|rc3| rc3.open_plan().is_some())
    }

    /// Advances SND.NXT to `nxt` after data from `start` was sent. Returns whether the RC3 loop had sent some of it
    /// before.
    fn advance_rc3(&mut self, start: u64, nxt: u64) -> bool {
        let Some(rc3) = &mut self.rc3 else { return false };
        let again = rc3.sent.meet(&(start..nxt));
        rc3.advance(nxt);
        again
    }

    /// Processes a cumulative ACK above SND.NXT: the two loops have met.
    pub(super) fn meet_rc3(&mut self, ack: u64, mss: u64) {
        let Some(rc3) = self.rc3.as_mut().filter(|_| ack > self.nxt) else { return };
        if let Some(new) = rc3.received.insert(self.nxt..ack, MAX_HELD + 1) {
            rc3.count_arrived(new, mss);
        }
        rc3.advance(ack);
        self.nxt = ack;
    }

    /// Processes the part of a SACK block above SND.NXT. Returns whether all of it was sent.
    pub(super) fn sack_beyond_nxt(&mut self, left: u64, right: u64, mss: u64) -> bool {
        let nxt = self.nxt;
        self.rc3.as_mut().is_some_and(|rc3| rc3.take_sack(&(left.max(nxt)..right), mss))
    }
}

impl Connection {
    /// Adopts a plan for new data from the tail, or its end.
    pub(super) fn follow_rc3_plan(&mut self, now: Time, plan: Option<ProbePlan>) {
        match &mut self.snd.rc3 {
            Some(rc3) => rc3.follow(now, plan),
            None if plan.is_some() => self.snd.rc3.insert(Box::default()).follow(now, plan),
            None => {}
        }
    }

    /// Sends the next segments from the tail if they are due. Nothing is sent before the first RTT sample, or between
    /// a retransmission timeout and the next acknowledgment of new data.
    pub(super) fn transmit_rc3(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> bool {
        let Some(plan) = self.snd.rc3.as_ref().and_then(|rc3| rc3.open_plan()) else { return false };
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        let silent = self.rtt.srtt().is_none() || self.rtt.backoff() > 0;
        if silent || !matches!(self.life.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return false;
        }
        let bounds = self.rc3_bounds();
        let Some(rc3) = self.snd.rc3.as_mut() else { return false };
        let Some(first) = rc3.next_piece(bounds) else {
            self.timers.stop(Timer::Copy);
            return false;
        };
        if now < rc3.next_at {
            self.timers.arm(Timer::Copy, rc3.next_at);
            return false;
        }
        let sent = self.fill_rc3(now, batch, max_segments, &plan, bounds, first);
        if sent == 0 {
            self.timers.stop(Timer::Copy);
            return false;
        }
        if let Some(rc3) = &mut self.snd.rc3 {
            rc3.schedule_next(now, plan.gap, sent);
        }
        self.stats.segments_out += sent;
        self.refresh_control();
        true
    }

    /// Returns the bounds of the loop. Data that cwnd admits belongs to the primary loop, even if the pacer delays
    /// it. Nothing is sent beyond the peer's window.
    fn rc3_bounds(&self) -> Bounds {
        let mss = u64::from(self.mss()).max(1);
        let room = self.cc.control.cwnd.0.saturating_sub(self.pipe());
        let (end, edge) = (self.snd.buffer.end(), self.snd.window_edge());
        let complete = self.snd.nodelay || self.snd.fin_queued;
        Bounds {
            floor: self.snd.nxt.max(1).saturating_add(room / mss * mss),
            top: end.min(edge),
            mss,
            wait: edge < end || !complete,
        }
    }

    /// Fills a batch with segments of one priority, from `first` downwards, up to the number that may be sent at
    /// once.
    fn fill_rc3(
        &mut self,
        now: Time,
        batch: &mut Batch,
        max_segments: usize,
        plan: &ProbePlan,
        bounds: Bounds,
        first: Range<u64>,
    ) -> u64 {
        let level_of = |piece: &Range<u64>| {
            let from_end = (bounds.top - piece.start).div_ceil(bounds.mss);
            plan.from_tail().map_or(1, |levels| levels.of(from_end))
        };
        let (level, template) = (level_of(&first), self.header(now, Flags::ACK | self.echo_flag(), first.start));
        let header_len = CheshireCodec::header_len(&template.options);
        let at_once = QUANTUM.as_nanos().checked_div(plan.gap.as_nanos()).unwrap_or(MOST_AT_ONCE);
        let at_once = at_once.clamp(LEAST_AT_ONCE, MOST_AT_ONCE);
        batch.dscp = plan.dscp_of(level);
        // These segments are not ECN-capable: the echo of a CE mark would be attributed to data in the window.
        batch.ecn = Ecn::NotEct;
        let (mut next, mut sent) = (Some(first), 0);
        while let Some(piece) = next.take().filter(|piece| sent < at_once && level_of(piece) == level) {
            let len = (piece.end - piece.start) as u16;
            let open = self.snd.has_open_rc3_plan() && batch.admits(header_len + usize::from(len), max_segments);
            let noted = open && self.snd.rc3.as_mut().is_some_and(|rc3| rc3.note_sent(piece.clone()));
            if !noted {
                break;
            }
            self.push_rc3(now, batch, &template, piece.start, len);
            sent += 1;
            next = self.snd.rc3.as_ref().and_then(|rc3| rc3.next_piece(bounds));
        }
        sent
    }

    fn push_rc3(&mut self, now: Time, batch: &mut Batch, template: &Header, start: u64, len: u16) {
        let sequence = self.numbers.sequence(start);
        if batch.is_empty() {
            batch.push(&Header { seq: sequence, ..template.clone() }, start, len);
        } else {
            batch.push_like_last(sequence, start, len);
        }
        if let Some(probes) = &mut self.ext.probes {
            let info = probes.info_mut();
            add(&mut info.sent, 1);
            add(&mut info.bytes_sent, u64::from(len));
        }
        let before = self.pipe();
        self.report_sent(now, TxId(0), len, before, SegmentKind::Probe);
    }

    /// Skips data that the peer has received already: adds records for it to the scoreboard and advances SND.NXT.
    pub(super) fn skip_received(&mut self) {
        let mss = u64::from(self.mss()).max(1);
        // Records consist of whole segments, in case they have to be retransmitted.
        let most = MAX_RECORD / mss * mss;
        while let Some(range) = self.snd.rc3.as_ref().and_then(|rc3| rc3.received.first()) {
            if range.start > self.snd.nxt {
                return;
            }
            if self.snd.board.is_empty() {
                // Data is SACKed here although all data before it is acknowledged: the peer has discarded it (RFC
                // 2018, section 8).
                self.clear_received();
                return;
            }
            while self.snd.nxt < range.end {
                let len = (range.end - self.snd.nxt).min(most);
                self.snd.board.push_passed(self.snd.nxt, len as u16);
                self.snd.nxt += len;
            }
            if let Some(rc3) = &mut self.snd.rc3 {
                rc3.advance(self.snd.nxt);
            }
        }
    }

    /// Checks whether the RC3 loop had sent data of the new segment at `start`, which is the newest record, and flags
    /// it if so.
    pub(super) fn flag_rc3_resend(&mut self, start: u64) {
        if !self.snd.advance_rc3(start, self.snd.nxt) {
            return;
        }
        self.snd.board.note_early();
        if let Some(probes) = &mut self.ext.probes {
            add(&mut probes.info_mut().lost, 1);
        }
    }

    fn clear_received(&mut self) {
        if let Some(rc3) = &mut self.snd.rc3 {
            rc3.received.clear();
        }
    }

    /// Clears all SACK state because the receiver reneged (RFC 2018, section 8).
    pub(super) fn renege(&mut self) {
        self.snd.board.renege();
        self.clear_received();
    }

    /// Counts an acknowledgment of data that was not sent.
    pub(super) fn count_invalid_ack(&mut self) {
        if let Some(probes) = self.ext.probes.as_mut().filter(|_| self.snd.rc3.is_some()) {
            add(&mut probes.info_mut().refused, 1);
        }
    }

    /// Returns whether the first SACK block is above SND.NXT. Such an ACK is triggered by the RC3 loop and is no
    /// duplicate ACK.
    pub(super) fn reports_rc3_data(&self, header: &Header, ack: u64) -> bool {
        let beyond = |block: &SackBlock| self.numbers.our_offset(block.right, ack) > self.snd.nxt as i64;
        self.snd.rc3.is_some() && header.options.sack.as_slice().first().is_some_and(beyond)
    }

    /// Returns whether a D-SACK reports data that was sent by both loops and is therefore no sign of a spurious
    /// retransmission.
    pub(super) fn is_rc3_duplicate(&self, left: u64, right: u64) -> bool {
        self.snd.rc3.as_ref().is_some_and(|rc3| rc3.behind.meet(&(left..right)))
    }

    /// Reports newly arrived data of the tail to the controller, and returns its length in bytes.
    pub(super) fn report_rc3_arrivals(&mut self, at: Time) -> u64 {
        let Some(rc3) = self.snd.rc3.as_mut().filter(|rc3| rc3.arrived > 0) else { return 0 };
        let (bytes, segments) = (std::mem::take(&mut rc3.arrived), std::mem::take(&mut rc3.segments));
        if let Some(probes) = &mut self.ext.probes {
            let info = probes.info_mut();
            add(&mut info.acked, segments);
            add(&mut info.carried, bytes);
        }
        self.tell(&PathEvent::Ahead { at, bytes: Bytes(bytes) });
        bytes
    }
}

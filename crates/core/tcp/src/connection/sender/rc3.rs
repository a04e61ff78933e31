//! Data that the low-priority loop of RC3 has sent beyond SND.NXT (Mittal et al., NSDI 2014).
//!
//! It is recorded as a set of ranges and is not in the scoreboard until SND.NXT reaches it: ranges that the peer has
//! received by then are skipped, the others are retransmitted as new data. A cumulative ACK may advance SND.NXT as far
//! as every octet was sent (`docs/decisions/0022-data-from-the-tail.md`).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::ops::Range;

use longhaul_cc::ProbePlan;
use longhaul_units::{Span, Time};

use crate::connection::Sender;
use crate::ranges::Ranges;

/// Maximum number of ranges sent. A new one begins whenever data is queued before the loop has come down to the last
/// one.
const MAX_SENT: usize = 64;
/// Maximum number of ranges received by the peer. Holes between them are losses. Further ranges, which a
/// misbehaving peer may report, are ignored, and their data is retransmitted.
const MAX_HELD: usize = 4096;
/// Maximum number of recorded ranges below SND.NXT, which later D-SACKs may report.
const MAX_BEHIND: usize = 64;
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
pub(crate) struct Bounds {
    /// Data below belongs to the primary loop, which may send it as soon as the pacer permits.
    floor: u64,
    /// The end of the queued data or of the peer's window.
    pub(crate) top: u64,
    pub(crate) mss: u64,
    /// A segment at the top must be full-sized, because more data may follow.
    wait: bool,
}

impl Rc3Loop {
    /// Adopts the controller's plan. A plan with a new number has a new budget.
    fn follow(&mut self, now: Time, plan: Option<ProbePlan>) {
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
    /// above it. An ACK beyond it is invalid. Because the peer's RCV.NXT may exceed SND.NXT, a pure ACK with SND.NXT
    /// could be unacceptable (RFC 9293, section 3.10.7.4), and both ends would drop each other's ACKs.
    pub(crate) fn sent_to(&self) -> u64 {
        let ahead = self.rc3.as_ref().and_then(|rc3| rc3.sent.first()).filter(|range| range.start <= self.nxt);
        ahead.map_or(self.nxt, |range| range.end.max(self.nxt))
    }

    /// Returns the number of unsent bytes below the first range sent by the RC3 loop.
    pub(crate) fn unsent_before_rc3(&self) -> u64 {
        let ahead = self.rc3.as_ref().and_then(|rc3| rc3.sent.first());
        ahead.map_or(self.unsent(), |range| range.start.saturating_sub(self.nxt).min(self.unsent()))
    }

    /// Returns how many of `len` bytes of new data precede the first range that the peer has received.
    pub(crate) fn before_received(&self, len: u64) -> u64 {
        let received = self.rc3.as_ref().and_then(|rc3| rc3.received.first());
        received.filter(|range| range.start > self.nxt).map_or(len, |range| len.min(range.start - self.nxt))
    }

    /// Adopts the controller's plan for new data from the tail, or its end.
    pub(crate) fn follow_rc3_plan(&mut self, now: Time, plan: Option<ProbePlan>) {
        match &mut self.rc3 {
            Some(rc3) => rc3.follow(now, plan),
            None if plan.is_some() => self.rc3.insert(Box::default()).follow(now, plan),
            None => {}
        }
    }

    /// Returns the plan of the RC3 loop if it permits more segments.
    pub(crate) fn rc3_plan(&self) -> Option<ProbePlan> {
        self.rc3.as_ref().and_then(|rc3| rc3.open_plan())
    }

    /// Returns the bounds of the loop, given the `room` in the congestion window. Data that cwnd admits belongs to the
    /// primary loop, even if the pacer delays it. Nothing is sent beyond the peer's window.
    pub(crate) fn rc3_bounds(&self, room: u64, mss: u64) -> Bounds {
        let (end, edge) = (self.buffer.end(), self.window_edge());
        let complete = self.nodelay || self.fin_queued;
        Bounds {
            floor: self.nxt.max(1).saturating_add(room / mss * mss),
            top: end.min(edge),
            mss,
            wait: edge < end || !complete,
        }
    }

    /// Returns the segment that the loop sends next, and the time at which it is due.
    pub(crate) fn next_from_tail(&self, bounds: Bounds) -> Option<(Range<u64>, Time)> {
        let rc3 = self.rc3.as_ref()?;
        Some((rc3.next_piece(bounds)?, rc3.next_at))
    }

    /// Records that the loop sends a segment. Returns `false` if the plan does not permit it or it cannot be recorded.
    pub(crate) fn send_from_tail(&mut self, piece: Range<u64>) -> bool {
        self.rc3.as_mut().is_some_and(|rc3| rc3.open_plan().is_some() && rc3.note_sent(piece))
    }

    /// Schedules the next segment of the loop after `segments` were sent at `now`.
    pub(crate) fn schedule_tail(&mut self, now: Time, gap: Span, segments: u64) {
        if let Some(rc3) = &mut self.rc3 {
            rc3.next_at = rc3.next_at.max(now - gap * LATE) + gap * segments;
        }
    }

    /// Advances SND.NXT to `nxt` after data from `start` was sent. Returns whether the RC3 loop had sent some of it
    /// before.
    pub(super) fn advance_rc3(&mut self, start: u64, nxt: u64) -> bool {
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

    /// Skips data that the peer has received already: adds records for it to the scoreboard and advances SND.NXT.
    pub(crate) fn skip_received(&mut self, mss: u64) {
        let mss = mss.max(1);
        // Records consist of whole segments, in case they have to be retransmitted.
        let most = MAX_RECORD / mss * mss;
        while let Some(range) = self.rc3.as_ref().and_then(|rc3| rc3.received.first()) {
            if range.start > self.nxt {
                return;
            }
            if self.board.is_empty() {
                // Data is SACKed here although all data before it is acknowledged: the peer has discarded it (RFC
                // 2018, section 8).
                self.clear_received();
                return;
            }
            while self.nxt < range.end {
                let len = (range.end - self.nxt).min(most);
                self.board.push_passed(self.nxt, len as u16);
                self.nxt += len;
            }
            if let Some(rc3) = &mut self.rc3 {
                rc3.advance(self.nxt);
            }
        }
    }

    /// Sets the latest send time of transmissions that can have been answered by now, which decides to which of both
    /// loops the delivery of data is attributed.
    pub(crate) fn set_rc3_horizon(&mut self, at: Time) {
        if self.rc3.is_some() {
            self.board.set_horizon(at);
        }
    }

    pub(super) fn clear_received(&mut self) {
        if let Some(rc3) = &mut self.rc3 {
            rc3.received.clear();
        }
    }

    /// Returns the octets and segments of the tail that the current ACK reports as received, if there are any.
    pub(crate) fn take_rc3_arrivals(&mut self) -> Option<(u64, u64)> {
        let rc3 = self.rc3.as_mut().filter(|rc3| rc3.arrived > 0)?;
        Some((std::mem::take(&mut rc3.arrived), std::mem::take(&mut rc3.segments)))
    }

    /// Returns whether the RC3 loop ever had a plan.
    pub(crate) fn has_rc3(&self) -> bool {
        self.rc3.is_some()
    }

    /// Returns whether a D-SACK reports data that was sent by both loops and is therefore no sign of a spurious
    /// retransmission.
    pub(crate) fn is_rc3_duplicate(&self, left: u64, right: u64) -> bool {
        self.rc3.as_ref().is_some_and(|rc3| rc3.behind.meet(&(left..right)))
    }
}

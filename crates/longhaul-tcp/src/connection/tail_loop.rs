//! The second loop of RC3 (Mittal et al., NSDI 2014): new data from the tail of the send buffer backwards, at low priority, each octet
//! once, until what the window sends, the primary loop, has come up to it.
//!
//! What leaves so lies beyond SND.NXT. It is a side set of ranges, and nothing to the scoreboard, until SND.NXT comes to it: what the
//! peer has by then is passed over, the rest is sent once more as new data always is. A cumulative ACK may take SND.NXT along, as far
//! as something has left of every octet. So only the primary loop repairs, counts duplicates, measures and opens the window
//! (`docs/decisions/0022-data-from-the-tail.md`).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::ops::Range;

use longhaul_cc::{PathEvent, ProbePlan, SegmentKind, TxId};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Ecn, Flags, Header, SackBlock};

use super::output::Batch;
use super::sender::Sender;
use super::timers::Timer;
use super::{Connection, State};
use crate::info::add;
use crate::ranges::Ranges;

/// Stretches of data that the loop has begun: one for each time that more was queued before it had come down to the last.
const MAX_SENT: usize = 64;
/// Stretches of it that the peer has. An honest one's holes are losses; of those that one makes up, more are not believed, and what
/// lies there is sent once more.
const MAX_HELD: usize = 4096;
/// Stretches behind SND.NXT that are remembered for what is still to be said of them.
const MAX_BEHIND: usize = 64;
/// What may leave at once: so much time's worth, and at least two segments, as the pacer has it.
const QUANTUM: Span = Span::from_micros(250);
const LEAST_AT_ONCE: u64 = 2;
const MOST_AT_ONCE: u64 = 64;
/// Gaps that a segment may be late without the next one being later for it.
const LATE: u64 = 1;
/// What is passed over is noted in records of this many octets at most.
const MAX_RECORD: u64 = u16::MAX as u64;

/// What has left beyond SND.NXT, and what of it has arrived.
#[derive(Debug, Default)]
pub(super) struct TailLoop {
    /// What left, above SND.NXT.
    sent: Ranges,
    /// What of that the peer says it has.
    held: Ranges,
    /// What left that SND.NXT has come to since.
    behind: Ranges,
    plan: Option<ProbePlan>,
    /// The plan that the count is of.
    id: Option<u32>,
    count: u32,
    next_at: Time,
    /// Octets that the ACK in hand says to have arrived, and how many segments those were.
    arrived: u64,
    segments: u64,
}

/// Between what the loop may send.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// What lies below goes by the window, at once or as soon as the pacer lets it.
    floor: u64,
    /// The end of what is queued or of the peer's window.
    top: u64,
    mss: u64,
    /// What is left at the top is too little for a segment of its own, and more may come.
    wait: bool,
}

impl TailLoop {
    /// Follows the controller's plan. One with another number has its own budget.
    pub(super) fn follow(&mut self, now: Time, plan: Option<ProbePlan>) {
        let id = plan.map(|plan| plan.id);
        if id.is_some() && id != self.id {
            (self.id, self.count, self.next_at) = (id, 0, self.next_at.max(now));
        }
        self.plan = plan;
    }

    /// The plan, if more may leave under it.
    fn open_plan(&self) -> Option<ProbePlan> {
        self.plan.filter(|plan| self.count < plan.segments)
    }

    /// The segment to send next: the highest that did not leave yet.
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

    /// Notes that a segment leaves; `false` if there is no room to remember it.
    fn note_sent(&mut self, piece: Range<u64>) -> bool {
        let noted = self.sent.insert(piece, MAX_SENT).is_some();
        self.count += u32::from(noted);
        noted
    }

    fn note_departure(&mut self, now: Time, gap: Span, segments: u64) {
        self.next_at = self.next_at.max(now - gap * LATE) + gap * segments;
    }

    fn count_arrived(&mut self, bytes: u64, mss: u64) {
        self.arrived = self.arrived.saturating_add(bytes);
        self.segments = self.segments.saturating_add(bytes.div_ceil(mss.max(1)));
    }

    /// The peer says that it has this. Whether all of it was sent.
    fn take_sack(&mut self, block: &Range<u64>, mss: u64) -> bool {
        if !self.sent.hold(block) {
            return false;
        }
        if let Some(new) = self.held.insert(block.clone(), MAX_HELD) {
            self.count_arrived(new, mss);
        }
        true
    }

    /// SND.NXT moves up to here.
    fn advance(&mut self, nxt: u64) {
        for range in self.sent.take_below(nxt) {
            self.behind.keep_highest(MAX_BEHIND - 1);
            let _ = self.behind.insert(range, MAX_BEHIND);
        }
        drop(self.held.take_below(nxt));
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.sent.memory() + self.held.memory() + self.behind.memory()
    }
}

impl Sender {
    /// The end of what has left without a gap: SND.NXT, and what the loop from the tail has sent right behind it. No honest peer
    /// acknowledges more. Pure ACKs carry this number: the peer's RCV.NXT may be beyond SND.NXT, and a segment to the left of
    /// RCV.NXT is not acceptable (RFC 9293, section 3.10.7.4), so that both ends would drop each other's ACKs.
    pub(super) fn sent_to(&self) -> u64 {
        let ahead = self.tail.as_ref().and_then(|tail| tail.sent.first()).filter(|range| range.start <= self.nxt);
        ahead.map_or(self.nxt, |range| range.end.max(self.nxt))
    }

    /// Unsent bytes up to the first that left from the tail.
    pub(super) fn fresh(&self) -> u64 {
        let ahead = self.tail.as_ref().and_then(|tail| tail.sent.first());
        ahead.map_or(self.unsent(), |range| range.start.saturating_sub(self.nxt).min(self.unsent()))
    }

    /// How much of `len` bytes of new data comes before what the peer has already.
    pub(super) fn before_held(&self, len: u64) -> u64 {
        let held = self.tail.as_ref().and_then(|tail| tail.held.first());
        held.filter(|range| range.start > self.nxt).map_or(len, |range| len.min(range.start - self.nxt))
    }

    /// Whether the loop would send what a writer has.
    pub(super) fn has_open_tail(&self) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.open_plan().is_some())
    }

    /// SND.NXT has come to `nxt` by sending what lies from `start` on. Whether some of that had left before.
    fn has_sent_again(&mut self, start: u64, nxt: u64) -> bool {
        let Some(tail) = &mut self.tail else { return false };
        let again = tail.sent.meet(&(start..nxt));
        tail.advance(nxt);
        again
    }

    /// A cumulative ACK above SND.NXT: front meets tail.
    pub(super) fn meet_tail(&mut self, ack: u64, mss: u64) {
        let Some(tail) = self.tail.as_mut().filter(|_| ack > self.nxt) else { return };
        if let Some(new) = tail.held.insert(self.nxt..ack, MAX_HELD + 1) {
            tail.count_arrived(new, mss);
        }
        tail.advance(ack);
        self.nxt = ack;
    }

    /// Takes the part of a SACK block above SND.NXT. Whether all of that was sent.
    pub(super) fn sack_ahead(&mut self, left: u64, right: u64, mss: u64) -> bool {
        let nxt = self.nxt;
        self.tail.as_mut().is_some_and(|tail| tail.take_sack(&(left.max(nxt)..right), mss))
    }
}

impl Connection {
    /// Takes over a plan of new data from the tail, or that there is none.
    pub(super) fn follow_tail_plan(&mut self, now: Time, plan: Option<ProbePlan>) {
        match &mut self.snd.tail {
            Some(tail) => tail.follow(now, plan),
            None if plan.is_some() => self.snd.tail.insert(Box::default()).follow(now, plan),
            None => {}
        }
    }

    /// Sends what is next from the tail, if it is time. Nothing goes to a peer of which no round trip is known, nor while one that
    /// was silent for a timeout has yet to answer.
    pub(super) fn transmit_from_tail(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> bool {
        let Some(plan) = self.snd.tail.as_ref().and_then(|tail| tail.open_plan()) else { return false };
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        let silent = self.rtt.srtt().is_none() || self.rtt.backoff() > 0;
        if silent || !matches!(self.life.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return false;
        }
        let bounds = self.tail_bounds();
        let Some(tail) = self.snd.tail.as_mut() else { return false };
        let Some(first) = tail.next_piece(bounds) else {
            self.timers.stop(Timer::Copy);
            return false;
        };
        if now < tail.next_at {
            self.timers.arm(Timer::Copy, tail.next_at);
            return false;
        }
        let sent = self.fill_from_tail(now, batch, max_segments, &plan, bounds, first);
        if sent == 0 {
            self.timers.stop(Timer::Copy);
            return false;
        }
        if let Some(tail) = &mut self.snd.tail {
            tail.note_departure(now, plan.gap, sent);
        }
        self.stats.segments_out += sent;
        self.refresh_control();
        true
    }

    /// What the window admits now is the primary loop's, whether or not it waits for the pacer. Nothing leaves above the peer's
    /// window.
    fn tail_bounds(&self) -> Bounds {
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

    /// Fills a batch with segments of one priority, from `first` downwards, as many as may leave at once.
    fn fill_from_tail(
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
        // A mark would be echoed as if the window had met it; a queue that drops the segment says the same.
        batch.ecn = Ecn::NotEct;
        let (mut next, mut sent) = (Some(first), 0);
        while let Some(piece) = next.take().filter(|piece| sent < at_once && level_of(piece) == level) {
            let len = (piece.end - piece.start) as u16;
            let open = self.snd.has_open_tail() && batch.admits(header_len + usize::from(len), max_segments);
            let noted = open && self.snd.tail.as_mut().is_some_and(|tail| tail.note_sent(piece.clone()));
            if !noted {
                break;
            }
            self.push_from_tail(now, batch, &template, piece.start, len);
            sent += 1;
            next = self.snd.tail.as_ref().and_then(|tail| tail.next_piece(bounds));
        }
        sent
    }

    fn push_from_tail(&mut self, now: Time, batch: &mut Batch, template: &Header, start: u64, len: u16) {
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

    /// Moves SND.NXT over what the peer has already, in the burst that is open.
    pub(super) fn pass_over_held(&mut self) {
        let mss = u64::from(self.mss()).max(1);
        // Records are of whole segments, should they ever have to be sent.
        let most = MAX_RECORD / mss * mss;
        while let Some(range) = self.snd.tail.as_ref().and_then(|tail| tail.held.first()) {
            if range.start > self.snd.nxt {
                return;
            }
            if self.snd.board.is_empty() {
                // All before it is acknowledged, and it is not: the peer has it no longer (RFC 2018, section 8).
                self.forget_held();
                return;
            }
            while self.snd.nxt < range.end {
                let len = (range.end - self.snd.nxt).min(most);
                self.snd.board.push_passed(self.snd.nxt, len as u16);
                self.snd.nxt += len;
            }
            if let Some(tail) = &mut self.snd.tail {
                tail.advance(self.snd.nxt);
            }
        }
    }

    /// SND.NXT has come to where it is by a new segment that begins at `start`, the newest record.
    pub(super) fn note_sent_again(&mut self, start: u64) {
        if !self.snd.has_sent_again(start, self.snd.nxt) {
            return;
        }
        self.snd.board.note_early();
        if let Some(probes) = &mut self.ext.probes {
            add(&mut probes.info_mut().lost, 1);
        }
    }

    fn forget_held(&mut self) {
        if let Some(tail) = &mut self.snd.tail {
            tail.held.clear();
        }
    }

    /// Forgets every SACK: the receiver reneged (RFC 2018, section 8).
    pub(super) fn renege(&mut self) {
        self.snd.board.renege();
        self.forget_held();
    }

    /// The peer acknowledges what was not sent.
    pub(super) fn refuse_ahead(&mut self) {
        if let Some(probes) = self.ext.probes.as_mut().filter(|_| self.snd.tail.is_some()) {
            add(&mut probes.info_mut().refused, 1);
        }
    }

    /// Whether an ACK speaks first of what left from the tail: such a one is no duplicate of what the window's segments draw.
    pub(super) fn speaks_of_tail(&self, header: &Header, ack: u64) -> bool {
        let beyond = |block: &SackBlock| self.numbers.our_offset(block.right, ack) > self.snd.nxt as i64;
        self.snd.tail.is_some() && header.options.sack.as_slice().first().is_some_and(beyond)
    }

    /// Whether a duplicate that the peer reports is of what left twice because it had left from the tail before: nobody sent it
    /// needlessly.
    pub(super) fn is_of_tail(&self, left: u64, right: u64) -> bool {
        self.snd.tail.as_ref().is_some_and(|tail| tail.behind.meet(&(left..right)))
    }

    /// Tells the controller, and counts, what of the tail has arrived.
    pub(super) fn tell_ahead(&mut self, at: Time) -> u64 {
        let Some(tail) = self.snd.tail.as_mut().filter(|tail| tail.arrived > 0) else { return 0 };
        let (bytes, segments) = (std::mem::take(&mut tail.arrived), std::mem::take(&mut tail.segments));
        if let Some(probes) = &mut self.ext.probes {
            let info = probes.info_mut();
            add(&mut info.acked, segments);
            add(&mut info.carried, bytes);
        }
        self.tell(&PathEvent::Ahead { at, bytes: Bytes(bytes) });
        bytes
    }
}

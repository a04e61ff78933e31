//! Low-priority loop of RC3 (Mittal et al., NSDI 2014): sends new data from the end of the send buffer backwards,
//! each octet once, until it meets the primary loop, which sends from SND.NXT forwards within the window.
//!
//! Data sent by the RC3 loop lies beyond SND.NXT, where the [`Sender`](super::sender::Sender) records it. Only the
//! primary loop retransmits, counts duplicate ACKs, takes RTT samples and opens the window
//! (`docs/decisions/0022-data-from-the-tail.md`).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::ops::Range;

use longhaul_cc::{PathEvent, ProbePlan, SegmentKind, TxId};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Ecn, Flags, Header, SackBlock};

use super::sender::Bounds;
use super::timers::Timer;
use super::{Connection, State};
use crate::batch::Batch;
use crate::info::add;

/// Burst size: the data of this time at the plan's rate, but at least two segments, as with the pacer.
const QUANTUM: Span = Span::from_micros(250);
const LEAST_AT_ONCE: u64 = 2;
const MOST_AT_ONCE: u64 = 64;

/// Next segments of the loop.
struct Tail {
    plan: ProbePlan,
    bounds: Bounds,
    first: Range<u64>,
}

impl Tail {
    /// Returns the priority level of a segment, by its distance from the end of the data.
    fn level_of(&self, piece: &Range<u64>) -> u8 {
        let from_end = (self.bounds.top - piece.start).div_ceil(self.bounds.mss);
        self.plan.from_tail().map_or(1, |levels| levels.of(from_end))
    }

    /// Returns the number of segments that may be sent at once.
    fn at_once(&self) -> u64 {
        let in_quantum = QUANTUM.as_nanos().checked_div(self.plan.gap.as_nanos()).unwrap_or(MOST_AT_ONCE);
        in_quantum.clamp(LEAST_AT_ONCE, MOST_AT_ONCE)
    }
}

impl Connection {
    /// Sends the next segments from the tail if they are due. Nothing is sent before the first RTT sample, or between
    /// a retransmission timeout and the next acknowledgment of new data.
    pub(super) fn transmit_rc3(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> bool {
        let Some(plan) = self.snd.rc3_plan() else { return false };
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        let silent = self.rtt.srtt().is_none() || self.rtt.backoff() > 0;
        if silent || !matches!(self.life.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return false;
        }
        let room = self.cc.control.cwnd.0.saturating_sub(self.pipe());
        let bounds = self.snd.rc3_bounds(room, u64::from(self.mss()).max(1));
        let Some((first, due_at)) = self.snd.next_from_tail(bounds) else {
            self.timers.stop(Timer::Copy);
            return false;
        };
        if now < due_at {
            self.timers.arm(Timer::Copy, due_at);
            return false;
        }
        let sent = self.fill_rc3(now, batch, max_segments, &Tail { plan, bounds, first });
        if sent == 0 {
            self.timers.stop(Timer::Copy);
            return false;
        }
        self.snd.schedule_tail(now, plan.gap, sent);
        self.stats.segments_out += sent;
        self.refresh_control();
        true
    }

    /// Fills a batch with segments of one priority, downwards, up to the number that may be sent at once.
    fn fill_rc3(&mut self, now: Time, batch: &mut Batch, max_segments: usize, tail: &Tail) -> u64 {
        let template = self.header(now, Flags::ACK | self.echo_flag(), tail.first.start);
        let header_len = CheshireCodec::header_len(&template.options);
        let (level, at_once) = (tail.level_of(&tail.first), tail.at_once());
        batch.dscp = tail.plan.dscp_of(level);
        // These segments are not ECN-capable: the echo of a CE mark would be attributed to data in the window.
        batch.ecn = Ecn::NotEct;
        let (mut next, mut sent) = (Some(tail.first.clone()), 0);
        while let Some(piece) = next.take().filter(|piece| sent < at_once && tail.level_of(piece) == level) {
            let len = (piece.end - piece.start) as u16;
            let fits = batch.admits(header_len + usize::from(len), max_segments);
            if !(fits && self.snd.send_from_tail(piece.clone())) {
                break;
            }
            self.push_rc3(now, batch, &template, piece.start, len);
            sent += 1;
            next = self.snd.next_from_tail(tail.bounds).map(|(piece, _)| piece);
        }
        sent
    }

    fn push_rc3(&mut self, now: Time, batch: &mut Batch, template: &Header, start: u64, len: u16) {
        let sequence = self.numbers.sequence(start);
        if batch.is_empty() {
            batch.push(&Header { seq: sequence, ..template.clone() }, start, len);
        } else {
            batch.push_like_last(sequence, start, len, 1);
        }
        self.ext.count_probes(|info| {
            add(&mut info.sent, 1);
            add(&mut info.bytes_sent, u64::from(len));
        });
        let before = self.pipe();
        self.report_sent(now, TxId(0), len, before, SegmentKind::Probe);
    }

    /// Counts a new segment whose data the RC3 loop had sent before in vain.
    pub(super) fn count_rc3_resend(&mut self) {
        self.ext.count_probes(|info| add(&mut info.lost, 1));
    }

    /// Counts an acknowledgment of data that was not sent.
    pub(super) fn count_invalid_ack(&mut self) {
        if self.snd.has_rc3() {
            self.ext.count_probes(|info| add(&mut info.refused, 1));
        }
    }

    /// Returns whether the first SACK block is above SND.NXT. Such an ACK is triggered by the RC3 loop and is no
    /// duplicate ACK.
    pub(super) fn reports_rc3_data(&self, header: &Header, ack: u64) -> bool {
        let beyond = |block: &SackBlock| self.numbers.our_offset(block.right, ack) > self.snd.nxt() as i64;
        self.snd.has_rc3() && header.options.sack.as_slice().first().is_some_and(beyond)
    }

    /// Reports newly arrived data of the tail to the controller, and returns its length in bytes.
    pub(super) fn report_rc3_arrivals(&mut self, at: Time) -> u64 {
        let Some((bytes, segments)) = self.snd.take_rc3_arrivals() else { return 0 };
        self.ext.count_probes(|info| {
            add(&mut info.acked, segments);
            add(&mut info.carried, bytes);
        });
        self.tell(&PathEvent::Ahead { at, bytes: Bytes(bytes) });
        bytes
    }
}

//! Low-priority loop of RC3 (Mittal et al., NSDI 2014): sends new data from the end of the send buffer backwards,
//! each octet once, until it meets the primary loop, which sends from SND.NXT forwards within the window.
//!
//! Its data is [sent ahead](crate::connection::sender::Ahead). Only the primary loop retransmits, counts duplicate ACKs,
//! takes RTT samples and opens the window (`docs/decisions/0022-data-from-the-tail.md`).

use std::ops::Range;

use longhaul_cc::{Control, PathEvent, ProbePlan, SegmentKind, TxId};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Ecn, Header};

use super::{AckFacts, Claims, Extension, Filled, Outgoing, Turn};
use crate::connection::sender::AheadBounds;
use crate::connection::{Engine, SendLoop, Sender};
use crate::{Info, State, add};

/// Burst size: the data sent in this time at the plan's rate, but at least two segments, as with the pacer.
const QUANTUM: Span = Span::from_micros(250);
const LEAST_AT_ONCE: u64 = 2;
const MOST_AT_ONCE: u64 = 64;
/// Number of gaps by which a segment may be late without delaying the next one.
const LATE: u64 = 1;

/// The loop and the controller's plan for it.
#[derive(Debug, Default)]
pub(super) struct Rc3 {
    plan: Option<ProbePlan>,
    /// The plan to which `count`, the number of segments sent, applies.
    id: Option<u32>,
    count: u32,
    next_at: Time,
}

/// State of the loop: where it sends next.
#[derive(Clone, Copy, Debug)]
struct Tail {
    plan: ProbePlan,
    bounds: AheadBounds,
    mss: u64,
}

impl Tail {
    /// Returns the next segment: the highest octets that were not sent. One at the top must be full-sized if more data may
    /// follow.
    fn next(&self, snd: &Sender) -> Option<Range<u64>> {
        let Self { bounds: AheadBounds { floor, top, may_grow }, mss, .. } = *self;
        let mut end = top;
        while let Some(gap) = snd.gap_ahead(floor..end) {
            if gap.end == top && may_grow && gap.end - gap.start < mss {
                end = gap.start;
                continue;
            }
            return Some(gap.start.max(gap.end.saturating_sub(mss))..gap.end);
        }
        None
    }

    fn level_of(&self, piece: &Range<u64>) -> u8 {
        let from_end = (self.bounds.top - piece.start).div_ceil(self.mss);
        self.plan.from_tail().map_or(1, |levels| levels.of(from_end))
    }

    fn at_once(&self) -> u64 {
        let in_quantum = QUANTUM.as_nanos().checked_div(self.plan.gap.as_nanos()).unwrap_or(MOST_AT_ONCE);
        in_quantum.clamp(LEAST_AT_ONCE, MOST_AT_ONCE)
    }
}

impl Rc3 {
    fn open_plan(&self) -> Option<ProbePlan> {
        self.plan.filter(|plan| self.count < plan.segments)
    }

    /// Fills a batch with segments of one priority, downwards from `first`, up to the number that may be sent at once, and
    /// returns their number.
    fn fill(
        &mut self,
        send_loop: &mut SendLoop<'_>,
        out: &mut Outgoing<'_>,
        template: &Header,
        tail: Tail,
        first: Range<u64>,
    ) -> u64 {
        let header_len = CheshireCodec::header_len(&template.options);
        let (level, at_once) = (tail.level_of(&first), tail.at_once());
        out.batch.dscp = tail.plan.dscp_of(level);
        // These segments are not ECN-capable: the echo of a CE mark would be attributed to data in the window.
        out.batch.ecn = Ecn::NotEct;
        let (mut next, mut sent) = (Some(first), 0);
        while let Some(piece) = next.take().filter(|piece| sent < at_once && tail.level_of(piece) == level) {
            let (start, len) = (piece.start, (piece.end - piece.start) as u16);
            let fits = out.batch.admits(header_len + usize::from(len), out.max_segments);
            if !(fits && self.open_plan().is_some() && send_loop.snd.send_ahead(piece)) {
                break;
            }
            self.count += 1;
            let sequence = send_loop.numbers.sequence(start);
            if out.batch.is_empty() {
                out.batch.push(&Header { seq: sequence, ..template.clone() }, start, len);
            } else {
                out.batch.push_like_last(sequence, start, len, 1);
            }
            let before = send_loop.loss.pipe(&send_loop.snd.board);
            send_loop.control_loop().report_sent(out.now, TxId(0), len, before, SegmentKind::Probe);
            sent += 1;
            next = tail.next(send_loop.snd);
        }
        sent
    }
}

impl Extension for Rc3 {
    fn on_ack(&mut self, ack: &AckFacts<'_>, snd: &mut Sender, claims: &mut Claims) {
        let nxt = snd.nxt;
        let Some(ahead) = &mut snd.ahead else { return };
        // An ACK that data beyond SND.NXT has triggered is not a duplicate ACK.
        claims.has_own_cause |= ahead.arrived > 0 || ack.sack.is_beyond(nxt);
        claims.owns_dsack |= ack.dsack.is_some_and(|(left, right)| ahead.behind.meet(&(left..right)));
        let bytes = Bytes(std::mem::take(&mut ahead.arrived));
        if bytes > Bytes::ZERO {
            claims.event = Some(PathEvent::Ahead { at: ack.segment.received_at(), bytes });
        }
    }

    /// Adopts the controller's plan for new data from the tail, or its end. A plan with a new number has a new budget.
    fn follow(&mut self, now: Time, control: &Control, snd: &mut Sender) {
        let plan = control.probe.filter(|plan| plan.from_tail().is_some());
        let id = plan.map(|plan| plan.id);
        if id.is_some() && id != self.id {
            (self.id, self.count, self.next_at) = (id, 0, self.next_at.max(now));
        }
        self.plan = plan;
        snd.intend_ahead(self.open_plan().is_some());
    }

    /// Sends the next segments from the tail if they are due. Nothing is sent before the first RTT sample, or between
    /// a retransmission timeout and the next acknowledgment of new data.
    fn send(&mut self, turn: Turn, engine: &mut Engine<'_>, out: &mut Outgoing<'_>) -> Filled {
        use State::{CloseWait, Closing, Established, FinWait1, LastAck};
        let Some(plan) = self.open_plan().filter(|_| turn == Turn::Last) else { return Filled::Nothing(None) };
        let silent = engine.rtt.srtt.is_none() || engine.rtt.backoff > 0;
        if silent || !matches!(engine.life.state, Established | CloseWait | FinWait1 | Closing | LastAck) {
            return Filled::Nothing(None);
        }
        let (room, mss) = (engine.cc.room(engine.snd, engine.loss), u64::from(engine.pmtu.mss()).max(1));
        let tail = Tail { plan, bounds: engine.snd.ahead_bounds(room, mss), mss };
        let Some(first) = tail.next(engine.snd) else { return Filled::Nothing(None) };
        if out.now < self.next_at {
            return Filled::Nothing(Some(self.next_at));
        }
        let template = engine.headers().header(out.now, first.start);
        let sent = self.fill(&mut engine.send_loop(), out, &template, tail, first);
        if sent == 0 {
            return Filled::Nothing(None);
        }
        self.next_at = self.next_at.max(out.now - plan.gap * LATE) + plan.gap * sent;
        engine.snd.intend_ahead(self.open_plan().is_some());
        Filled::Beside
    }

    fn is_passive(&self) -> bool {
        false
    }

    /// Counts data sent ahead as probes.
    fn info(&self, snd: &Sender, info: &mut Info) {
        let (ahead, probes) = (snd.ahead.as_ref().map(|ahead| ahead.counts), info.probes.get_or_insert_default());
        let ahead = ahead.unwrap_or_default();
        add(&mut probes.sent, ahead.sent);
        add(&mut probes.bytes_sent, ahead.bytes_sent);
        add(&mut probes.acked, ahead.acked);
        add(&mut probes.lost, ahead.lost);
        add(&mut probes.refused, ahead.refused);
        add(&mut probes.carried_bytes, ahead.carried_bytes);
        info.delivered += ahead.carried_bytes;
    }
}

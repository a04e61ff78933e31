//! Low-priority loop of RC3 (Mittal et al., NSDI 2014): sends new data from the end of the send buffer backwards,
//! each octet once, until it meets the primary loop, which sends from SND.NXT forwards within the window.
//!
//! Data sent by the RC3 loop lies beyond SND.NXT, where the [`Sender`](super::sender::Sender) records it. Only the
//! primary loop retransmits, counts duplicate ACKs, takes RTT samples and opens the window
//! (`docs/decisions/0022-data-from-the-tail.md`).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::ops::Range;

use longhaul_cc::{ProbePlan, SegmentKind, TxId};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Ecn, Header};

use super::SendLoop;
use super::sender::Bounds;
use crate::{Batch, add};

/// Burst size: the data of this time at the plan's rate, but at least two segments, as with the pacer.
const QUANTUM: Span = Span::from_micros(250);
const LEAST_AT_ONCE: u64 = 2;
const MOST_AT_ONCE: u64 = 64;

/// Next segments of the loop.
pub(super) struct Tail {
    pub(super) plan: ProbePlan,
    pub(super) bounds: Bounds,
    pub(super) first: Range<u64>,
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

/// Fills a batch with segments of one priority, downwards, up to the number that may be sent at once, and returns their
/// number.
pub(super) fn fill(
    out: &mut SendLoop<'_>,
    now: Time,
    batch: &mut Batch,
    max_segments: usize,
    template: &Header,
    tail: &Tail,
) -> u64 {
    let header_len = CheshireCodec::header_len(&template.options);
    let (level, at_once) = (tail.level_of(&tail.first), tail.at_once());
    batch.dscp = tail.plan.dscp_of(level);
    // These segments are not ECN-capable: the echo of a CE mark would be attributed to data in the window.
    batch.ecn = Ecn::NotEct;
    let (mut next, mut sent) = (Some(tail.first.clone()), 0);
    while let Some(piece) = next.take().filter(|piece| sent < at_once && tail.level_of(piece) == level) {
        let len = (piece.end - piece.start) as u16;
        let fits = batch.admits(header_len + usize::from(len), max_segments);
        if !(fits && out.snd.send_from_tail(piece.clone())) {
            break;
        }
        push(out, now, batch, template, piece.start, len);
        sent += 1;
        next = out.snd.next_from_tail(tail.bounds).map(|(piece, _)| piece);
    }
    sent
}

fn push(out: &mut SendLoop<'_>, now: Time, batch: &mut Batch, template: &Header, start: u64, len: u16) {
    let sequence = out.numbers.sequence(start);
    if batch.is_empty() {
        batch.push(&Header { seq: sequence, ..template.clone() }, start, len);
    } else {
        batch.push_like_last(sequence, start, len, 1);
    }
    out.ext.count_probes(|info| {
        add(&mut info.sent, 1);
        add(&mut info.bytes_sent, u64::from(len));
    });
    let before = out.loss.pipe(out.snd.board());
    out.control_loop().report_sent(now, TxId(0), len, before, SegmentKind::Probe);
}

//! Segments that continue the one before them in a receive batch, as receive offload delivers them. They cost less than
//! others, because most of what they say has been checked with the first.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_units::Time;
use longhaul_wire::{Ecn, Flags, Header};

use super::Connection;
use super::input::{Arrival, Payload, SegmentMeta};
use crate::info::add;

/// Returns whether a segment with this header may be followed by others in a train: it only acknowledges and carries
/// data.
pub(super) fn may_lead(meta: &SegmentMeta, header: &Header) -> bool {
    let is_plain = header.flags == Flags::ACK || header.flags == Flags::ACK | Flags::PSH;
    is_plain && meta.ecn != Ecn::Ce && header.options.only_timestamps().is_some()
}

impl Connection {
    /// Handles the next segment of a train: of the same receive batch as one for which
    /// [`handle_segment`](Self::handle_segment) or this method has returned `true`, with the same header except for the
    /// sequence number. Returns `false` if the segment does not follow in order, or something else needs to be checked;
    /// it must then be passed to `handle_segment`.
    ///
    /// The acknowledgment, the window and the timestamps of such a segment have been processed with those of the one
    /// before, and the timers have been set. TS.Recent does not change either, as long as the segment begins after the
    /// last ACK (RFC 7323, section 4.3).
    pub fn handle_next(&mut self, now: Time, meta: &SegmentMeta, header: &Header, payload: Payload<'_>) -> bool {
        let start = self.rcv.next_data();
        let follows = self.numbers.peer_offset(header.seq, start) == start as i64;
        let end = start.saturating_add(payload.len() as u64);
        let is_simple = follows
            && !payload.is_empty()
            && end < self.rcv.acceptable_data().end
            && start > self.rcv.acks.last_sent()
            && self.observers.is_empty();
        if !is_simple {
            return false;
        }
        let now = self.timers.advance(now);
        add(&mut self.stats.segments_in, 1);
        if self.numbers.our_offset(header.ack, self.snd.una()) == self.snd.una() as i64 {
            self.snd.repeat_window(start);
        }
        self.note_arrival(start as i64, meta.rx_time.unwrap_or(now).min(now), meta.coalesced);
        self.process_text(now, &Arrival { header, payload, start: start as i64 });
        true
    }
}
